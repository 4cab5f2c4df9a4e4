//! Removing and changing names while their files are held.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};

use super::OpenFiles;
use super::handle::{Handle, Identity};
use crate::mutex::lock;

/// Renames a file, or a directory with the files below it. `moved` has their handles, and their
/// names afterwards.
fn rename_with(moved: &[(Arc<Handle>, PathBuf)], from: &Path, to: &Path) -> io::Result<()> {
    // Until it has its new name, no file is reopened.
    let states: Vec<_> = moved.iter().map(|(handle, _)| handle.lock()).collect();
    fs::rename(from, to)?;
    for (mut state, (_, name)) in states.into_iter().zip(moved) {
        state.renamed = Some(name.as_path().into());
    }
    Ok(())
}

/// The handle of a file below a directory.
struct Below {
    handle: Arc<Handle>,
    /// The file's path from the directory.
    path: PathBuf,
}

impl OpenFiles {
    /// Removes a name; handles of its file stay usable.
    pub(in crate::file_disk) fn remove(&self, path: &Path) -> io::Result<()> {
        let _names = self.0.names.write().unwrap_or_else(PoisonError::into_inner);
        let kept = self.keep_all(path)?;
        fs::remove_file(path).inspect_err(|_| self.let_all_go(&kept))
    }

    /// Removes a directory with its contents; handles of files there stay usable.
    pub(in crate::file_disk) fn remove_tree(&self, path: &Path) -> io::Result<()> {
        let names = self.0.names.write().unwrap_or_else(PoisonError::into_inner);
        let below = self.below(path).into_iter().map(|below| below.handle);
        let mut kept = self.keep_each(below.filter(|handle| handle.has_name()))?;
        // Removing many files takes time, so other files can be opened meanwhile if none is kept.
        let _names = (!kept.is_empty()).then_some(names);
        self.with_relief(|| fs::remove_dir_all(path)).inspect_err(|_| {
            // A part may be gone.
            kept.retain(|handle| handle.has_name());
            self.let_all_go(&kept);
        })
    }

    /// Renames a file or directory. Handles of the file, or of files below the directory, follow
    /// the new name; handles of a replaced file stay usable.
    pub(in crate::file_disk) fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let _names = self.0.names.write().unwrap_or_else(PoisonError::into_inner);
        if Identity::at(from).is_some_and(|file| Identity::at(to) == Some(file)) {
            // Two names of one file: the system leaves both.
            return fs::rename(from, to);
        }
        let own = self.at(from).into_iter().map(|handle| (handle, to.to_owned()));
        let below = self.below(from).into_iter();
        let below = below.map(|Below { handle, path }| (handle, to.join(path)));
        let moved: Vec<_> = own.chain(below).collect();
        let replaced = self.keep_all(to)?;
        rename_with(&moved, from, to).inspect_err(|_| self.let_all_go(&replaced))
    }

    /// Handles of files below a directory.
    fn below(&self, directory: &Path) -> Vec<Below> {
        let is_directory = fs::symlink_metadata(directory).is_ok_and(|about| about.is_dir());
        let root = is_directory.then(|| fs::canonicalize(directory).ok()).flatten();
        let Some(root) = root else { return Vec::new() };
        // Directories may be spelled in several ways.
        let from_root = |path: &Path| {
            let path = fs::canonicalize(path).ok()?;
            path.strip_prefix(&root).ok().map(Path::to_owned)
        };
        let mut directories = BTreeMap::new();
        let handles: Vec<_> = lock(&self.0.living).handles.values().map(Arc::clone).collect();
        let below = |handle: Arc<Handle>| {
            let name = handle.name(&handle.lock()).to_owned();
            let parent = name.parent()?;
            if !directories.contains_key(parent) {
                directories.insert(parent.to_owned(), from_root(parent));
            }
            let path = directories.get(parent)?.as_ref()?.join(name.file_name()?);
            Some(Below { handle, path })
        };
        handles.into_iter().filter_map(below).collect()
    }

    /// Handles that were opened under this name or renamed to it.
    fn at(&self, path: &Path) -> Vec<Arc<Handle>> {
        let Some(identity) = Identity::at(path) else { return Vec::new() };
        let mut handles = lock(&self.0.living).of(identity);
        handles.retain(|handle| handle.is_at(path));
        handles
    }

    /// Keeps open the handles that were opened under this name or renamed to it.
    fn keep_all(&self, path: &Path) -> io::Result<Vec<Arc<Handle>>> {
        self.keep_each(self.at(path).into_iter())
    }

    /// Keeps all of these open, or none if one cannot be opened.
    fn keep_each(
        &self,
        handles: impl Iterator<Item = Arc<Handle>>,
    ) -> io::Result<Vec<Arc<Handle>>> {
        let mut kept = Vec::new();
        for handle in handles {
            if let Err(error) = self.keep(&handle) {
                self.let_all_go(&kept);
                return Err(error);
            }
            kept.push(handle);
        }
        Ok(kept)
    }

    /// Opens a file, which then stays open.
    fn keep(&self, handle: &Arc<Handle>) -> io::Result<()> {
        let mut state = handle.lock();
        if state.gone {
            return Ok(());
        }
        if state.opened.is_none() {
            self.open_again(handle, &mut state, self.permit())?;
        }
        if let Some(seat) = state.seat.take() {
            lock(&self.0.circle).vacate(seat);
        }
        if state.keepers == 0 {
            self.0.gauge.kept.fetch_add(1, Relaxed);
        }
        state.keepers += 1;
        Ok(())
    }

    fn let_all_go(&self, handles: &[Arc<Handle>]) {
        handles.iter().for_each(|handle| self.let_go(handle));
    }

    fn let_go(&self, handle: &Arc<Handle>) {
        let mut state = handle.lock();
        if state.gone {
            return;
        }
        state.keepers -= 1;
        if state.keepers == 0 {
            self.0.gauge.kept.fetch_sub(1, Relaxed);
            state.seat = Some(lock(&self.0.circle).seat(handle));
        }
    }
}
