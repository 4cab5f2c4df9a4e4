//! Drops rows by key and by age.

use stepwell_base::Key;

use crate::Result;
use crate::row_versions::Deletion;
use crate::segment_sizes::DELETED_AT_ONCE;
use crate::stats::add;
use crate::store::core::{Core, Store, Writer};

impl Store {
    /// Deletes the rows of `keys`; ignores keys without a row, such as those of other stores' key
    /// shards. Returns the number of rows deleted, including expired ones that compaction has not
    /// met. Compaction reclaims their space.
    ///
    /// # Errors
    /// If the disk fails; some keys may have been deleted.
    pub fn delete_many(&self, keys: &[Key]) -> Result<u64> {
        let core = &self.core;
        let mut deleted = 0;
        for piece in keys.chunks(DELETED_AT_ONCE as usize) {
            core.make_space()?;
            let mut writer = core.writer()?;
            core.room(&mut writer)?;
            deleted += core.delete_piece(&mut writer, piece);
        }
        Ok(deleted)
    }

    /// Expires rows last used before `step`: look-ups and scans skip them, and compaction drops
    /// them. A step below the current one has no effect.
    ///
    /// # Errors
    /// If writes are refused.
    pub fn expire_before(&self, step: u32) -> Result<()> {
        let mut writer = self.core.writer()?;
        let mut state = self.core.state_mut();
        if step > state.expire_before {
            state.expire_before = step;
            writer.changed = true;
        }
        drop(state);
        drop(writer);
        self.core.executor.notify();
        Ok(())
    }
}

impl Core {
    fn delete_piece(&self, writer: &mut Writer, keys: &[Key]) -> u64 {
        let Some(open) = &mut writer.open else { unreachable!("`room` started a segment") };
        let mut state = self.state_mut();
        let row = open.draft.counts().rows;
        let mut deleted = 0;
        for key in keys {
            let Some(place) = state.index.remove(*key) else { continue };
            let page = state.table.page(place);
            state.watch.note(page, *key);
            state.table.went_stale(page.slot);
            open.draft.delete(Deletion { key: *key, birth: open.birth, row });
            deleted += 1;
        }
        state.next_seq += deleted;
        writer.changed |= deleted > 0;
        add(&self.counters.rows_deleted, deleted);
        deleted
    }
}
