//! Checks the names of crates' invariants, such as `SSD-I7`: each is defined once, in its crate.

use std::collections::BTreeMap;

/// The faults in `sources`, which are paths and texts. A doc comment defines a name by a colon
/// after it; all other occurrences are uses.
pub(crate) fn faults(sources: &[(String, String)]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut definitions: BTreeMap<&str, String> = BTreeMap::new();
    let mut uses = Vec::new();
    for (path, text) in sources {
        for (index, line) in text.lines().enumerate() {
            let at = format!("{path}:{}", index + 1);
            let is_doc =
                line.trim_start().starts_with("//!") || line.trim_start().starts_with("///");
            for (name, end) in names(line) {
                if !is_doc || !end.starts_with(':') {
                    uses.push((name, at.clone()));
                } else if !path.split('/').any(|folder| name.starts_with(&prefix_of(folder))) {
                    faults.push(format!("{at}: {name} is defined outside its crate"));
                } else if let Some(first) = definitions.insert(name, at.clone()) {
                    faults.push(format!("{at}: {name} is also defined at {first}"));
                }
            }
        }
    }
    uses.retain(|(name, _)| !definitions.contains_key(name));
    faults.extend(uses.iter().map(|(name, at)| format!("{at}: {name} is not defined")));
    faults
}

/// The start of the names of a crate's invariants: `SSD-I` for `ssd`.
fn prefix_of(folder: &str) -> String {
    format!("{}-I", folder.to_uppercase())
}

/// The names of invariants in a line, each with the character that ends it.
fn names(line: &str) -> impl Iterator<Item = (&str, &str)> {
    let in_word = |c: char| c.is_ascii_alphanumeric() || c == '-';
    line.split_inclusive(move |c| !in_word(c)).filter_map(move |word| {
        let (name, end) = word.split_at(word.trim_end_matches(|c| !in_word(c)).len());
        let (of_crate, number) = name.split_once("-I")?;
        let is_name = !of_crate.is_empty()
            && of_crate.bytes().all(|byte| byte.is_ascii_uppercase())
            && !number.is_empty()
            && number.bytes().all(|byte| byte.is_ascii_digit());
        is_name.then_some((name, end))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The faults of a source of `mem` with two definitions, and of `other` at `path`.
    fn with(path: &str, other: &str) -> Vec<String> {
        let own = "//! - MEM-I1: a.\n//! - MEM-I2: b, by MEM-I1.\nassert!(a, \"MEM-I1: a\");\n";
        faults(&[
            ("crates/mem/src/a.rs".to_owned(), own.to_owned()),
            (path.to_owned(), other.to_owned()),
        ])
    }

    #[test]
    fn names_are_defined_once_in_their_crate() {
        assert!(with("crates/nn/src/b.rs", "// By MEM-I1, MEM-I2.\n").is_empty());
        let twice = with("crates/mem/src/b.rs", "\n/// MEM-I2: c.\n");
        let fault = "crates/mem/src/b.rs:2: MEM-I2 is also defined at crates/mem/src/a.rs:2";
        assert_eq!(twice, [fault]);
        let outside = with("crates/nn/src/b.rs", "//! - MEM-I2: c.\n");
        assert_eq!(outside, ["crates/nn/src/b.rs:1: MEM-I2 is defined outside its crate"]);
        let unknown = ["MEM", "I3"].join("-");
        let undefined = with("crates/mem/src/b.rs", &format!("// ({unknown})\n"));
        assert_eq!(undefined, [format!("crates/mem/src/b.rs:1: {unknown} is not defined")]);
    }
}
