//! The files that this process may have open (`ulimit -n`).

use std::fs;
use std::sync::LazyLock;

use super::limit_of;

/// Files of the stores that are open together at least: merges hold some whose names are gone.
const OF_STORES: u64 = 8;
/// Of each store: its lock, a queue that writes, one that reads.
const OF_STORE: u64 = 3;
/// Of each rank: its data, the lock of the place of its rows, a queue that merges, and a segment
/// that is wanted while all others are in use.
const OF_RANK: u64 = 4;
/// Of checkpoints: their lock, a directory, a file.
const OF_CHECKPOINTS: u64 = 3;

/// What a run opens.
#[derive(Clone, Copy, Debug)]
pub struct FilesWanted {
    /// Ranks that are threads of this process.
    pub ranks: usize,
    /// Stores of each.
    pub stores: usize,
    /// Whether it keeps checkpoints.
    pub checkpoints: bool,
}

impl FilesWanted {
    /// How many are open at once, at most, beside those that stores close for others.
    fn count(&self) -> u64 {
        let of_rank = OF_RANK + OF_STORE * self.stores as u64;
        let checkpoints = if self.checkpoints { OF_CHECKPOINTS } else { 0 };
        OF_STORES + checkpoints + of_rank.saturating_mul(self.ranks as u64)
    }
}

/// Why a run cannot have its files open here; none where it can.
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
            "the run{whose} may have up to {needed} files open, {open} of them already, and the \
             limit of this process is {limit} (ulimit -n): raise it to {needed}{fewer}"
        )
    })
}

/// Files that this process had open when this was first asked: before a run opens any.
pub fn files_at_first() -> u64 {
    static AT_FIRST: LazyLock<u64> = LazyLock::new(|| {
        let listed = fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        // The list itself is one of them.
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
