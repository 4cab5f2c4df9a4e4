//! Error message for a mini-batch that doesn't fit an empty slab.

use std::sync::Arc;

use stepwell_base::Key;

use crate::Error;
use crate::group::Group;
use crate::mini_batch::{Cargo, MiniBatch};
use crate::planner::Planner;

/// Error for `mini`, whose rows can never fit table group `number`.
pub(super) fn too_large<C: Cargo>(
    planners: &[Planner],
    number: usize,
    groups: &[Arc<Group>],
    mini: &MiniBatch<C>,
) -> Error {
    let rows = |group: &Group| mini.keys_of(group).map(<[Key]>::len).sum::<usize>();
    let (planner, group) = (&planners[number], &groups[number]);
    if planner.is_whole() {
        let (slots, rows) = (planner.slots(), planner.rows_wanted());
        return Error::NotWhole { table: group.names(), slots, rows };
    }
    let all = planners.iter().zip(groups).filter(|(planner, _)| !planner.is_whole());
    let largest = all.max_by_key(|(_, group)| rows(group) * 1_000_000 / group.slab.slots().max(1));
    let (planner, group) = largest.unwrap_or((planner, group));
    let asked = group.members().iter().map(|table| &mini.parts[*table].request);
    let occurrences: usize = asked.map(|request| request.occurrence_rows.len()).sum();
    let (rows, lanes) = (rows(group), group.spec().row_lanes());
    let bytes = planner.slab_bytes(rows as u64, lanes);
    let most = planner.slab_bytes(occurrences as u64, lanes);
    Error::MiniBatchTooLarge {
        examples: mini.cargo.examples(),
        rows,
        table: group.names(),
        slots: group.slab.slots(),
        row_bytes: bytes / rows.max(1) as u64,
        memory: group.memory_settings(),
        needed: scaled(bytes, planners, groups, planner, group),
        needed_most: scaled(most, planners, groups, planner, group),
    }
}

/// Setting that gives `group` this many `bytes`: for groups that share memory, the total at the
/// current division.
fn scaled(
    bytes: u64,
    planners: &[Planner],
    groups: &[Arc<Group>],
    planner: &Planner,
    group: &Group,
) -> u64 {
    if group.is_given() || groups.len() == 1 {
        return bytes;
    }
    let of = |planner: &Planner, group: &Group, more| {
        planner.slab_bytes(planner.slots() as u64 + more, group.spec().row_lanes())
    };
    // The unused rest of each share is less than a slot.
    let all: u64 = planners.iter().zip(groups).map(|(planner, group)| of(planner, group, 1)).sum();
    let own = of(planner, group, 0).max(1);
    (u128::from(bytes) * u128::from(all)).div_ceil(u128::from(own)) as u64
}
