//! Modules of a crate as its sources declare them, and the module at which each import ends.
//!
//! - **How.** A file becomes tokens without comments, literals and tests. `mod x;` leads to the
//!   next file. An import, or a path in a body, is followed through re-exports to the module that
//!   defines its item.
//! - **Limits.** Only items declared outside of blocks are known. An item made by a macro counts as
//!   defined where it is named. A module in braces is a part of its file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path as FilePath;

/// Names from the root of a crate to a module; empty for the root.
pub(super) type Path = Vec<String>;

const ITEMS: [&str; 7] = ["struct", "enum", "trait", "fn", "type", "const", "static"];
/// The most re-exports on the way to an item, against circles of them.
const HOPS_MAX: usize = 16;

/// Declarations and paths in one file.
#[derive(Default)]
pub(super) struct Module {
    children: BTreeSet<String>,
    items: BTreeSet<String>,
    uses: Vec<Use>,
    /// Paths in bodies and signatures.
    paths: Vec<Path>,
}

struct Use {
    path: Path,
    /// The name that it declares in its file.
    name: String,
    reexport: bool,
}

/// An import or a path in `from` whose item is defined in another module of the same crate, `to`.
pub(super) struct Import {
    pub(super) from: Path,
    pub(super) to: Path,
    /// The path as written.
    pub(super) text: String,
    /// Whether a re-export of the crate's root led there.
    pub(super) by_root: bool,
    /// Whether it is `Error` or `Result`.
    pub(super) error: bool,
}

/// Modules of a crate.
#[derive(Default)]
pub(super) struct Crate {
    pub(super) modules: BTreeMap<Path, Module>,
}

impl Crate {
    /// Reads `file`, which holds module `path`, and all below it.
    pub(super) fn read(&mut self, path: Path, file: &FilePath) -> Result<(), String> {
        let text = std::fs::read_to_string(file);
        let text = text.map_err(|error| format!("cannot read {}: {error}", file.display()))?;
        let module = Module::of(&text);
        let is_roof = ["lib.rs", "main.rs", "mod.rs"].iter().any(|name| file.ends_with(name));
        let folder = if is_roof { file.with_file_name("") } else { file.with_extension("") };
        for child in &module.children {
            let beside = folder.join(format!("{child}.rs"));
            let file = if beside.exists() { beside } else { folder.join(child).join("mod.rs") };
            self.read([&path[..], std::slice::from_ref(child)].concat(), &file)?;
        }
        self.modules.insert(path, module);
        Ok(())
    }

    /// Every import of the crate that leads to another of its modules, by module.
    pub(super) fn imports(&self) -> Vec<Import> {
        let mut imports = Vec::new();
        for (from, module) in &self.modules {
            let uses = module.uses.iter().filter(|import| !import.reexport);
            for path in uses.map(|import| &import.path).chain(&module.paths) {
                let Some((at, items)) = self.walk(from, path) else { continue };
                let Some(to) = self.definer(&at, items, HOPS_MAX) else { continue };
                let by_root = at.is_empty() && !items.is_empty() && !to.is_empty();
                let error = items.first().is_some_and(|item| item == "Error" || item == "Result");
                let by_root = by_root && !from.is_empty() && !error;
                if *from != to || by_root {
                    let text = path.join("::");
                    imports.push(Import { from: from.clone(), to, text, by_root, error });
                }
            }
        }
        imports
    }

    /// The module that `path` leads to from module `from`, and the items that remain of it; `None`
    /// if it leads out of the crate, or to no module.
    fn walk<'a>(&self, from: &Path, path: &'a [String]) -> Option<(Path, &'a [String])> {
        let (mut at, mut rest) = (from.clone(), path);
        let module = &self.modules[from];
        match path[0].as_str() {
            "crate" => (at, rest) = (Path::new(), &path[1..]),
            "self" => rest = &path[1..],
            "super" => {
                while rest.first().is_some_and(|name| name == "super") {
                    at.pop();
                    rest = &rest[1..];
                }
            }
            first if module.children.contains(first) => {}
            first => {
                let mut uses = module.uses.iter().filter(|import| import.name == first);
                let import = uses.find(|import| import.path != path && import.path[0] != first)?;
                let (module, []) = self.walk(from, &import.path)? else { return None };
                (at, rest) = (module, &path[1..]);
            }
        }
        while let [name, after @ ..] = rest {
            let module = &self.modules[&at];
            let is_item = after.is_empty() && module.items.contains(name);
            if is_item || !module.children.contains(name) {
                break;
            }
            at.push(name.clone());
            rest = after;
        }
        Some((at, rest))
    }

    /// The module that defines the first of `items`, which module `at` has or re-exports; `None` if
    /// another crate does.
    fn definer(&self, at: &Path, items: &[String], hops: usize) -> Option<Path> {
        let module = &self.modules[at];
        let Some(name) = items.first() else { return Some(at.clone()) };
        if name == "*" || module.items.contains(name) || hops == 0 {
            return Some(at.clone());
        }
        if let Some(import) = module.uses.iter().find(|import| import.name == *name) {
            let (to, items) = self.walk(at, &import.path)?;
            return self.definer(&to, items, hops - 1);
        }
        let globs = module.uses.iter().filter(|import| import.name == "*");
        let mut modules = globs.filter_map(|import| Some(self.walk(at, &import.path)?.0));
        let to = modules.find(|to| self.modules[to].items.contains(name));
        Some(to.unwrap_or_else(|| at.clone()))
    }
}

impl Module {
    pub(super) fn of(text: &str) -> Module {
        let tokens = without_tests(&tokens(text));
        let (mut module, mut depth, mut at) = (Module::default(), 0, 0);
        while at < tokens.len() {
            let before = if at == 0 { "" } else { tokens[at - 1] };
            match &tokens[at..] {
                ["use", next, ..] if *next != "<" => {
                    at += 1;
                    let reexport = before == "pub" || before == ")";
                    module.put_uses(&tokens, &mut at, Path::new(), reexport);
                    continue;
                }
                ["mod", name, ";", ..] => _ = module.children.insert((*name).into()),
                ["macro_rules", "!", name, ..] => _ = module.items.insert((*name).into()),
                [kind, name, ..] if depth == 0 && ITEMS.contains(kind) => {
                    module.items.insert((*name).into());
                }
                // A visibility such as `pub(in crate::a)` names no item.
                ["(", "in", ..] => at += tokens[at..].iter().take_while(|t| **t != ")").count(),
                [first, "::", ..] if is_word(first) && !["$", "::"].contains(&before) => {
                    let mut path = vec![(*first).to_owned()];
                    while let ["::", word, ..] = &tokens[at + 1..]
                        && is_word(word)
                    {
                        path.push((*word).into());
                        at += 2;
                    }
                    module.paths.push(path);
                }
                ["{", ..] => depth += 1,
                ["}", ..] => depth -= 1,
                _ => {}
            }
            at += 1;
        }
        module
    }

    /// Puts the names of the tree of a `use` that goes on at `tokens[*at]`, below `path`.
    fn put_uses(&mut self, tokens: &[&str], at: &mut usize, mut path: Path, reexport: bool) {
        let mut name = None;
        loop {
            match tokens.get(*at).copied().unwrap_or(";") {
                "{" => {
                    while tokens.get(*at).is_some_and(|token| *token != "}" && *token != ";") {
                        *at += 1;
                        self.put_uses(tokens, at, path.clone(), reexport);
                    }
                    *at += 1;
                    return;
                }
                "," | "}" | ";" => break,
                "as" => name = tokens.get(*at + 1).copied(),
                "::" => {}
                word if name.is_none() => path.push(word.into()),
                _ => {}
            }
            *at += 1;
        }
        if path.len() > 1 {
            path.pop_if(|last| last == "self");
        }
        if let Some(last) = path.last() {
            let name = name.unwrap_or(last).to_owned();
            self.uses.push(Use { path, name, reexport });
        }
    }
}

fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Words, `::` and other characters of `text`, without comments and literals.
fn tokens(text: &str) -> Vec<&str> {
    let is_of_word = |c: char| c == '_' || c.is_alphanumeric();
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let mut is_token = false;
        let len = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |at| at + 2)
        } else if let Some(len) = raw_string(rest) {
            len
        } else if first == '"' || first == '\'' && is_character(rest) {
            literal(rest, first)
        } else {
            is_token = !first.is_whitespace();
            match rest.len() - rest.trim_start_matches(is_of_word).len() {
                0 if rest.starts_with("::") => 2,
                0 => first.len_utf8(),
                word => word,
            }
        };
        if is_token {
            tokens.push(&rest[..len]);
        }
        rest = &rest[len..];
    }
    tokens
}

/// Length of the raw string at the start of `text`, if there is one.
fn raw_string(text: &str) -> Option<usize> {
    let after = text.strip_prefix("br").or_else(|| text.strip_prefix('r'))?;
    let body = after.trim_start_matches('#').strip_prefix('"')?;
    let end = format!("\"{}", &after[..after.len() - body.len() - 1]);
    Some(text.len() - body.len() + body.find(&end)? + end.len())
}

/// Whether the quote at the start of `text` begins a character, not a lifetime.
fn is_character(text: &str) -> bool {
    let mut after = text.chars().skip(1);
    after.next() == Some('\\') || after.next() == Some('\'')
}

/// Length of the literal at the start of `text`, up to the next `quote` that isn't escaped.
fn literal(text: &str, quote: char) -> usize {
    let mut escaped = false;
    let end = text.char_indices().skip(1).find(|(_, c)| {
        let ends = *c == quote && !escaped;
        escaped = *c == '\\' && !escaped;
        ends
    });
    end.map_or(text.len(), |(at, _)| at + 1)
}

/// `tokens` without items of tests. In modules in braces, `super` becomes their file.
fn without_tests<'a>(tokens: &[&'a str]) -> Vec<&'a str> {
    let mut kept = Vec::with_capacity(tokens.len());
    let mut rest = tokens;
    loop {
        let len = match rest {
            [] => return kept,
            ["#", "[", "cfg", "(", "test", ..] => item_len(rest),
            ["#", "[", "cfg", "(", "all", "(", "test", ..] => item_len(rest),
            ["mod", _, "{", ..] => {
                let len = item_len(rest);
                let mut body = &rest[..len];
                while let [first, after @ ..] = body {
                    let is_super = *first == "super" && kept.last() != Some(&"::");
                    if !is_super {
                        kept.push(first);
                    }
                    body = if is_super { after.get(1..).unwrap_or(&[]) } else { after };
                }
                len
            }
            [first, ..] => {
                kept.push(first);
                1
            }
        };
        rest = &rest[len..];
    }
}

/// Number of tokens of the item, attributes included, at the start of `tokens`.
fn item_len(tokens: &[&str]) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate() {
        match *token {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            ";" if depth == 0 => return at + 1,
            _ => {}
        }
        if depth < 0 {
            return at;
        }
        if depth == 0 && *token == "}" {
            return at + 1;
        }
    }
    tokens.len()
}
