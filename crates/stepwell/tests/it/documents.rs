//! Documentation: links have targets, the book has every page, commands exist and run.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use stepwell_settings::look_up;

use crate::common::Workshop;

const AT_THE_ROOT: [&str; 5] =
    ["README.md", "ARCHITECTURE.md", "BENCHMARKS.md", "CHANGELOG.md", "CONTRIBUTING.md"];

/// Pages whose fenced files are written and whose fenced commands are run, from top to bottom.
const RUN: [&str; 2] = ["docs/data.md", "docs/quick-start.md"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Names of the pages under `docs/`, from the root.
fn pages_of_the_book() -> Vec<String> {
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

fn all_pages() -> Vec<String> {
    let root = AT_THE_ROOT.into_iter().map(String::from);
    root.chain(pages_of_the_book()).collect()
}

/// A fenced block: the text after the first fence, and the contents.
struct Fenced {
    info: String,
    text: String,
}

/// The text of a page without its fenced blocks, and the blocks.
fn taken_apart(text: &str) -> (String, Vec<Fenced>) {
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

/// Prose without the text between backticks.
fn without_code(prose: &str) -> String {
    prose.split('`').step_by(2).collect()
}

/// Targets of links, except web addresses.
fn links(prose: &str) -> Vec<String> {
    let prose = without_code(prose);
    let ends = [("](", ')'), ("src=\"", '"'), ("srcset=\"", '"'), ("href=\"", '"')];
    let of = |(begin, end): (&str, char)| {
        let after = prose.split(begin).skip(1);
        after.filter_map(|text| Some(text.split_once(end)?.0.to_owned())).collect::<Vec<_>>()
    };
    let all = ends.into_iter().flat_map(of);
    all.filter(|link| !link.contains("://") && !link.starts_with("mailto:")).collect()
}

/// Anchors of the headings.
fn anchors(prose: &str) -> BTreeSet<String> {
    let headings = prose.lines().filter_map(|line| Some(line.strip_prefix('#')?.trim_matches('#')));
    let anchor = |heading: &str| {
        let kept = |c: &char| c.is_alphanumeric() || " -_".contains(*c);
        let text: String = heading.trim().chars().filter(kept).collect();
        text.to_lowercase().replace(' ', "-")
    };
    headings.map(anchor).collect()
}

#[test]
fn every_link_leads_to_a_file_and_to_a_heading() {
    let (mut count, mut wrong) = (0, Vec::new());
    for name in all_pages() {
        let (prose, _) = taken_apart(&page(&name));
        let folder = root().join(&name).parent().unwrap().to_owned();
        for link in links(&prose) {
            count += 1;
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let path = if file.is_empty() { root().join(&name) } else { folder.join(file) };
            if !path.exists() {
                wrong.push(format!("{name}: {link}: there is no such file"));
            } else if !anchor.is_empty() && path.extension().is_some_and(|end| end == "md") {
                let (prose, _) = taken_apart(&fs::read_to_string(path).unwrap());
                if !anchors(&prose).contains(anchor) {
                    wrong.push(format!("{name}: {link}: there is no such heading"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(count > 50, "{count} links");
}

#[test]
fn the_summary_lists_every_page_once() {
    let listed = links(&page("docs/SUMMARY.md")).into_iter().map(|link| format!("docs/{link}"));
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    listed.for_each(|page| *counts.entry(page).or_default() += 1);
    for page in pages_of_the_book().iter().filter(|page| *page != "docs/SUMMARY.md") {
        let count = counts.remove(page).unwrap_or(0);
        assert_eq!(count, 1, "docs/SUMMARY.md lists {page} {count} times");
    }
    assert!(counts.is_empty(), "docs/SUMMARY.md lists what is not there: {counts:?}");
}

/// The words of each command in a line of shell.
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

/// Lines of shell; lines that end in a backslash are joined with the next.
fn lines_of_shell(text: &str) -> Vec<String> {
    text.replace("\\\n", " ").lines().map(str::to_owned).collect()
}

/// Help of the program's commands, each run once.
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

    /// What is wrong with the words after `stepwell`.
    fn fault(&mut self, words: &[String]) -> Option<String> {
        let Some(first) = words.first() else { return Some("no command".to_owned()) };
        if first.starts_with('-') {
            return None;
        }
        let mut command = vec![first.clone()];
        let mut help = self.of(&command)?;
        if help.contains("<COMMAND>\n") {
            // Only the name of the group, in prose.
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

/// Lines of shell of a page: fenced ones, and texts between backticks in prose.
fn shell_of(name: &str) -> Vec<String> {
    let (prose, blocks) = taken_apart(&page(name));
    let fenced = blocks.iter().filter(|block| block.info.split(' ').next() == Some("sh"));
    let mut lines: Vec<String> = fenced.flat_map(|block| lines_of_shell(&block.text)).collect();
    // Measurements have commands of earlier builds; a format has words that are not commands.
    let others = ["docs/checkpoint.md", "docs/internals/measurements.md"];
    if !AT_THE_ROOT[1..].contains(&name) && !others.contains(&name) {
        let prose = prose.replace('\n', " ");
        let quoted = prose.split('`').skip(1).step_by(2);
        lines.extend(quoted.filter(|quote| quote.starts_with("stepwell ")).map(str::to_owned));
    }
    lines
}

#[test]
fn commands_are_those_of_the_program() {
    let mut help = Help { shop: Workshop::new(), known: BTreeMap::new() };
    let (mut count, mut wrong) = (0, Vec::new());
    for name in all_pages() {
        for words in shell_of(&name).iter().flat_map(|line| commands(line)) {
            let Some(at) = words.iter().position(|word| word == "stepwell") else { continue };
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
    assert!(count > 100, "{count} commands");
}

#[test]
fn examples_run_from_top_to_bottom() {
    let bin = Path::new(env!("CARGO_BIN_EXE_stepwell")).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    for name in RUN {
        let shop = Workshop::new();
        let (_, blocks) = taken_apart(&page(name));
        for block in &blocks {
            if let Some((_, file)) = block.info.split_once(' ') {
                fs::write(shop.path(file), &block.text).unwrap();
            }
            if block.info != "sh" {
                continue;
            }
            for line in lines_of_shell(&block.text) {
                let mut shell = Command::new("sh");
                shell.args(["-c", &line]).env("PATH", &path).current_dir(shop.path("."));
                let output = shell.env("TMPDIR", shop.path(".")).output().unwrap();
                let error = String::from_utf8_lossy(&output.stderr);
                let refused = line.contains("# refused");
                assert_eq!(output.status.success(), !refused, "{name}: {line}: {error}");
                if refused {
                    assert_eq!(error.trim_end().lines().count(), 1, "{name}: {line}: {error}");
                }
            }
        }
    }
}
