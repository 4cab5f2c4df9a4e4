//! Removing and changing names while their files are held.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};

use super::OpenFiles;
use super::handle::{Handle, Identity};
use crate::mutex::lock;

impl OpenFiles {
    /// Removes a name; handles of its file stay usable.
    pub(in crate::file_disk) fn remove(&self, path: &Path) -> io::Result<()> {
        let _names = self.0.names.write().unwrap_or_else(PoisonError::into_inner);
        let kept = self.keep_all(path)?;
        fs::remove_file(path).inspect_err(|_| self.let_all_go(&kept))
    }

    /// Renames a file. Its handles follow the new name; handles of a replaced file stay usable.
    pub(in crate::file_disk) fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let _names = self.0.names.write().unwrap_or_else(PoisonError::into_inner);
        if Identity::at(from).is_some_and(|file| Identity::at(to) == Some(file)) {
            // Two names of one file: the system leaves both.
            return fs::rename(from, to);
        }
        let moved = self.keep_all(from)?;
        let replaced = self.keep_all(to).inspect_err(|_| self.let_all_go(&moved))?;
        let renamed = fs::rename(from, to);
        match &renamed {
            Ok(()) => moved.iter().for_each(|handle| handle.lock().renamed = Some(to.into())),
            Err(_) => self.let_all_go(&replaced),
        }
        self.let_all_go(&moved);
        renamed
    }

    /// Keeps open the handles that were opened under this name or renamed to it.
    fn keep_all(&self, path: &Path) -> io::Result<Vec<Arc<Handle>>> {
        let mut kept = Vec::new();
        let Some(identity) = Identity::at(path) else { return Ok(kept) };
        let handles = lock(&self.0.living).of(identity);
        for handle in handles.into_iter().filter(|handle| handle.is_at(path)) {
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
