//! The limit on open files of this process (`ulimit -n`).

use std::fs;
use std::sync::LazyLock;

use super::limit_of;

/// Files of all stores that are open at least: merges hold some whose names are removed.
const OF_STORES: u64 = 8;
/// Open files per store: its lock, a queue that writes, one that reads.
const OF_STORE: u64 = 3;
/// Open files per rank: its data, the lock of its rows' directory, a queue that merges, and a
/// segment that is needed while all others are in use.
const OF_RANK: u64 = 4;
/// Open files for checkpoints: their lock, a directory, a file.
const OF_CHECKPOINTS: u64 = 3;

/// Files that a run opens.
#[derive(Clone, Copy, Debug)]
pub struct FilesWanted {
    /// Number of ranks that are threads of this process.
    pub ranks: usize,
    /// Number of stores per rank.
    pub stores: usize,
    /// Whether checkpoints are written.
    pub checkpoints: bool,
}

impl FilesWanted {
    /// Maximum number of files open at once, not counting those that stores close on demand.
    fn count(&self) -> u64 {
        let of_rank = OF_RANK + OF_STORE * self.stores as u64;
        let checkpoints = if self.checkpoints { OF_CHECKPOINTS } else { 0 };
        OF_STORES + checkpoints + of_rank.saturating_mul(self.ranks as u64)
    }
}

/// Why this process can't open the run's files; `None` if it can.
pub fn lacks_files(wanted: &FilesWanted) -> Option<String> {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    lacks(wanted, files_at_first(), limit_of(&limits, "Max open files")?)
}

fn lacks(wanted: &FilesWanted, open: u64, limit: u64) -> Option<String> {
    let needed = open.saturating_add(wanted.count());
    let (whose, fewer) = match wanted.ranks {
        1 => (String::new(), ""),
        ranks => (format!(" with {ranks} ranks"), ", or lower ranks"),
    };
    (needed > limit).then(|| {
        format!(
            "the run{whose} may have up to {needed} files open, {open} of them already, but the \
             limit of this process is {limit} (ulimit -n): raise it to {needed}{fewer}"
        )
    })
}

/// Number of files that this process had open at the first call, before a run opens any.
pub fn files_at_first() -> u64 {
    static AT_FIRST: LazyLock<u64> = LazyLock::new(|| {
        let listed = fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        // The listing itself is one of them.
        (listed as u64).saturating_sub(1)
    });
    *AT_FIRST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_open_already_counts() {
        let wanted = FilesWanted { ranks: 1, stores: 1, checkpoints: false };
        let needed = 7 + wanted.count();
        assert_eq!(lacks(&wanted, 7, needed), None);
        let why = lacks(&wanted, 7, needed - 1).unwrap();
        assert!(why.contains("7 of them already") && !why.contains("ranks"), "{why}");
        let several = FilesWanted { ranks: 8, stores: 2, checkpoints: true };
        let why = lacks(&several, 7, 64).unwrap();
        assert!(why.contains("with 8 ranks") && why.ends_with(", or lower ranks"), "{why}");
        assert!(files_at_first() > 0);
    }
}
