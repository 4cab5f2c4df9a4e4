//! Reports of a store.

use crate::stats::{LIVE_PARTS, Stats};
use crate::store::core::Core;

impl Core {
    /// Counts of the work done so far, and sizes of the contents.
    pub(super) fn stats(&self) -> Stats {
        let paths: Vec<String> =
            self.disks.iter().map(|disk| disk.path().display().to_string()).collect();
        let (stride, page) = (self.layout.stride as u64, self.layout.page_bytes as u64);
        let mut stats = self.counters.counted(stride, page, &paths);
        let state = self.state();
        stats.rows_live = state.index.rows();
        stats.rows_stale = state.table.rows() + state.retired.rows - stats.rows_live;
        stats.bytes_live = stats.rows_live * stride;
        stats.bytes_files = state.table.bytes() + state.retired.bytes;
        if stats.bytes_live > 0 {
            stats.space_amplification = stats.bytes_files as f64 / stats.bytes_live as f64;
        }
        stats.bytes_debt = self.pressure(&state).debt();
        stats.segments = state.table.len() as u64;
        stats.segments_retired = state.retired.segments;
        (stats.segments_pinned, stats.bytes_pinned) = self.pinned(&state);
        stats.deletions = state.table.deletions();
        stats.files_set_aside = self.aside.files;
        stats.bytes_set_aside = self.aside.bytes;
        if let Some(files) = self.disks.iter().find_map(|disk| disk.open_files()) {
            stats.files_open = files.open as u64;
            stats.files_open_peak = files.most as u64;
            stats.files_open_max = files.bound as u64;
        }
        stats.index_bytes = state.index.bytes();
        stats.index_bytes_peak = state.index.bytes_peak();
        stats.index_rewrite_ms_longest = state.index.rewrite_longest().as_secs_f64() * 1e3;
        for (directory, held) in stats.directories.iter_mut().zip(state.table.directories()) {
            directory.segments = held.segments;
        }
        for slot in state.table.sealed() {
            let segment = state.table.get(slot);
            let part = u64::from(segment.live) * LIVE_PARTS as u64 / u64::from(segment.rows.max(1));
            stats.segments_by_live[(part as usize).min(LIVE_PARTS - 1)] += 1;
            stats.segments_left_alone += u64::from(segment.left_alone);
        }
        stats
    }
}
