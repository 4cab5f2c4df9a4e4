//! URLs as data files, and patterns of URLs.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use glob::{MatchOptions, Pattern};
use stepwell_base::objects::Depth;

use super::DataFile;
use super::object::{objects, unreadable};
use crate::error::DataError;
use crate::natural_order::by_number;
use crate::open_file::explain;

/// Characters that make a name a pattern.
const META: [char; 3] = ['*', '?', '['];

/// Whether `path` is a URL.
pub fn is_url(path: &Path) -> bool {
    let scheme = path.to_str().and_then(|text| text.split_once("://")).map(|(scheme, _)| scheme);
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    scheme.is_some_and(|scheme| !scheme.is_empty() && scheme.bytes().all(fits))
}

/// Whether `path` is a pattern of URLs. On a web server, `?` starts a query instead.
pub(crate) fn is_url_pattern(path: &Path) -> bool {
    let Some((scheme, rest)) = path.to_str().and_then(|text| text.split_once("://")) else {
        return false;
    };
    let name = rest.split_once('/').map_or("", |(_, name)| name);
    match is_web(scheme) {
        true => name.split('?').next().is_some_and(|name| name.contains(['*', '['])),
        false => name.contains(META),
    }
}

fn is_web(scheme: &str) -> bool {
    ["http", "https"].iter().any(|web| scheme.eq_ignore_ascii_case(web))
}

/// URLs of the objects that match `pattern`, in the order of files. An object with exactly that
/// name is the only match.
pub(crate) fn matches(pattern: &Path) -> Result<Vec<PathBuf>, DataError> {
    let wrong = |why: String| DataError::Path { path: pattern.to_owned(), why };
    let text = pattern.to_str().ok_or_else(|| wrong("a pattern must be UTF-8".to_owned()))?;
    let (scheme, _) = text.split_once("://").unwrap_or_default();
    if !is_web(scheme) && DataFile::open(pattern).is_ok() {
        return Ok(vec![pattern.to_owned()]);
    }
    let host = scheme.len() + "://".len();
    let name = text[host..].find('/').map_or(text.len(), |at| host + at + 1);
    let first = text[name..].find(META).map_or(text.len(), |at| name + at);
    let folder = text[..first].rfind('/').map_or(text.len(), |at| at + 1);
    let (folder, asked) = text.split_at(folder);
    let asked_for = Pattern::new(asked).map_err(|e| wrong(format!("is not a pattern: {e}")))?;
    let failed = |error: &std::io::Error| wrong(explain(&unreadable(error)));
    let objects = objects().map_err(|error| wrong(explain(&error)))?;
    let depth = if asked.contains('/') { Depth::All } else { Depth::Folder };
    let names = objects.list(folder, depth).map_err(|error| failed(&error))?;
    let options = MatchOptions { require_literal_separator: true, ..MatchOptions::default() };
    let last = |name: &str| name.rsplit('/').next().is_some_and(|last| last.starts_with('.'));
    let hidden = last(asked);
    let fits =
        |name: &String| asked_for.matches_with(name, options) && (hidden || !last(name.as_str()));
    let mut names: Vec<String> = names.into_iter().filter(fits).collect();
    names.sort_by(|one, other| by_number(OsStr::new(one), OsStr::new(other)));
    if names.is_empty() {
        return Err(wrong("matches no file".to_owned()));
    }
    Ok(names.into_iter().map(|name| PathBuf::from(format!("{folder}{name}"))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_and_patterns_of_them() {
        for (text, url, pattern) in [
            ("a.csv", false, false),
            ("-", false, false),
            ("a*.csv", false, false),
            ("://a", false, false),
            ("s3://bucket/a.csv", true, false),
            ("s3://bucket/*.csv", true, true),
            ("s3://bucket/a?.csv", true, true),
            ("http://host/a?b=*", true, false),
            ("HTTPS://host/*", true, true),
            ("http://[::1]:8000/a", true, false),
            ("hdfs://[::1]:9870/a[0-9]", true, true),
            ("webhdfs://host/", true, false),
        ] {
            let path = Path::new(text);
            assert_eq!(is_url(path), url, "{text}");
            assert_eq!(url && is_url_pattern(path), pattern, "{text}");
        }
    }
}
