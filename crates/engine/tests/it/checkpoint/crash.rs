//! Power cuts after every operation that changes the disk: every promised checkpoint exists and is
//! complete, and the next run continues.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use stepwell_base::random::Stream;
use stepwell_disk::{Disk, Faults, FaultyDisk, MemDisk, Survival};
use stepwell_engine::Placement;

use crate::checkpoint::harness::{Told, in_threads};
use crate::checkpoint::judge::{go_on, judge};
use crate::checkpoint::life::{ALONE, Ledger, Ranks, SEVERAL, live, script};

/// Ways in which the disk survives a cut: all of them and six random ones in a long run; otherwise
/// a random one, and alternately all or nothing of the unsynced data.
fn survivals(cut_after: u64) -> Vec<Survival> {
    let torn = |n| Survival::Torn(cut_after << 8 | n);
    let whole = [Survival::SyncedAlone, Survival::Everything];
    match std::env::var_os("STEPWELL_LONG") {
        Some(_) => whole.into_iter().chain((0..6).map(torn)).collect(),
        None => vec![whole[cut_after as usize % 2], torn(0)],
    }
}

fn cutting(world: &MemDisk, cut_after: Option<u64>) -> FaultyDisk {
    FaultyDisk::new(Arc::new(world.clone()), Faults { cut_after, ..Faults::default() })
}

/// Cuts the power after `cut_after` changes; returns the number of crashes survived.
fn cut(cut_after: u64, ranks: Ranks) -> u64 {
    let (world, mut ledger) = (MemDisk::new(), Ledger::default());
    // Failing to remove an old checkpoint doesn't end the run.
    let _ = script(&cutting(&world, Some(cut_after)), ranks, &mut ledger);
    let mut survived = 0;
    for survival in survivals(cut_after) {
        let _told = Told(format!("{ranks:?} cut after {cut_after}, {survival:?}, {ledger:?}"));
        survived += survive(&world.crash(survival), &ledger, survival);
    }
    survived
}

/// Checks that the rest after a crash is as promised, and that a run continues; returns the number
/// of crashes survived.
fn survive(world: &MemDisk, ledger: &Ledger, survival: Survival) -> u64 {
    let found = judge(world, ledger);
    let Survival::Torn(seed) = survival else {
        go_on(world, &found);
        return 1;
    };
    // The power fails again soon, perhaps while the first crash is being cleaned up.
    let aside = match ledger.moving {
        true => ledger.kept.iter().filter(|step| !found.contains(step)).copied().collect(),
        false => ledger.aside.clone(),
    };
    let mut ledger = Ledger { kept: found, aside, ..Ledger::default() };
    let mut dice = Stream::named(seed, b"second cut");
    let home = cutting(world, Some(dice.next_u64() % 120));
    let _ = live(&home, Placement::ResumeOrStart, (2, 3), &mut ledger);
    let world = world.crash(Survival::Torn(dice.next_u64()));
    let _told = Told(format!("a second cut, {ledger:?}"));
    let found = judge(&world, &ledger);
    go_on(&world, &found);
    2
}

/// Cuts a script after every operation.
fn cut_everywhere(ranks: Ranks) {
    let (world, mut ledger) = (MemDisk::new(), Ledger::default());
    let whole = cutting(&world, None);
    script(&whole, ranks, &mut ledger).unwrap();
    assert_eq!((&ledger.kept[..], &ledger.aside[..]), (&[2, 3][..], &[4, 5][..]));
    let found = judge(&world.crash(Survival::SyncedAlone), &ledger);
    assert_eq!(found, ledger.kept);
    let cuts: Vec<u64> = (0..whole.mutations()).collect();
    let survived = AtomicU64::new(0);
    in_threads(&cuts, &|cut_after| {
        survived.fetch_add(cut(*cut_after, ranks), Ordering::Relaxed);
    });
    let (cuts, survived) = (cuts.len(), survived.into_inner());
    assert!(cuts > 300 && survived > 2 * cuts as u64, "{survived} crashes survived of {cuts} cuts");
}

#[test]
fn after_every_operation_all_that_was_promised_is_left() {
    cut_everywhere(ALONE);
}

#[test]
fn after_every_operation_of_several_ranks_too() {
    cut_everywhere(SEVERAL);
}

/// A checkpoint that is being read is neither removed nor lost, whatever the disk.
#[test]
fn what_is_read_stays_in_memory_too() {
    let (world, mut ledger) = (MemDisk::new(), Ledger::default());
    live(&world, Placement::Fresh, (1, 1), &mut ledger).unwrap();
    let saved = world.directory(std::path::Path::new(crate::checkpoint::life::SAVED)).unwrap();
    let read = stepwell_engine::Checkpoint::open_in(&*saved).unwrap();
    live(&world, Placement::Resume, (1, 3), &mut ledger).unwrap();
    let steps = |disk: &dyn Disk| -> Vec<u64> {
        let found = stepwell_engine::list(disk).unwrap();
        found.into_iter().map(|(step, _)| step).collect()
    };
    assert_eq!(steps(&*saved), [1, 3, 4]);
    drop(read);
    live(&world, Placement::Resume, (1, 1), &mut ledger).unwrap();
    assert_eq!(steps(&*saved), [4, 5]);
}
