//! Matches data columns with the names in a file.

/// Where a column is in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    /// At this index, by its exact name.
    Same(usize),
    /// At this index, by a name that differs only in case.
    InOtherCase(usize),
    /// In the path of the file.
    InPath,
    /// Missing.
    Absent,
}

impl Named {
    /// Index in the file, if it has one.
    pub(crate) fn place(self) -> Option<usize> {
        match self {
            Self::Same(place) | Self::InOtherCase(place) => Some(place),
            Self::InPath | Self::Absent => None,
        }
    }
}

/// Finds `sources` among `names`: by exact name, or else by the only name that differs only in case
/// and isn't another column's.
pub(crate) fn find_names(sources: &[String], names: &[String]) -> Vec<Named> {
    let same = |source: &String| names.iter().position(|name| name == source);
    let mut found: Vec<Named> =
        sources.iter().map(|source| same(source).map_or(Named::Absent, Named::Same)).collect();
    if !found.contains(&Named::Absent) {
        return found;
    }
    let fold = |texts: &[String]| -> Vec<String> {
        texts.iter().map(|text| text.to_lowercase()).collect()
    };
    let (plain, plain_names) = (fold(sources), fold(names));
    let free = |at: &usize| !sources.contains(&names[*at]);
    for (at, source) in plain.iter().enumerate() {
        let wants = (0..sources.len())
            .filter(|other| found[*other] == Named::Absent || *other == at)
            .filter(|other| plain[*other] == *source);
        if found[at] != Named::Absent || wants.count() > 1 {
            continue;
        }
        let mut likes = (0..names.len()).filter(free).filter(|at| plain_names[*at] == *source);
        if let (Some(place), None) = (likes.next(), likes.next()) {
            found[at] = Named::InOtherCase(place);
        }
    }
    found
}

/// Lists the columns whose names in a file differ in case; `None` if there are none.
pub(crate) fn other_case_note(sources: &[String], names: &[String]) -> Option<String> {
    let pairs = find_names(sources, names).into_iter().zip(sources);
    let renamed: Vec<String> = pairs
        .filter_map(|(named, source)| match named {
            Named::InOtherCase(place) => Some(format!("{} for {source}", names[place])),
            Named::Same(_) | Named::InPath | Named::Absent => None,
        })
        .collect();
    (!renamed.is_empty()).then(|| renamed.join(", "))
}

/// Least similarity of a suggested name, in millionths.
const LIKENESS_MIN: u64 = 750_000;

/// Most similar of `names`, if it is similar enough.
pub(crate) fn nearest<'a>(
    name: &str,
    names: impl Iterator<Item = &'a String>,
) -> Option<&'a String> {
    let likeness = |other: &String| {
        let likeness = strsim::jaro_winkler(&plain(name), &plain(other));
        (likeness * 1e6) as u64
    };
    let likest = names.map(|other| (likeness(other), other)).max_by_key(|(like, _)| *like);
    likest.filter(|(like, _)| *like >= LIKENESS_MIN).map(|(_, other)| other)
}

/// Whether `other` is probably a misspelling of `name`: apart from case and separators, they differ
/// by one or two letters.
pub(crate) fn is_misspelt(name: &str, other: &str) -> bool {
    let (name, other) = (plain(name), plain(other));
    // C1 and C2 are different columns.
    let digits = |name: &str| name.chars().filter(char::is_ascii_digit).collect::<String>();
    let most = if name.chars().count() < 6 { 1 } else { 2 };
    digits(&name) == digits(&other) && strsim::damerau_levenshtein(&name, &other) <= most
}

/// A name in lower case, without word separators.
fn plain(name: &str) -> String {
    name.to_lowercase().replace(['_', '-', ' ', '.'], "")
}

/// Joins names for a message, truncated after a dozen.
pub(crate) fn listed(names: &[String]) -> String {
    const SHOWN: usize = 12;
    let shown: Vec<String> =
        names.iter().take(SHOWN).map(|name| name.chars().take(40).collect()).collect();
    let more = if names.len() > SHOWN { " and others" } else { "" };
    shown.join(", ") + more
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_as_they_are_or_by_the_only_one_in_another_case() {
        let texts = |texts: &[&str]| -> Vec<String> {
            texts.iter().map(|text| (*text).to_owned()).collect()
        };
        let find = |sources: &[&str], names: &[&str]| find_names(&texts(sources), &texts(names));
        use Named::{Absent, InOtherCase, Same};
        assert_eq!(find(&["a", "b"], &["b", "a"]), [Same(1), Same(0)]);
        assert_eq!(find(&["user", "item"], &["Item", "USER"]), [InOtherCase(1), InOtherCase(0)]);
        assert_eq!(find(&["größe"], &["GRÖSSE", "GRÖßE"]), [InOtherCase(1)]);
        // Ambiguous.
        assert_eq!(find(&["user"], &["User", "USER"]), [Absent]);
        assert_eq!(find(&["user", "User"], &["USER"]), [Absent, Absent]);
        // The exact name of a column never matches another column.
        assert_eq!(find(&["user", "User"], &["User"]), [Absent, Same(0)]);
        assert_eq!(find(&["user", "User"], &["User", "user"]), [Same(1), Same(0)]);
        assert_eq!(find(&["user"], &[]), [Absent]);
    }

    #[test]
    fn names_that_differ_by_a_letter_or_two_are_misspelt() {
        for (name, other) in
            [("user", "User"), ("usr", "user"), ("user_id", "userid"), ("cuontry", "country")]
        {
            assert!(is_misspelt(name, other), "{name} {other}");
        }
        for (name, other) in [("C1", "C2"), ("user", "user_id"), ("age", "page_1"), ("ad", "item")]
        {
            assert!(!is_misspelt(name, other), "{name} {other}");
        }
    }
}
