//! Commits.
//!
//! Crash safety: before the rename, the old manifest is in place and every segment it names is
//! intact, since none was removed. After it, the new manifest is, and everything it names was
//! synced before. Removals come last and need not survive: opening sets aside what no manifest
//! names.

use tracing::{debug, warn};

use crate::manifest::{Manifest, sum_text};
use crate::numbers::SegmentNumber;
use crate::segment::entry::SegmentEntry;
use crate::segment::{self, SegmentFile};
use crate::stats::add;
use crate::store::core::{Core, Space, Store, Writer};
use crate::{Error, Result};

impl Store {
    /// Makes everything put and deleted so far durable: compacts until space is within the setting,
    /// seals the open segment, syncs, writes the manifest, and then removes merged segments.
    /// Returns the manifest. If nothing has changed, writes nothing and returns the last commit.
    ///
    /// # Errors
    /// If the disk fails: the previous commit stays the last one, nothing is lost, and the next
    /// commit retries. If only the file of a merged segment cannot be removed, the commit is made,
    /// and the next one removes the file.
    pub fn commit(&self) -> Result<Manifest> {
        self.core.ease()?;
        let mut writer = self.core.writer()?;
        self.core.commit_locked(&mut writer)
    }
}

impl Core {
    pub(in crate::store) fn commit_locked(&self, writer: &mut Writer) -> Result<Manifest> {
        if writer.changed {
            self.write_commit(writer)?;
            add(&self.counters.commits, 1);
        }
        self.remove_retired(writer)?;
        Ok(writer.manifest.clone())
    }

    fn write_commit(&self, writer: &mut Writer) -> Result<()> {
        // Writes that fail here are pending, and errors are returned if they fail again.
        let _ = self.seal(writer);
        self.drain(writer)?;
        let manifest = self.next_manifest(writer)?;
        self.sync(writer, &manifest)?;
        manifest.store(&**self.home(), &self.counters)?;
        debug!(
            store = %self.home().path().display(),
            commit = manifest.commit,
            segments = manifest.segments.len(),
            rows = manifest.rows,
            "commit made"
        );
        writer.unsynced.clear();
        writer.manifest = manifest;
        writer.changed = false;
        writer.retired.append(&mut writer.leaving);
        Ok(())
    }

    /// Syncs new segments, and their names in directories without a manifest.
    fn sync(&self, writer: &mut Writer, manifest: &Manifest) -> Result<()> {
        // Some have been merged already.
        let named = |number: SegmentNumber| {
            let number = u64::from(number);
            manifest.segments.binary_search_by_key(&number, |entry| entry.segment).is_ok()
        };
        writer.unsynced.retain(|file| named(file.number));
        writer.unsound.retain(|number| named(*number));
        if let Some(number) = writer.unsound.first() {
            let why = format!("{} could be neither synced nor copied", segment::name(*number));
            return Err(Error::Refused { path: self.home().path().to_owned(), why });
        }
        for file in &writer.unsynced {
            // After a failed sync, a successful one proves nothing about earlier writes.
            file.file.sync().inspect_err(|error| {
                warn!(%error, "a segment could not be synced: the next commit copies it");
                writer.unsound.push(file.number);
            })?;
        }
        for (directory, disk) in self.disks.iter().enumerate().skip(1) {
            let here = || writer.unsynced.iter().filter(|file| file.directory == directory);
            if here().next().is_some() {
                let numbers = here().map(|file| file.number);
                disk.sync_directory().inspect_err(|_| writer.unsound.extend(numbers))?;
            }
        }
        Ok(())
    }

    /// The manifest of the next commit; merged segments that it omits move to `writer.leaving`.
    fn next_manifest(&self, writer: &mut Writer) -> Result<Manifest> {
        // SSD-I7: a merge is in the manifest completely or not at all.
        let settling = self.settling.lock();
        let _settling = settling.map_err(|_| self.refusal("a merge panicked"))?;
        writer.leaving.append(&mut self.state_mut().retiring);
        let state = self.state();
        let mut manifest = Manifest::empty(self.id, &self.layout);
        manifest.key_shards = self.key_shards;
        manifest.origins.clone_from(&writer.manifest.origins);
        manifest.commit = writer.manifest.commit + 1;
        manifest.next_seq = state.next_seq;
        manifest.expire_before = state.expire_before;
        manifest.directories = self.paths();
        manifest.next_segment = writer.next_segment;
        manifest.rows = state.index.rows();
        for slot in state.table.in_order() {
            let segment = state.table.get(slot);
            let Some(sealed) = segment.sealed else {
                assert!(segment.rows == 0, "a commit seals all segments with rows");
                continue;
            };
            let SegmentFile { number, origin, layout, counting, .. } = *segment.file;
            let checksum = sum_text(sealed.tail.sum(&layout, &origin));
            let entry = SegmentEntry::new(number, segment.rows, sealed.bytes, checksum);
            manifest.name(origin, counting, entry);
        }
        Ok(manifest)
    }

    /// Paths of the directories, for messages.
    pub(in crate::store) fn paths(&self) -> Vec<String> {
        self.disks.iter().map(|disk| disk.path().display().to_string()).collect()
    }

    /// Removes the files of merged segments that no commit names. If a file cannot be removed, the
    /// next commit tries again.
    fn remove_retired(&self, writer: &mut Writer) -> Result<()> {
        while let Some(retired) = writer.retired.last() {
            let removed =
                self.disks[retired.file.directory].remove(&segment::name(retired.file.number));
            removed.inspect_err(|error| {
                warn!(%error, "a merged segment could not be removed: the next commit tries again");
            })?;
            let mut state = self.state_mut();
            let Space { segments, rows, bytes } = state.retired;
            state.retired = Space {
                segments: segments - 1,
                rows: rows - u64::from(retired.rows),
                bytes: bytes - retired.bytes,
            };
            drop(state);
            writer.retired.pop();
        }
        Ok(())
    }
}
