//! Every operation fails, one at a time, once or from then on: promised checkpoints stay, a failed
//! one leaves nothing behind, and the next run continues.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use stepwell_disk::{Disk, Failure, Faults, FaultyDisk, Lasting, MemDisk, Operation, Survival};

use crate::checkpoint::harness::{Told, in_threads};
use crate::checkpoint::judge::{go_on, judge};
use crate::checkpoint::life::{ALONE, Ledger, Ranks, SAVED, SEVERAL, script};

fn is_long() -> bool {
    std::env::var_os("STEPWELL_LONG").is_some()
}

/// Makes one operation fail; returns whether the run noticed.
fn fail(ranks: Ranks, after: u64, kind: ErrorKind, lasting: Lasting) -> bool {
    let (world, mut ledger) = (MemDisk::new(), Ledger::default());
    let failure = Some(Failure { operation: None, after, kind, lasting });
    let faults = Faults { failure, ..Faults::default() };
    let outcome = script(&FaultyDisk::new(Arc::new(world.clone()), faults), ranks, &mut ledger);
    // An old checkpoint that can't be removed is only reported, and ends no run.
    let noticed = outcome.is_err() || ledger.noted.load(Ordering::Relaxed);
    let _told = Told(format!(
        "{ranks:?} operation {after}, {kind:?}, {lasting:?}, {outcome:?}, {ledger:?}"
    ));
    if let Err(error) = &outcome {
        let error = error.to_string();
        assert!(!error.contains('\n') && error.contains('/'), "{error}");
    }
    world.free_locks();
    if let (Some(step), Lasting::Once) = (ledger.writing, lasting) {
        let saved = world.directory(Path::new(SAVED)).unwrap();
        let left = format!(".incomplete-step-{step:012}");
        assert!(!saved.exists(&left).unwrap(), "a failed checkpoint leaves nothing");
    }
    let ends = [Some(Survival::SyncedAlone), Some(Survival::Torn(after)), None];
    // Each of them in a long run; otherwise alternately, with every kind of failure.
    let first = after as usize / KINDS.len() % ends.len();
    let chosen = if is_long() { &ends[..] } else { &ends[first..][..1] };
    for end in chosen {
        let left = end.map_or_else(|| world.clone(), |survival| world.crash(survival));
        go_on(&left, &judge(&left, &ledger));
    }
    noticed
}

#[test]
fn every_operation_may_fail() {
    fail_everywhere(ALONE, 0);
}

#[test]
fn every_operation_of_several_ranks_may_fail() {
    fail_everywhere(SEVERAL, 1);
}

/// Ways in which an operation fails.
const KINDS: [(ErrorKind, Lasting); 3] = [
    (ErrorKind::StorageFull, Lasting::FromThenOn),
    (ErrorKind::StorageFull, Lasting::Once),
    (ErrorKind::Other, Lasting::Once),
];

/// Makes every operation fail: in one of the ways, alternately from `first` on; in a long run, in
/// all of them.
fn fail_everywhere(ranks: Ranks, first: usize) {
    let ways = if is_long() { KINDS.len() } else { 1 };
    let whole = FaultyDisk::new(Arc::new(MemDisk::new()), Faults::default());
    script(&whole, ranks, &mut Ledger::default()).unwrap();
    let operations: u64 = Operation::ALL.iter().map(|operation| whole.count(*operation)).sum();
    assert!(operations > 800, "{operations}");
    let noticed = AtomicU64::new(0);
    in_threads(&(0..operations).collect::<Vec<_>>(), &|after| {
        let first = (first + *after as usize) % KINDS.len();
        for (kind, lasting) in KINDS.into_iter().cycle().skip(first).take(ways) {
            noticed.fetch_add(fail(ranks, *after, kind, lasting).into(), Ordering::Relaxed);
        }
    });
    // Failures of best-effort operations go unnoticed.
    let noticed = noticed.into_inner();
    let all = operations * ways as u64;
    assert!(noticed > all * 5 / 6, "{noticed} of {all}");
}
