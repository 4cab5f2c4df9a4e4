//! Checks that a world contains what was promised.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Mutex;

use stepwell_base::Key;
use stepwell_base::hash::Digest128;
use stepwell_disk::{Disk, EntryKind};
use stepwell_engine::{Checkpoint, Placement, list, passed_over};
use stepwell_ssd::{Store, Verify, check};

use crate::checkpoint::life::{KEEP, Ledger, SAVED, dense, live, options, rows, run, scratch};

/// Checks that all promised checkpoints exist and all existing ones are complete; returns their
/// steps.
pub(crate) fn judge(world: &dyn Disk, ledger: &Ledger) -> Vec<u64> {
    let found = whole(world, Path::new(SAVED));
    let aside = aside(world);
    // Dropped checkpoints that could not be removed are moved with the others.
    let but_dropped = |mut steps: Vec<u64>, promised: &[u64]| {
        steps.retain(|step| promised.contains(step) || !ledger.dropped.contains(step));
        steps
    };
    if ledger.moving {
        let mut both = [aside, found.clone()].concat();
        both.sort_unstable();
        assert_eq!(but_dropped(both, &ledger.kept), ledger.kept, "each is in one place");
        return found;
    }
    assert_eq!(but_dropped(aside, &ledger.aside), ledger.aside);
    let written = ledger.writing.filter(|step| found.contains(step));
    // A new one replaces the oldest once it is complete.
    let must = match written {
        Some(_) => &ledger.kept[ledger.kept.len().saturating_sub(KEEP - 1)..],
        None => &ledger.kept,
    };
    assert!(must.iter().all(|step| found.contains(step)), "{must:?} of {found:?} {ledger:?}");
    let may = |step: &u64| {
        let listed = [&ledger.kept, &ledger.dropped].iter().any(|steps| steps.contains(step));
        listed || written == Some(*step)
    };
    assert!(found.iter().all(may), "{found:?} {ledger:?}");
    found
}

/// Continues in a world, and checks that nothing foreign is left there.
pub(crate) fn go_on(world: &dyn Disk, found: &[u64]) {
    let mut ledger = Ledger { kept: found.to_vec(), aside: aside(world), ..Ledger::default() };
    let ranks = 1 + found.len() % 3;
    live(world, Placement::ResumeOrStart, (ranks, 2), &mut ledger).unwrap();
    let last = found.last().copied().unwrap_or(0) + 2;
    assert_eq!(ledger.kept, [last - 1, last]);
    assert_eq!(judge(world, &ledger), ledger.kept);
    let names = world.directory(Path::new(SAVED)).unwrap().entries().unwrap();
    let own = ["step-", "set-aside-", ".stepwell-id"];
    let others = |name: &str| !own.iter().any(|own| name.starts_with(own));
    assert!(!names.iter().any(|(name, _)| others(name)), "nothing incomplete stays: {names:?}");
}

/// Steps of the checkpoints that were set aside.
fn aside(world: &dyn Disk) -> Vec<u64> {
    let mut aside = Vec::new();
    for number in 1.. {
        let path = Path::new(SAVED).join(format!("set-aside-{number}"));
        if world.directory(&path).is_err() {
            return aside;
        }
        aside.extend(whole(world, &path));
    }
    unreachable!("there is an end to them")
}

/// Steps of the checkpoints in a directory; each is complete, and nothing else has such a name.
fn whole(world: &dyn Disk, path: &Path) -> Vec<u64> {
    let Ok(directory) = world.directory(path) else { return Vec::new() };
    assert_eq!(passed_over(&*directory).unwrap(), Vec::<&Path>::new());
    let found = list(&*directory).unwrap();
    for (step, path) in &found {
        holds(world, path, *step);
    }
    found.into_iter().map(|(step, _)| step).collect()
}

/// Digests of checkpoints that were found correct. Crashes leave the same bytes many times, and
/// checking them takes most of the time of these tests.
static CORRECT: Mutex<BTreeSet<u128>> = Mutex::new(BTreeSet::new());

/// Digest of the names and bytes of all files at `path`. The bytes of the mark are left out: they
/// differ between directories, and `list` has checked them.
fn digest(world: &dyn Disk, path: &Path, digest: &mut Digest128) {
    let directory = world.directory(path).unwrap();
    for (name, kind) in directory.entries().unwrap() {
        digest.update(format!("{name} {kind:?} ").as_bytes());
        match kind {
            _ if name == ".stepwell" => {}
            EntryKind::Directory => self::digest(world, &path.join(name), digest),
            EntryKind::File | EntryKind::Other => {
                let file = directory.open(&name).unwrap();
                let mut bytes = vec![0; file.len().unwrap() as usize];
                file.read_at(0, &mut bytes).unwrap();
                digest.update(&(bytes.len() as u64).to_le_bytes());
                digest.update(&bytes);
            }
        }
    }
    digest.update(b"end");
}

/// Checks that the checkpoint at `path` contains the model after `step` steps.
fn holds(world: &dyn Disk, path: &Path, step: u64) {
    let mut bytes = Digest128::new();
    bytes.update(&step.to_le_bytes());
    digest(world, path, &mut bytes);
    if CORRECT.lock().unwrap().contains(&bytes.value()) {
        return;
    }
    holds_by_reading(world, path, step);
    CORRECT.lock().unwrap().insert(bytes.value());
}

/// Same as [`holds`], for bytes that weren't checked before.
fn holds_by_reading(world: &dyn Disk, path: &Path, step: u64) {
    let checkpoint = Checkpoint::open_in(&*world.directory(path).unwrap()).unwrap();
    assert_eq!((checkpoint.step, &checkpoint.run), (step, &run(step)));
    assert_eq!(checkpoint.dense, dense(step));
    checkpoint.check_rows().unwrap();
    let mut restored = BTreeMap::new();
    for saved in &checkpoint.rows {
        let disk = world.directory(&saved.path).unwrap();
        assert_eq!(check(&[disk]).unwrap().damages, []);
        let store =
            Store::restore(scratch(world).unwrap(), &saved.path, Verify::Everything, options())
                .unwrap();
        let visit = &mut |key: Key, _used: u32, row: &[u8]| {
            assert_eq!(restored.insert(key.0, row.to_vec()), None);
            Ok(())
        };
        store.scan_live(visit).unwrap();
    }
    assert!(restored == rows(step), "rows of step {step} differ");
}
