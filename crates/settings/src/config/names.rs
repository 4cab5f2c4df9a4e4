//! Names of columns, and ranges of names such as `C5-C9`. Plain data has id columns named from
//! `C1` on and dense columns from `I1` on; other data has the names of its layout.

use std::ops::RangeInclusive;

use stepwell_data::Layout;

use super::FeatureConfig;

/// Most id columns of one entry of features, and the number of the last one with a name.
pub(crate) const COLUMNS_MAX: usize = 65_536;

impl FeatureConfig {
    /// Numbers of the feature's id columns in plain data, counted from 0, in the order of their
    /// names in the entry.
    ///
    /// # Errors
    /// What is wrong, and the fix. Whether the data has the columns is not checked.
    pub fn columns_of(&self) -> Result<Vec<usize>, String> {
        let mut columns = Vec::new();
        for name in &self.columns {
            let (first, last) = range(name)?;
            columns.extend(first..=last);
            if columns.len() > COLUMNS_MAX {
                return Err(format!("has more than {COLUMNS_MAX} columns: give fewer"));
            }
        }
        match (columns.is_empty(), twice(&columns)) {
            (true, _) => Err("is empty: give at least one id column, such as C1".to_owned()),
            (_, Some(column)) => Err(format!("has C{} twice: name it once", column + 1)),
            _ => Ok(columns),
        }
    }

    /// As [`FeatureConfig::columns_of`], in data of `layout`, or in plain data if it is `None`.
    ///
    /// # Errors
    /// What is wrong, and the fix.
    pub fn columns_in(&self, layout: Option<&Layout>) -> Result<Vec<usize>, String> {
        let Some(layout) = layout else { return self.columns_of() };
        let known: Vec<&str> = layout.id_names().into_iter().map(|(name, _)| name).collect();
        let find = |name: &String| {
            known.iter().position(|known| known == name).ok_or_else(|| {
                format!("has {name}, which is not an id column: there are {}", listed(&known))
            })
        };
        expanded(&self.columns)?.iter().map(find).collect()
    }

    /// As [`FeatureConfig::weight_column`], in data of `layout`, or in plain data if it is `None`.
    ///
    /// # Errors
    /// What is wrong, and the fix.
    pub fn weight_in(&self, layout: Option<&Layout>) -> Result<Option<usize>, String> {
        let (Some(name), Some(layout)) = (&self.weight, layout) else {
            return self.weight_column();
        };
        let known = layout.dense_names();
        match known.iter().position(|known| *known == Some(name.as_str())) {
            Some(column) => Ok(Some(column)),
            None => {
                let known: Vec<&str> = known.into_iter().flatten().collect();
                Err(format!("is {name}, which is not a dense column: there are {}", listed(&known)))
            }
        }
    }

    /// Number of the dense column in plain data that weights the feature's bags, counted from 0.
    ///
    /// # Errors
    /// What is wrong, and the fix. Whether the data has the column is not checked.
    pub fn weight_column(&self) -> Result<Option<usize>, String> {
        let Some(name) = &self.weight else { return Ok(None) };
        let column = numbered(name, 'I').ok_or_else(|| {
            format!("is {name}: give a dense column, I1 to I{COLUMNS_MAX}, or leave it out")
        });
        column.map(Some)
    }
}

/// Expands the ranges in `names`.
///
/// # Errors
/// If there are no names, too many, or one twice, as the part of a message that follows the key.
pub fn expanded(names: &[String]) -> Result<Vec<String>, String> {
    let mut all = Vec::new();
    for name in names {
        match numbered_range(name)? {
            Some((prefix, numbers)) => {
                all.extend(numbers.map(|number| format!("{prefix}{number}")));
            }
            None => all.push(name.clone()),
        }
        if all.len() > COLUMNS_MAX {
            return Err(format!("has more than {COLUMNS_MAX} columns: give fewer"));
        }
    }
    let mut sorted: Vec<&String> = all.iter().collect();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(format!("has {} twice: name it once", pair[0])),
        None if all.is_empty() => Err("is empty: name at least one column".to_owned()),
        None => Ok(all),
    }
}

/// Prefix and numbers of a range such as `C5-C9`; `None` for the name of one column.
fn numbered_range(name: &str) -> Result<Option<(&str, RangeInclusive<usize>)>, String> {
    let Some((first, last)) = name.split_once('-') else { return Ok(None) };
    let (Some(first), Some(last)) = (split_number(first), split_number(last)) else {
        return Ok(None);
    };
    if first.0 != last.0 {
        return Ok(None);
    }
    let ((prefix, first), (_, last)) = (first, last);
    if first > last {
        let mend = format!("{prefix}{last}-{prefix}{first}");
        return Err(format!("has {name}, which is descending: give {mend}"));
    }
    if last - first >= COLUMNS_MAX {
        return Err(format!("has more than {COLUMNS_MAX} columns: give fewer"));
    }
    Ok(Some((prefix, first..=last)))
}

/// Splits a name that ends in a number into prefix and number.
fn split_number(name: &str) -> Option<(&str, usize)> {
    let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
    let (prefix, digits) = name.split_at(name.len() - digits);
    let is_plain = digits == "0" || !digits.starts_with('0');
    let number = digits.parse().ok().filter(|_| is_plain && !prefix.is_empty())?;
    Some((prefix, number))
}

/// Lists names in a message, at most a dozen.
fn listed(names: &[&str]) -> String {
    const SHOWN: usize = 12;
    let more = if names.len() > SHOWN { " and others" } else { "" };
    match names {
        [] => "none".to_owned(),
        names => names.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ") + more,
    }
}

/// The names of these columns in the shortest form, such as `C1,C5-C9`: equal columns have equal
/// texts.
pub(crate) fn ranges(columns: &[usize]) -> String {
    let runs = columns.chunk_by(|one, next| one + 1 == *next);
    let name = |run: &[usize]| match run {
        [] => String::new(),
        [one] => format!("C{}", one + 1),
        [first, .., last] => format!("C{}-C{}", first + 1, last + 1),
    };
    runs.map(name).collect::<Vec<_>>().join(",")
}

/// First and last column of `C3` or `C5-C9`, counted from 0.
fn range(name: &str) -> Result<(usize, usize), String> {
    let (first, last) = name.split_once('-').unwrap_or((name, name));
    match (numbered(first, 'C'), numbered(last, 'C')) {
        (Some(first), Some(last)) if first <= last => Ok((first, last)),
        (Some(_), Some(_)) => Err(format!("has {name}, which is descending: give {last}-{first}")),
        _ => Err(format!(
            "has {name}: give id columns, C1 to C{COLUMNS_MAX}, or ranges such as C5-C9"
        )),
    }
}

/// The column with this name, counted from 0; `None` unless it has this letter.
fn numbered(name: &str, letter: char) -> Option<usize> {
    let digits = name.strip_prefix(letter)?;
    let is_plain = !digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number: usize = digits.parse().ok().filter(|_| is_plain)?;
    (1..=COLUMNS_MAX).contains(&number).then(|| number - 1)
}

/// The first column that occurs twice.
fn twice(columns: &[usize]) -> Option<usize> {
    let mut sorted = columns.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(names: &[&str]) -> Result<Vec<usize>, String> {
        let columns = names.iter().map(|name| (*name).to_owned()).collect();
        FeatureConfig { columns, ..FeatureConfig::default() }.columns_of()
    }

    fn weight(name: Option<&str>) -> Result<Option<usize>, String> {
        let weight = name.map(str::to_owned);
        FeatureConfig { weight, ..FeatureConfig::default() }.weight_column()
    }

    #[test]
    fn ranges_stand_for_all_columns_between() {
        assert_eq!(columns(&["C1", "C5-C9"]), Ok(vec![0, 4, 5, 6, 7, 8]));
        assert_eq!(columns(&["C7-C7", "C2"]), Ok(vec![6, 1]));
        assert_eq!(columns(&["C1-C65536"]).map(|all| all.len()), Ok(65_536));
    }

    #[test]
    fn the_same_columns_have_the_same_name() {
        for names in [&["C1", "C5-C9", "C3"][..], &["C1", "C5", "C6-C6", "C7-C9", "C3"]] {
            assert_eq!(ranges(&columns(names).unwrap()), "C1,C5-C9,C3");
        }
        assert_eq!(ranges(&columns(&["C3", "C2", "C1"]).unwrap()), "C3,C2,C1");
    }

    #[test]
    fn what_names_no_columns_is_answered_with_the_mend() {
        let give = "give id columns, C1 to C65536, or ranges such as C5-C9";
        for name in ["", "C", "C0", "C01", "C+1", "C-1", "X3", "I3", "c3", "C65537", "C1-", "-C1"] {
            assert_eq!(columns(&[name]), Err(format!("has {name}: {give}")));
        }
        for name in ["C1-C2-C3", "C1-5", "C1 - C5", "C99999999999999999999999", "Cé"] {
            assert_eq!(columns(&[name]), Err(format!("has {name}: {give}")));
        }
        let down = "has C9-C5, which is descending: give C5-C9";
        assert_eq!(columns(&["C9-C5"]), Err(down.to_owned()));
        let twice = "has C6 twice: name it once";
        assert_eq!(columns(&["C6", "C5-C9"]), Err(twice.to_owned()));
        let empty = "is empty: give at least one id column, such as C1";
        assert_eq!(columns(&[]), Err(empty.to_owned()));
        let many = "has more than 65536 columns: give fewer";
        assert_eq!(columns(&["C1-C65536"; 1000]), Err(many.to_owned()));
    }

    #[test]
    fn a_weight_is_a_dense_column() {
        assert_eq!(weight(None), Ok(None));
        assert_eq!(weight(Some("I1")), Ok(Some(0)));
        assert_eq!(weight(Some("I13")), Ok(Some(12)));
        for name in ["", "I0", "C3", "I1-I2", "3", "I65537"] {
            let why = format!("is {name}: give a dense column, I1 to I65536, or leave it out");
            assert_eq!(weight(Some(name)), Err(why));
        }
    }
}
