//! Documentation: links have targets, the book has every page, commands exist and run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::pages::{
    all_pages, check_commands, lines_of_shell, page, pages_of_the_book, root, taken_apart,
};
use crate::common::{Workshop, lines_beside_notes};

/// Pages whose fenced files are written and whose fenced commands are run, from top to bottom.
const RUN: [&str; 2] = ["docs/data.md", "docs/quick-start.md"];

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

#[test]
fn commands_are_those_of_the_program() {
    let count = check_commands("stepwell");
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
                    assert_eq!(lines_beside_notes(&error), 1, "{name}: {line}: {error}");
                }
            }
        }
    }
}
