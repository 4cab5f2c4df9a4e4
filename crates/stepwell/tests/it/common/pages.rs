//! Pages that people read, and the commands in them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use stepwell_settings::look_up;

use super::Workshop;

/// Pages in the root of the repository.
const AT_THE_ROOT: [&str; 5] =
    ["README.md", "ARCHITECTURE.md", "BENCHMARKS.md", "CHANGELOG.md", "CONTRIBUTING.md"];

pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().find(|folder| folder.join("ARCHITECTURE.md").exists()).unwrap().to_owned()
}

pub(crate) fn page(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Names of the pages under `docs/`, from the root.
pub(crate) fn pages_of_the_book() -> Vec<String> {
    let (mut pages, mut folders) = (Vec::new(), vec!["docs".to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let name = format!("{folder}/{}", entry.file_name().to_str().unwrap());
            match entry.file_type().unwrap().is_dir() {
                true => folders.push(name),
                false if name.ends_with(".md") => pages.push(name),
                false => {}
            }
        }
    }
    pages.sort();
    pages
}

pub(crate) fn all_pages() -> Vec<String> {
    let root = AT_THE_ROOT.into_iter().map(String::from);
    root.chain(pages_of_the_book()).collect()
}

/// A fenced block: what stands behind the first fence, and the text.
pub(crate) struct Fenced {
    pub(crate) info: String,
    pub(crate) text: String,
}

/// The text of a page without its fenced blocks, and these.
pub(crate) fn taken_apart(text: &str) -> (String, Vec<Fenced>) {
    let (mut prose, mut blocks, mut open) = (String::new(), Vec::new(), None::<Fenced>);
    for line in text.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(info), None) => {
                open = Some(Fenced { info: info.to_owned(), text: String::new() });
            }
            (None, Some(block)) => block.text += &format!("{line}\n"),
            (None, None) => prose += &format!("{line}\n"),
        }
    }
    assert!(open.is_none(), "a fence is not closed");
    (prose, blocks)
}

/// The words of a line of shell up to the end of its command, for each command of it.
fn commands(line: &str) -> Vec<Vec<String>> {
    let (mut all, mut words, mut word, mut quote) = (Vec::new(), Vec::new(), None, None);
    for c in line.chars().chain([';']) {
        match (quote, c) {
            (Some(end), c) if c == end => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_with(String::new);
            }
            (None, ' ') => words.extend(word.take()),
            (None, '#') if word.is_none() => break,
            (None, '|' | ';' | '&' | '>' | '<' | '(' | ')') => {
                words.extend(word.take());
                all.push(std::mem::take(&mut words));
            }
            (_, c) => word.get_or_insert_with(String::new).push(c),
        }
    }
    words.extend(word.take());
    all.push(words);
    all
}

/// Lines of shell, those joined that end in a backslash.
pub(crate) fn lines_of_shell(text: &str) -> Vec<String> {
    text.replace("\\\n", " ").lines().map(str::to_owned).collect()
}

/// Help of the program's commands, each asked for once.
struct Help {
    shop: Workshop,
    known: BTreeMap<Vec<String>, Option<String>>,
}

impl Help {
    fn of(&mut self, command: &[String]) -> Option<String> {
        if let Some(known) = self.known.get(command) {
            return known.clone();
        }
        let mut args: Vec<&str> = command.iter().map(String::as_str).collect();
        args.push("--help-all");
        let mut output = self.shop.run(&args);
        if !output.status.success() {
            args.pop();
            args.push("--help");
            output = self.shop.run(&args);
        }
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let help = output.status.success().then_some(text);
        self.known.insert(command.to_vec(), help.clone());
        help
    }

    /// What is wrong with the words behind `stepwell`.
    fn fault(&mut self, words: &[String]) -> Option<String> {
        let Some(first) = words.first() else { return Some("no command".to_owned()) };
        if first.starts_with('-') {
            return None;
        }
        let mut command = vec![first.clone()];
        let mut help = self.of(&command)?;
        if help.contains("<COMMAND>\n") {
            // The name of the group alone, in prose.
            command.push(words.get(1)?.clone());
            let Some(of_part) = self.of(&command) else {
                return Some(format!("there is no command {command:?}"));
            };
            help = of_part;
        }
        let is_end = |c: char| c.is_whitespace() || ",=[".contains(c);
        let flags: BTreeSet<&str> = help.split(is_end).filter(|w| w.starts_with('-')).collect();
        for (at, word) in words.iter().enumerate().filter(|(_, word)| word.starts_with("--")) {
            let flag = word.split('=').next().unwrap_or(word);
            let key = &flag[2..];
            let drawn = ["tables.", "features.", "columns."];
            let is_setting = drawn.iter().any(|group| key.starts_with(group));
            let is_known = flags.contains(flag) || (is_setting && look_up(key).is_ok());
            if !is_known {
                return Some(format!("{command:?} has no {flag}"));
            }
            let of_set = (flag == "--set").then(|| words.get(at + 1)).flatten();
            let key = of_set.and_then(|set| set.split('=').next());
            if let Some(key) = key.filter(|key| look_up(key).is_err()) {
                return Some(format!("there is no setting {key}"));
            }
        }
        None
    }
}

/// Lines of shell of a page: fenced ones, and in prose what stands between backticks.
fn shell_of(name: &str, program: &str) -> Vec<String> {
    let (prose, blocks) = taken_apart(&page(name));
    let fenced = blocks.iter().filter(|block| block.info.split(' ').next() == Some("sh"));
    let mut lines: Vec<String> = fenced.flat_map(|block| lines_of_shell(&block.text)).collect();
    // The diary of benchmarks has commands of its day; a format has words that are no commands.
    let others = ["docs/checkpoint.md", "docs/internals/measurements.md"];
    if !AT_THE_ROOT[1..].contains(&name) && !others.contains(&name) {
        let prose = prose.replace('\n', " ");
        let begin = format!("{program} ");
        let quoted = prose.split('`').skip(1).step_by(2);
        lines.extend(quoted.filter(|quote| quote.starts_with(&begin)).map(str::to_owned));
    }
    lines
}

/// Asserts that the commands of `program` in all pages exist, with their flags and settings, and
/// returns their number.
pub(crate) fn check_commands(program: &str) -> usize {
    let mut help = Help { shop: Workshop::new(), known: BTreeMap::new() };
    let (mut count, mut wrong) = (0, Vec::new());
    for name in all_pages() {
        for words in shell_of(&name, program).iter().flat_map(|line| commands(line)) {
            let Some(at) = words.iter().position(|word| word == program) else { continue };
            let is_launched = at == 0 || matches!(words[0].as_str(), "mpirun" | "srun");
            let words = &words[at + 1..];
            let is_placeholder = words.first().is_none_or(|word| *word == word.to_uppercase());
            if !is_launched || is_placeholder {
                continue;
            }
            count += 1;
            if help.of(&words[..1]).is_none() {
                wrong.push(format!("{name}: there is no command {words:?}"));
            } else if let Some(why) = help.fault(words) {
                wrong.push(format!("{name}: {why}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    count
}
