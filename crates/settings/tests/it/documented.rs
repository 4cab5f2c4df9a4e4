//! Documents name only settings that exist.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use std::path::{Path, PathBuf};

use stepwell_settings::{SETTINGS, look_up, page};

fn document(name: &str) -> String {
    let root: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join(name)).unwrap()
}

#[test]
fn the_page_lists_every_setting_with_its_default() {
    let (written, page) = (document("docs/settings.md"), page());
    let different = written.lines().zip(page.lines()).find(|(written, page)| written != page);
    assert!(
        written == page,
        "docs/settings.md is not what the table says, first {different:?}: write it anew by `cargo \
         run -p stepwell-settings --example page > docs/settings.md`"
    );
}

/// The words in backticks of a document that look like keys, such as `data.epochs`.
fn named(text: &str) -> Vec<&str> {
    let of_run = SETTINGS.iter().filter_map(|setting| Some(setting.key.split_once('.')?.0));
    let groups = of_run.chain(["tables", "features"]).map(|group| format!("{group}."));
    let groups: Vec<String> = groups.collect();
    let quoted = text.split('`').skip(1).step_by(2);
    let words = quoted.filter_map(|quote| quote.split([' ', '=']).next());
    let is_key = |word: &str| groups.iter().any(|group| word.starts_with(group.as_str()));
    words.filter(|word| is_key(word) && !word.ends_with(".rs")).collect()
}

#[test]
fn a_setting_that_is_named_is_one() {
    let mut count = 0;
    for name in [
        "README.md",
        "CONTRIBUTING.md",
        "ARCHITECTURE.md",
        "docs/internals/crosscutting.md",
        "docs/internals/data.md",
        "docs/internals/engine.md",
        "docs/internals/ranks.md",
        "docs/internals/store.md",
        "docs/tables.md",
        "docs/settings.md",
    ] {
        let text = document(name);
        for word in named(&text) {
            let key = word.replace(".N.", ".1.");
            assert!(look_up(&key).is_ok(), "{name}: `{word}`");
            count += 1;
        }
    }
    assert!(count > 10, "{count}");
}
