//! Columns of the data among the names that a file has.

/// Where a column is among the names of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    /// At this place, by its name.
    Same(usize),
    /// At this place, by a name that differs in upper and lower case alone.
    InOtherCase(usize),
    /// In the path of the file.
    InPath,
    /// Nowhere.
    Absent,
}

impl Named {
    /// Its place, if it has one.
    pub(crate) fn place(self) -> Option<usize> {
        match self {
            Self::Same(place) | Self::InOtherCase(place) => Some(place),
            Self::InPath | Self::Absent => None,
        }
    }
}

/// Where each of `sources` is among `names`: by its own name, or else by the only one that differs
/// from it in case alone and is no other column's.
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

/// Says by which names a file has columns whose own differ in case; none where there are no such.
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
        // Which of two is meant, nobody knows.
        assert_eq!(find(&["user"], &["User", "USER"]), [Absent]);
        assert_eq!(find(&["user", "User"], &["USER"]), [Absent, Absent]);
        // A name that is a column's own is no other's.
        assert_eq!(find(&["user", "User"], &["User"]), [Absent, Same(0)]);
        assert_eq!(find(&["user", "User"], &["User", "user"]), [Same(1), Same(0)]);
        assert_eq!(find(&["user"], &[]), [Absent]);
    }
}
