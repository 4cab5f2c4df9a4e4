//! Snapshots: a commit's files in another directory.
//!
//! - **How.** Links are made while writers wait, which takes them some microseconds a segment. What
//!   cannot be linked is copied after that, from files that the snapshot holds: they stay readable
//!   when merges take them out of use, as those of a scan do, and take space until they are copied
//!   (`bytes_pinned`).
//! - **Stops.** A request to stop ends no snapshot: the last checkpoint of a run that is asked to
//!   stop is one.
//! - **Failure.** What was put into the directory by then stays there, without a manifest.

use std::path::Path;
use std::sync::Arc;

use stepwell_disk::{Disk, copy};

use super::{Core, Store, Writer};
use crate::segment::{self, SegmentFile};
use crate::{Error, MANIFEST_NAME, Manifest, Result};

/// Files that are yet to be copied, the last one first.
struct Copies<'a> {
    core: &'a Core,
    /// With their bytes.
    files: Vec<(Arc<SegmentFile>, u64)>,
}

impl Store {
    /// Commits, and puts links to all segments (copies, on another file system) and the manifest
    /// into `to`, a directory that exists and holds no store; all of it is durable on return.
    /// While files are copied the store may be written.
    ///
    /// # Errors
    /// Those of [`Store::commit`]; and when the files cannot be put there, which leaves this store
    /// as it was and some of them there.
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
    /// Links what the last commit names into `to`; gives back what cannot be linked.
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
        self.count_pins(copies.counted(), true);
        Ok(copies)
    }
}

impl Copies<'_> {
    /// Numbers and bytes.
    fn counted(&self) -> impl Iterator<Item = (u64, u64)> + use<'_> {
        self.files.iter().map(|(file, bytes)| (file.number, *bytes))
    }

    fn make(mut self, target: &dyn Disk) -> Result<()> {
        while let Some((file, bytes)) = self.files.last() {
            copy(&*file.file, target, &segment::name(file.number))?;
            self.core.counters.wrote(file.directory, *bytes as usize);
            self.core.count_pins(std::iter::once((file.number, *bytes)), false);
            self.files.pop();
        }
        Ok(())
    }
}

impl Drop for Copies<'_> {
    fn drop(&mut self) {
        self.core.count_pins(self.counted(), false);
    }
}
