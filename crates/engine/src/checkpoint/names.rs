//! Names of a checkpoint's parts.

use stepwell_base::owner::RankOf;

const ROWS_PREFIX: &str = "rows-";

/// Directory of the rows that one of several ranks has of table group `group`.
pub(super) fn rows_of_rank(group: usize, of: RankOf) -> String {
    let name = rows_name(group);
    if of.ranks == 1 { name } else { format!("{name}-rank-{}", of.rank) }
}

/// File of a rank's other state.
pub(super) fn dense_of_rank(rank: usize) -> String {
    format!("dense-{rank}.bin")
}

/// Directory of the rows of table group `group`.
pub(super) fn rows_name(group: usize) -> String {
    format!("{ROWS_PREFIX}{group}")
}

/// The table group of a directory name from [`rows_name`].
pub(super) fn group_of(rows: &str) -> Option<usize> {
    let group = rows.strip_prefix(ROWS_PREFIX)?.parse().ok()?;
    (rows_name(group) == rows).then_some(group)
}
