//! Names of files: plain and relative, below the disk's directory.

use std::path::{Component, Path, PathBuf};

use crate::{Error, Result};

/// Returns the path of `name` below `root`.
///
/// # Errors
/// If the name is empty, absolute, or leads out of the directory.
pub(crate) fn resolve(root: &Path, name: &str) -> Result<PathBuf> {
    let wrong = |why| Err(Error::Name { path: root.to_owned(), name: name.to_owned(), why });
    if name.is_empty() {
        return wrong("it is empty");
    }
    if name.contains('\0') {
        return wrong("it has a NUL byte");
    }
    let plain = |component| matches!(component, Component::Normal(_));
    if !Path::new(name).components().all(plain) || name.ends_with('/') {
        return wrong("only plain relative names are allowed");
    }
    Ok(root.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_below_the_root() {
        let root = Path::new("/data");
        assert_eq!(resolve(root, "a.rows").unwrap(), Path::new("/data/a.rows"));
        assert_eq!(resolve(root, "set-aside/a").unwrap(), Path::new("/data/set-aside/a"));
        for bad in ["", "/etc/passwd", "../a", "a/../../b", ".", "a/", "a\0b"] {
            assert!(resolve(root, bad).is_err(), "{bad:?}");
        }
    }
}
