//! Commits, and snapshots made of them.
//!
//! Crash by case: before the rename the old manifest is in place and every segment it names is
//! whole, for none was removed; after it the new one is, and everything it names was synced
//! before. Removals come last and need not survive: what no manifest names is set aside on opening.

use std::path::Path;

use stepwell_disk::Placed;

use super::{Space, Store, Writer};
use crate::manifest::sum_text;
use crate::segment;
use crate::stats::add;
use crate::{Error, MANIFEST_NAME, Manifest, Result, SegmentEntry};

impl Store {
    /// Makes everything that was put so far what a reopened store has: seals the open segment,
    /// syncs, writes the manifest, and then removes merged segments. Does nothing, and gives the
    /// last commit, where nothing was put or merged since.
    ///
    /// # Errors
    /// When the disk refuses: the last commit stays the last one, and all writes are refused.
    pub fn commit(&self) -> Result<Manifest> {
        let mut writer = self.writer()?;
        self.commit_locked(&mut writer)
    }

    /// Commits, and puts links to all segments (copies, on another file system) and the manifest
    /// into `to`, a directory that exists and holds no store; all of it is durable on return.
    ///
    /// # Errors
    /// Those of [`Store::commit`]; and when the files cannot be put there, which leaves this store
    /// as it was and some of them there.
    pub fn snapshot(&self, to: &Path) -> Result<Manifest> {
        let mut writer = self.writer()?;
        let manifest = self.commit_locked(&mut writer)?;
        let target = self.disk.directory(to)?;
        if target.exists(MANIFEST_NAME)? {
            return Err(Error::Exists { path: to.to_owned() });
        }
        for entry in &manifest.segments {
            if self.disk.link_into(&segment::name(entry.segment), to)? == Placed::Copied {
                self.counters.wrote(entry.bytes as usize);
            }
        }
        manifest.store(&*target, &self.counters)?;
        Ok(manifest)
    }

    pub(super) fn commit_locked(&self, writer: &mut Writer) -> Result<Manifest> {
        if writer.changed {
            let outcome = self.write_commit(writer);
            writer.guard(outcome)?;
            add(&self.counters.commits, 1);
        }
        self.remove_retired(writer)?;
        Ok(writer.manifest.clone())
    }

    fn write_commit(&self, writer: &mut Writer) -> Result<()> {
        self.seal(writer)?;
        for file in &writer.unsynced {
            file.file.sync()?;
        }
        let manifest = self.next_manifest(writer);
        manifest.store(&*self.disk, &self.counters)?;
        writer.unsynced.clear();
        writer.manifest = manifest;
        writer.changed = false;
        Ok(())
    }

    fn next_manifest(&self, writer: &Writer) -> Manifest {
        let state = self.state();
        let mut manifest = Manifest::empty(&self.layout);
        manifest.commit = writer.manifest.commit + 1;
        manifest.next_seq = state.next_seq;
        manifest.next_segment = writer.next_segment;
        manifest.rows = state.index.rows();
        for slot in state.table.in_order() {
            let segment = state.table.get(slot);
            let Some(sealed) = segment.sealed else {
                assert!(segment.rows == 0, "a commit seals whatever has rows");
                continue;
            };
            manifest.segments.push(SegmentEntry {
                segment: segment.file.number,
                rows: segment.rows,
                bytes: sealed.bytes,
                checksum: sum_text(sealed.checksum),
            });
        }
        manifest
    }

    /// Removes the files of segments that were merged away and that no commit names any longer.
    /// One that cannot be removed is tried again after the next commit.
    fn remove_retired(&self, writer: &mut Writer) -> Result<()> {
        while let Some((number, rows)) = writer.retired.last().copied() {
            self.disk.remove(&segment::name(number))?;
            writer.retired.pop();
            let mut state = self.state_mut();
            let Space { segments, rows: all } = state.retired;
            state.retired = Space { segments: segments - 1, rows: all - u64::from(rows) };
        }
        Ok(())
    }
}
