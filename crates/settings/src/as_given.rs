//! Values as users give them.

use std::collections::BTreeMap;
use std::fmt::{self, Display};

/// A value given for a setting.
#[derive(Clone, Copy, Debug)]
pub enum Given<'a> {
    /// From a flag, or a single value of a file; a list has commas between its parts.
    Text(&'a str),
    /// A list of a file.
    List(&'a [String]),
}

impl Given<'_> {
    /// The value of a setting that is not a list.
    pub(crate) fn text(&self) -> Result<&str, String> {
        match self {
            Self::Text(text) => Ok(text),
            Self::List(_) => Err("give one value, not a list".to_owned()),
        }
    }

    /// The values of a list: `a,b`, or as in a file, `["a", "b"]`, where values may have commas.
    pub(crate) fn list(&self) -> Result<Vec<String>, String> {
        match self {
            Self::Text(text) if is_quoted_list(text.trim()) => as_in_a_file(text.trim()),
            // A single text keeps its spaces, as in a list of a file.
            Self::Text(text) if !text.contains(',') && !text.trim().is_empty() => {
                Ok(vec![(*text).to_owned()])
            }
            Self::Text(text) => {
                let parts = text.split(',').map(str::trim);
                Ok(parts.filter(|part| !part.is_empty()).map(str::to_owned).collect())
            }
            Self::List(parts) => Ok(parts.to_vec()),
        }
    }
}

/// Whether a text is meant as a list in brackets. The brackets of a glob such as `[ab]` contain
/// neither commas nor quotation marks.
fn is_quoted_list(text: &str) -> bool {
    let Some(rest) = text.strip_prefix('[') else { return false };
    let whole = rest.ends_with(']') && (rest.contains(',') || rest.trim() == "]");
    whole || rest.contains(['"', '\''])
}

fn as_in_a_file(text: &str) -> Result<Vec<String>, String> {
    let file: Result<BTreeMap<String, Vec<String>>, _> =
        ::toml::from_str(&format!("list = {text}"));
    let list = file.ok().and_then(|mut file| file.remove("list"));
    list.ok_or_else(|| r#"write a list as a file has it, such as ["a.tsv", "b.tsv"]"#.to_owned())
}

impl Display for Given<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // In quotes, because messages have a colon after it.
            Self::Text(text) if text.is_empty() || text.ends_with(':') => write!(f, "'{text}'"),
            Self::Text(text) => f.write_str(text),
            Self::List(parts) => write!(f, "[{}]", parts.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_come_with_commas_or_as_files_have_them() {
        let list = |text| Given::Text(text).list();
        let texts = |texts: &[&str]| Ok(texts.iter().map(|text| (*text).to_owned()).collect());
        assert_eq!(list("a, b,,c"), texts(&["a", "b", "c"]));
        assert_eq!(list(r#"["a,b.tsv", 'c']"#), texts(&["a,b.tsv", "c"]));
        assert_eq!(list("[]"), texts(&[]));
        assert_eq!(list("[ab].tsv"), texts(&["[ab].tsv"]));
        assert_eq!(list(" ?"), texts(&[" ?"]));
        assert_eq!(list(" ["), texts(&[" ["]));
        assert_eq!(list(" [\"a\"] "), texts(&["a"]));
        assert_eq!(list("  "), texts(&[]));
        assert_eq!(list("day_[0-9]"), texts(&["day_[0-9]"]));
        assert!(list(r#"["a"#).is_err());
        assert!(list("[1,2]").is_err());
        assert!(list(r#"["a", b]"#).unwrap_err().contains("as a file has it"));
        assert!(list(r#"["a", 1]"#).is_err());
    }
}
