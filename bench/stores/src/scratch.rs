//! A directory of one engine's files, removed with them when it is dropped.
//!
//! - **Failure.** A directory that is already there is refused: what is in it is not ours to
//!   remove.

use std::path::{Path, PathBuf};

use crate::Result;

/// A new, empty directory; dropping removes it.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Makes `name` in `directory`, which is made too where it is missing.
    pub(crate) fn make(directory: &Path, name: &str) -> Result<Self> {
        let path = directory.join(name);
        std::fs::create_dir_all(directory).and_then(|()| std::fs::create_dir(&path)).map_err(
            |error| {
                let path = path.display();
                format!("cannot make {path}: {error}; remove it or choose another --dir")
            },
        )?;
        Ok(Self(path))
    }

    /// One that no other process's tests have.
    #[cfg(test)]
    pub(crate) fn of_test(name: &str) -> Self {
        let name = format!("stores-test-{}-{name}", std::process::id());
        Self::make(&std::env::temp_dir(), &name).unwrap()
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed stays behind and is refused, by name, by the next run.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_already_there_is_refused_and_kept() {
        let outer = Scratch::of_test("refused");
        let kept = outer.path().join("engine");
        std::fs::create_dir(&kept).unwrap();
        let refusal = Scratch::make(outer.path(), "engine").unwrap_err();
        assert!(refusal.contains("choose another --dir"), "{refusal}");
        assert!(kept.exists());
    }

    #[test]
    fn dropping_removes_everything_in_it() {
        let scratch = Scratch::of_test("dropped");
        let path = scratch.path().to_path_buf();
        std::fs::write(path.join("file"), "x").unwrap();
        drop(scratch);
        assert!(!path.exists());
    }
}
