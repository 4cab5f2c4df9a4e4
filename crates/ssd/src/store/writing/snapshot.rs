//! Snapshots: a commit's files in another directory.
//!
//! - **How.** Links are made while writers wait, for some microseconds a segment. Files that cannot
//!   be linked are then copied while the snapshot holds them: as in a scan, they stay readable
//!   after merges retire them, and take space until they are copied (`bytes_pinned`).
//! - **Stopping.** A request to stop does not end a snapshot: the last checkpoint of a stopping run
//!   needs one.
//! - **Failure.** Files put into the directory so far stay there, without a manifest.

use std::path::Path;
use std::sync::Arc;

use stepwell_disk::{Disk, copy};

use crate::manifest::{MANIFEST_NAME, Manifest};
use crate::numbers::SegmentNumber;
use crate::segment::{self, SegmentFile};
use crate::store::core::{Core, Store, Writer};
use crate::{Error, Result};

/// Files that have yet to be copied, in reverse order.
struct Copies<'a> {
    core: &'a Core,
    /// Files and their bytes.
    files: Vec<(Arc<SegmentFile>, u64)>,
}

impl Store {
    /// Commits, then puts links to all segments (copies, on another file system) and the manifest
    /// into `to`, an existing directory without a store. All of it is durable on return. The store
    /// can be written while files are copied.
    ///
    /// # Errors
    /// Same as [`Store::commit`]; and if the files cannot be put there, which does not change the
    /// store but may leave some of them in `to`.
    pub fn snapshot(&self, to: &Path) -> Result<Manifest> {
        let core = &self.core;
        core.ease()?;
        let mut writer = core.writer()?;
        let mut manifest = core.commit_locked(&mut writer)?;
        let target = core.home().directory(to)?;
        if target.exists(MANIFEST_NAME)? {
            return Err(Error::Exists { path: to.to_owned() });
        }
        let copies = core.link_all(&writer, to)?;
        drop(writer);
        copies.make(&*target)?;
        manifest.directories = vec![to.display().to_string()];
        manifest.store(&*target, &core.counters)?;
        Ok(manifest)
    }
}

impl Core {
    /// Links the files that the last commit names into `to`; returns those that cannot be linked.
    fn link_all(&self, writer: &Writer, to: &Path) -> Result<Copies<'_>> {
        let state = self.state();
        let sealed = state.table.sealed().into_iter().map(|slot| state.table.get(slot));
        let files: Vec<_> = sealed.map(|segment| Arc::clone(&segment.file)).collect();
        drop(state);
        let mut copies = Vec::new();
        for (file, entry) in files.into_iter().zip(&writer.manifest.segments) {
            let name = segment::name(file.number);
            if !self.disks[file.directory].try_link(&name, to, &name)? {
                copies.push((file, entry.bytes));
            }
        }
        copies.reverse();
        let copies = Copies { core: self, files: copies };
        self.count_pins(copies.counted());
        Ok(copies)
    }
}

impl Copies<'_> {
    /// Numbers and bytes of the files.
    fn counted(&self) -> impl Iterator<Item = (SegmentNumber, u64)> + use<'_> {
        self.files.iter().map(|(file, bytes)| (file.number, *bytes))
    }

    fn make(mut self, target: &dyn Disk) -> Result<()> {
        while let Some((file, bytes)) = self.files.last() {
            copy(&*file.file, target, &segment::name(file.number))?;
            self.core.counters.wrote(file.directory, *bytes as usize);
            self.core.unpin(std::iter::once(file.number));
            self.files.pop();
        }
        Ok(())
    }
}

impl Drop for Copies<'_> {
    fn drop(&mut self) {
        self.core.unpin(self.counted().map(|(number, _)| number));
    }
}
