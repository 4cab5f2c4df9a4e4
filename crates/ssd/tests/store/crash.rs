//! Power cuts after every operation that changes the disk: afterwards there is a commit.
//!
//! - **How.** An actor with a seed runs until the power fails after n changes of the disk, for
//!   every possible n. Each time, the disk becomes what survives a crash, in several ways. The
//!   store on it must open, have the promised commit or a later one, and continue; also after a
//!   second cut while it continues.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use stepwell_base::random::Stream;
use stepwell_disk::{Disk, Faults, FaultyDisk, MemDisk, Survival};
use stepwell_ssd::{Error, KeyShardSet, Result, Store, StoreOptions, Verify, check};

use crate::actor::Actor;
use crate::common::{Oracle, assert_holds, options, put, reopen};
use crate::harness::{Told, in_threads, is_long, shared};

/// Number of steps of a run.
const STEPS: u32 = 50;
/// Number of random survivals of each cut.
fn torn() -> u64 {
    if is_long() { 6 } else { 1 }
}

/// A run to cut: directories, options and seed.
#[derive(Clone)]
struct Plan {
    directories: &'static [&'static str],
    options: StoreOptions,
    seed: u64,
}

impl Plan {
    /// The actor of this run, its disk, and its world.
    fn actor(&self, cut_after: Option<u64>) -> (Actor, FaultyDisk, MemDisk) {
        let world = MemDisk::new();
        // Some runs copy files into snapshots instead of linking them.
        let no_links = self.seed % 2 == 1;
        let faults = Faults { cut_after, no_links, ..Faults::default() };
        let faulty = FaultyDisk::new(Arc::new(world.clone()), Faults::default());
        let made = self.directories.iter().map(|path| faulty.create_directory(Path::new(path)));
        let disks = made.map(|disk| disk.unwrap()).collect();
        faulty.inflict(faults);
        (Actor::new(disks, self.options.clone(), self.seed), faulty, world)
    }

    /// Cuts the power after `cut_after` changes; returns the number of crashes survived.
    fn cut(&self, cut_after: u64) -> u64 {
        let (mut actor, _, world) = self.actor(Some(cut_after));
        // The last failure may be the removal of an unnamed file, which is no error.
        let _ = actor.run(STEPS);
        let created = actor.store.is_some() || actor.history.len() > 0;
        let torn = (0..torn()).map(|n| Survival::Torn(self.seed << 32 | cut_after << 8 | n));
        let mut survived = 0;
        for survival in [Survival::SyncedAlone, Survival::Everything].into_iter().chain(torn) {
            let _told = Told(format!("seed {}, cut after {cut_after}, {survival:?}", self.seed));
            survived += survive(&actor, created, &world.crash(survival), survival);
        }
        survived
    }
}

/// Continues with the store that a crash left; returns the number of crashes survived.
fn survive(before: &Actor, created: bool, world: &MemDisk, survival: Survival) -> u64 {
    let mut actor = match before.survive(before.disks_in(world)) {
        Ok(actor) => actor,
        Err(Error::Missing { .. }) if !created => return 1,
        Err(error) => panic!("{error}"),
    };
    world.free_locks();
    assert_eq!(check(&actor.disks).unwrap().damages, []);
    restore_one(before, world);
    let Survival::Torn(seed) = survival else {
        actor.run(4).unwrap();
        actor.commit().unwrap();
        actor.reopen().unwrap();
        return 1;
    };
    // Another power cut follows soon, possibly while the first crash is being cleaned up.
    let mut dice = Stream::named(seed, b"second cut");
    let faults = Faults { cut_after: Some(dice.next_u64() % 24), ..Faults::default() };
    let home = FaultyDisk::new(before.disks_in(world).remove(0), faults);
    let paths = before.disks.iter().map(|disk| home.directory(disk.path()));
    let Ok(disks) = paths.collect() else { return 1 };
    actor.store = None;
    let again = match actor.survive(disks) {
        Ok(mut again) => {
            let _ = again.run(20);
            again
        }
        Err(_) => actor,
    };
    let world = world.crash(Survival::Torn(dice.next_u64()));
    let survivor = again.survive(again.disks_in(&world)).unwrap();
    world.free_locks();
    assert_eq!(check(&survivor.disks).unwrap().damages, []);
    2
}

/// Asserts that the last complete snapshot is intact.
fn restore_one(before: &Actor, world: &MemDisk) {
    let Some((path, history)) = before.snapshots.last() else { return };
    let to = world.create_directory(Path::new("/restored")).unwrap();
    let store = Store::restore(Arc::clone(&to), path, Verify::Everything, options()).unwrap();
    history.clone().resume(&store, &to);
}

/// Cuts after every change of the disk in every run; returns the numbers of cuts and crashes.
fn cut_all(plans: &[Plan]) -> (u64, u64) {
    let mut cuts = Vec::new();
    for plan in plans {
        let (mut actor, faulty, _) = plan.actor(None);
        let _told = Told(format!("seed {}, no cut", plan.seed));
        actor.run(STEPS).unwrap();
        cuts.extend((0..faulty.mutations()).map(|cut_after| (plan.clone(), cut_after)));
    }
    let survived = AtomicU64::new(0);
    in_threads(&cuts, &|(plan, cut_after)| {
        survived.fetch_add(plan.cut(*cut_after), Ordering::Relaxed);
    });
    (cuts.len() as u64, survived.into_inner())
}

#[test]
fn after_every_operation_a_commit_is_left() {
    let wide = StoreOptions { segment_bytes: 32_768, buffer_bytes: 12_288, ..options() };
    let plan = |seed: u64| {
        let options = match seed % 3 {
            0 => options(),
            // Segments grow almost immediately.
            1 => StoreOptions { segments_many: 3, ..options() },
            _ => wide.clone(),
        };
        Plan { directories: &["/memory"], options, seed }
    };
    let plans: Vec<Plan> = (0..if is_long() { 5 } else { 3 }).map(plan).collect();
    let (cuts, survived) = cut_all(&plans);
    assert!(cuts > 200 * plans.len() as u64, "{cuts} cuts");
    assert!(survived > (1 + 2 * torn()) * cuts, "{survived} crashes survived of {cuts} cuts");
}

#[test]
fn after_every_operation_over_two_directories() {
    let directories = &["/memory", "/other"];
    let plans = [Plan { directories, options: options(), seed: 100 }];
    let (cuts, survived) = cut_all(&plans);
    assert!(
        cuts > 200 && survived > (1 + 2 * torn()) * cuts,
        "{survived} crashes survived of {cuts} cuts"
    );
}

#[test]
fn a_snapshot_outlives_the_store_and_a_crash() {
    let memory = MemDisk::new();
    let store = Store::create(shared(&memory), options()).unwrap();
    let rows: Vec<(u64, u64)> = (0..100).map(|key| (key, key)).collect();
    put(&store, &rows).unwrap();
    let path = memory.path().join("snapshot");
    memory.create_directory(&path).unwrap();
    store.snapshot(&path).unwrap();
    let crashed = memory.crash(Survival::SyncedAlone);
    for name in crashed.list().unwrap() {
        crashed.remove(&name).unwrap();
    }
    let store = Store::restore(shared(&crashed), &path, Verify::Everything, options()).unwrap();
    let oracle = Oracle::from_iter(rows);
    assert_holds(&store, &oracle);
    // A restored store is durable immediately.
    let again = reopen(&crashed.crash(Survival::SyncedAlone)).unwrap();
    assert_holds(&again, &oracle);
}

/// Cuts `change` after each of its changes of the disk, and judges the world after every kind of
/// crash; returns the number of cuts.
fn cut_each(
    world: &dyn Fn() -> MemDisk,
    change: &dyn Fn(Arc<dyn Disk>) -> Result<()>,
    judge: &dyn Fn(&MemDisk, bool),
) -> u64 {
    let whole = FaultyDisk::new(shared(&world()), Faults::default());
    change(Arc::new(whole.clone())).unwrap();
    for cut_after in 0..whole.mutations() {
        let world = world();
        let faults = Faults { cut_after: Some(cut_after), ..Faults::default() };
        let done = change(Arc::new(FaultyDisk::new(shared(&world), faults))).is_ok();
        let torn = (0..6).map(|n| Survival::Torn(cut_after << 8 | n));
        for survival in [Survival::SyncedAlone, Survival::Everything].into_iter().chain(torn) {
            let _told = Told(format!("cut after {cut_after}, {survival:?}"));
            judge(&world.crash(survival), done);
        }
    }
    whole.mutations()
}

/// A committed store with a snapshot, and the rows of both.
fn with_snapshot() -> (MemDisk, Oracle) {
    let world = MemDisk::new();
    let store = Store::create(shared(&world), options()).unwrap();
    let rows: Vec<(u64, u64)> = (0..150).map(|key| (key, key)).collect();
    put(&store, &rows).unwrap();
    world.create_directory(Path::new("/snapshot")).unwrap();
    store.snapshot(Path::new("/snapshot")).unwrap();
    (world, Oracle::from_iter(rows))
}

#[test]
fn a_restored_store_is_there_or_is_not() {
    let (world, oracle) = with_snapshot();
    let paths = ["/one", "/two"].map(Path::new);
    let directories = |world: &Arc<dyn Disk>| -> Result<Vec<Arc<dyn Disk>>> {
        Ok(paths
            .iter()
            .map(|path| world.create_directory(path))
            .collect::<std::result::Result<_, _>>()?)
    };
    let restore = |world: &Arc<dyn Disk>| {
        Store::restore_over(
            directories(world)?,
            Path::new("/snapshot"),
            Verify::Everything,
            options(),
        )
    };
    let cuts = cut_each(
        &|| world.crash(Survival::Everything),
        &|world| restore(&world).map(drop),
        &|world, done| {
            let disks = directories(&shared(world)).unwrap();
            let store = match Store::open_over(disks, options()) {
                Err(Error::Missing { .. }) if !done => restore(&shared(world)),
                outcome => outcome,
            };
            assert_holds(&store.unwrap(), &oracle);
        },
    );
    assert!(cuts > 8, "{cuts}");
}

#[test]
fn a_store_of_key_shards_is_there_or_is_not() {
    let (world, oracle) = with_snapshot();
    let directory = |world: &Arc<dyn Disk>, name: &str| world.create_directory(Path::new(name));
    let part = |world: &Arc<dyn Disk>, number| {
        let disks = vec![directory(world, ["/one", "/two"][number])?];
        let key_shards = KeyShardSet::part(number, 2);
        let options = StoreOptions { key_shards, ..options() };
        Store::restore_shards(disks, &[Path::new("/snapshot")], Verify::Listed, options)
    };
    drop([0, 1].map(|number| part(&shared(&world), number).unwrap()));
    let join = |world: &Arc<dyn Disk>| {
        let disks = vec![directory(world, "/three")?, directory(world, "/four")?];
        let sources = ["/one", "/two"].map(Path::new);
        Store::restore_shards(disks, &sources, Verify::Listed, options())
    };
    let cuts = cut_each(
        &|| world.crash(Survival::Everything),
        &|world| join(&world).map(drop),
        &|world, done| {
            let world = shared(world);
            let disks = ["/three", "/four"].map(|name| directory(&world, name).unwrap());
            let store = match Store::open_over(disks.to_vec(), options()) {
                Err(Error::Missing { .. }) if !done => join(&world),
                outcome => outcome,
            };
            assert_holds(&store.unwrap(), &oracle);
        },
    );
    assert!(cuts > 8, "{cuts}");
}

#[test]
fn a_store_that_is_set_aside_is_there_or_is_not() {
    let (world, oracle) = with_snapshot();
    let cuts = cut_each(
        &|| world.crash(Survival::Everything),
        &|world| {
            Store::set_aside(&*world)?;
            Store::create(world, options()).map(drop)
        },
        &|world, done| {
            match reopen(world) {
                Ok(store) if store.is_empty() => {}
                Ok(store) => assert_holds(&store, &oracle),
                Err(Error::Missing { .. }) => {
                    assert!(!done);
                    Store::set_aside(world).unwrap();
                    assert!(Store::create(shared(world), options()).unwrap().is_empty());
                }
                Err(error) => panic!("{error}"),
            }
            // The snapshot has links to the same files.
            let to = world.create_directory(Path::new("/to")).unwrap();
            assert_holds(
                &Store::restore(to, Path::new("/snapshot"), Verify::Everything, options()).unwrap(),
                &oracle,
            );
        },
    );
    assert!(cuts > 8, "{cuts}");
}
