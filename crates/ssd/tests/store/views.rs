//! A refreshed view has the same contents as one opened at that commit.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use stepwell_base::{Key, hash};
use stepwell_disk::{
    Disk, Engine, Failure, Faults, FaultyDisk, FileDisk, Flip, Lasting, MemDisk, OpenFiles,
};
use stepwell_ssd::{
    Compaction, Error, KeyShardSet, Lookup, MANIFEST_NAME, Refreshed, Store, StoreOptions, Verify,
    View, check,
};

use crate::actor::Actor;
use crate::common::{get, options, payload, put};
use crate::harness::{Told, in_threads, is_long, scanned, shared};
use crate::history::History;

/// Properties that distinguish views: rows in file order, and counts.
fn seen(view: &View) -> impl PartialEq + use<> {
    let stats = view.stats();
    let counts = [stats.rows_live, stats.rows_stale, stats.segments, stats.deletions];
    (scanned(view), counts, stats.segments_by_live, stats.bytes_files, view.next_seq())
}

fn assert_at(view: &View, disk: &Arc<dyn Disk>, history: &History) {
    history.assert_held(view);
    let fresh = View::open(Arc::clone(disk), options()).unwrap();
    assert!(seen(view) == seen(&fresh), "as one that is opened there");
    assert_eq!(view.manifest(), fresh.manifest());
}

/// Seeds of the actors whose commits views follow.
fn seeds() -> Vec<u64> {
    (0..if is_long() { 40 } else { 14 }).collect()
}

#[test]
fn a_view_of_a_stores_own_directory_follows_its_commits() {
    in_threads(&seeds(), &|seed| {
        let _told = Told(format!("seed {seed}"));
        let disk = MemDisk::new();
        let home = shared(&disk);
        let mut actor = Actor::new(vec![Arc::clone(&home)], options(), *seed);
        actor.stays = true;
        actor.run(1).unwrap();
        let view = View::open(Arc::clone(&home), options()).unwrap();
        let (mut last, mut anew, mut gone) = (actor.history.clone(), 0, 0);
        last.resume(&view, &home);
        for step in 0..250 {
            actor.run(1).unwrap();
            // The view may be far behind: its files are gone from the directory.
            last.assert_held(&view);
            if step % (1 + seed % 7) == 0 {
                let refreshed = view.refresh().unwrap();
                anew += usize::from(refreshed.anew);
                gone += refreshed.segments_gone;
                last = actor.history.clone();
                last.resume(&view, &home);
                assert_at(&view, &home, &last);
            }
        }
        assert!(anew == 0 && gone > 10, "{anew} anew, {gone} gone");
    });
}

#[test]
fn a_view_goes_from_snapshot_to_snapshot() {
    in_threads(&seeds(), &|seed| {
        let _told = Told(format!("seed {seed}"));
        let disk = MemDisk::new();
        let compaction = [Compaction::Inline, Compaction::Background][*seed as usize % 2];
        let options = StoreOptions { compaction, ..options() };
        let mut actor = Actor::new(vec![shared(&disk)], options.clone(), *seed);
        // An actor that continues from a snapshot has another store, which is read completely.
        actor.stays = seed % 4 < 3;
        actor.run(500).unwrap();
        let at = |path: &Path| disk.directory(path).unwrap();
        let snapshots = &actor.snapshots;
        let view = View::open(at(&snapshots[0].0), options).unwrap();
        for (path, history) in snapshots {
            let refreshed = view.refresh_over(vec![at(path)]).unwrap();
            assert!(!(refreshed.anew && actor.stays) && view.path() == *path);
            assert_at(&view, &at(path), history);
        }
        // Backwards, everything is read.
        for (path, history) in snapshots.iter().rev().take(3) {
            view.refresh_over(vec![at(path)]).unwrap();
            assert_at(&view, &at(path), history);
        }
    });
}

/// Two snapshots, the second with rows put, moved and deleted since, and the history of each.
fn two_snapshots(disk: &MemDisk) -> [(Arc<dyn Disk>, History); 2] {
    let mut actor = Actor::new(vec![shared(disk)], options(), 5);
    actor.run(300).unwrap();
    let [.., first, _, _, second] = &actor.snapshots[..] else { panic!("too few snapshots") };
    [first, second].map(|(path, history)| (disk.directory(path).unwrap(), history.clone()))
}

#[test]
fn a_refresh_that_fails_leaves_the_view_whole() {
    let memory = MemDisk::new();
    let [(first, before), (second, after)] = two_snapshots(&memory);
    let (mut refused, mut damaged) = (0, 0);
    for at in 0..200 {
        let _told = Told(format!("operation {at}"));
        let faulty = Arc::new(FaultyDisk::new(Arc::clone(&second), Faults::default()));
        let view = View::open(Arc::clone(&first), options()).unwrap();
        let failure = Failure {
            operation: None,
            after: at / 2,
            kind: ErrorKind::Other,
            lasting: Lasting::Once,
        };
        let flip = Flip { after: at / 2, bit: at * 37 };
        faulty.inflict(match at % 2 {
            0 => Faults { failure: Some(failure), ..Faults::default() },
            _ => Faults { flip: Some(flip), ..Faults::default() },
        });
        let disks: Vec<Arc<dyn Disk>> = vec![Arc::<FaultyDisk>::clone(&faulty)];
        if let Err(error) = view.refresh_over(disks.clone()) {
            refused += usize::from(matches!(error, Error::Disk(_)));
            damaged += usize::from(matches!(error, Error::Damaged { .. }));
            before.assert_held(&view);
            assert_eq!(view.path(), first.path());
            faulty.inflict(Faults::default());
            view.refresh_over(disks).unwrap();
        }
        faulty.inflict(Faults::default());
        assert_at(&view, &second, &after);
    }
    assert!(refused > 5 && damaged > 5, "{refused} refused, {damaged} damaged");
}

/// Changes the number of rows in a directory's manifest.
fn say_rows(disk: &dyn Disk, rows: u64, said: u64) {
    let text = String::from_utf8(disk.read(MANIFEST_NAME, 1 << 20).unwrap()).unwrap();
    let body = text.splitn(3, '\n').nth(2).unwrap();
    let body = body.replace(&format!("\"rows\": {rows},"), &format!("\"rows\": {said},"));
    let sum = hash::checksum(body.as_bytes());
    let text = format!("{{\n  \"checksum\": \"{sum:016x}\",\n{body}");
    disk.remove(MANIFEST_NAME).unwrap();
    disk.create(MANIFEST_NAME).unwrap().write_at(0, text.as_bytes()).unwrap();
}

#[test]
fn a_manifest_that_does_not_add_up_changes_nothing() {
    let memory = MemDisk::new();
    let [(first, before), (second, after)] = two_snapshots(&memory);
    let view = View::open(first, options()).unwrap();
    let seen_before = seen(&view);
    let rows = View::open(Arc::clone(&second), options()).unwrap().len();
    for said in [rows - 1, rows + 1] {
        say_rows(&*second, rows, said);
        let error = view.refresh_over(vec![Arc::clone(&second)]).unwrap_err();
        assert!(matches!(error, Error::Damaged { .. }), "{error}");
        let named = format!("{rows} rows were found, the manifest counts {said}");
        assert!(error.to_string().contains(&named), "{error}");
        before.assert_held(&view);
        assert!(seen(&view) == seen_before);
        say_rows(&*second, said, rows);
    }
    view.refresh_over(vec![Arc::clone(&second)]).unwrap();
    assert_at(&view, &second, &after);
}

#[test]
fn an_index_without_room_keeps_what_it_had() {
    let disk = MemDisk::new();
    let store = Store::create(shared(&disk), options()).unwrap();
    put(&store, &(0..2000).map(|key| (key, key)).collect::<Vec<_>>()).unwrap();
    store.commit().unwrap();
    let taken = View::open(shared(&disk), options()).unwrap().stats().index_bytes_peak;
    let tight = StoreOptions { index_bytes_max: taken + 512, ..options() };
    let view = View::open(shared(&disk), tight).unwrap();
    let before = scanned(&view);
    put(&store, &(1000..9000).map(|key| (key, key + 1)).collect::<Vec<_>>()).unwrap();
    store.delete_many(&(0..500).map(Key).collect::<Vec<_>>()).unwrap();
    store.commit().unwrap();
    for _ in 0..2 {
        assert!(matches!(view.refresh(), Err(Error::IndexFull { .. })));
        assert!(scanned(&view) == before && view.len() == 2000);
    }
    let bytes = get(&view, &[7, 1500, 5000]).unwrap();
    assert_eq!(bytes, [Some(payload(7, 7)), Some(payload(1500, 1500)), None]);
}

#[test]
fn on_files_a_view_keeps_what_a_commit_removes() {
    let directory = tempfile::tempdir().unwrap();
    let open = || -> Arc<dyn Disk> {
        let path = directory.path().join("store");
        FileDisk::create(&path).unwrap();
        // Opened as by another process, which does not know which files are held here.
        Arc::new(FileDisk::with_open_files(&path, Engine::Auto, OpenFiles::new(64)).unwrap())
    };
    let store = Store::create(open(), options()).unwrap();
    let mut history = History::default();
    let rows = |step: u32| (0..300u64).map(|key| (key, step)).collect::<Vec<_>>();
    history.put(&store, &rows(1)).unwrap();
    history.commit(&store).unwrap();
    let view = View::open(open(), options()).unwrap();
    let (mut reader, mut last) = (view.reader().unwrap(), history.clone());
    for step in 2..8 {
        history.put(&store, &rows(step)).unwrap();
        history.commit(&store).unwrap();
        last.assert_held(&view);
        let under_way = reader.submit(Lookup::new((0..300).map(Key).collect()));
        let refreshed = view.refresh().unwrap();
        assert!(refreshed.segments_gone > 0 && !refreshed.anew, "{refreshed:?}");
        let found = reader.wait(under_way.unwrap()).unwrap();
        assert!(found.found.iter().all(|found| *found), "what it had begun with");
        last = history.clone();
        last.assert_held(&view);
        let none = Refreshed { commit: refreshed.commit, ..Refreshed::default() };
        assert_eq!(view.refresh().unwrap(), none);
    }
    drop((reader, view, store));
    assert_eq!(check(&[open()]).unwrap().damages, []);
}

#[test]
fn too_many_segments_to_hold_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let disk = FileDisk::create(&directory.path().join("store")).unwrap();
    let store = Store::create(Arc::new(disk), options()).unwrap();
    put(&store, &(0..900).map(|key| (key, key)).collect::<Vec<_>>()).unwrap();
    let manifest = store.commit().unwrap();
    let few = |name: &str| {
        let path = directory.path().join(name);
        Arc::new(FileDisk::with_open_files(&path, Engine::Auto, OpenFiles::new(8)).unwrap())
    };
    let error = View::open(few("store"), options()).unwrap_err().to_string();
    assert!(error.contains("ulimit -n") && error.contains(" 8 may be"), "{error}");
    let snapshot = directory.path().join("snapshot");
    std::fs::create_dir(&snapshot).unwrap();
    store.snapshot(&snapshot).unwrap();
    let view = View::open(few("snapshot"), options()).unwrap();
    assert_eq!((view.len(), view.manifest().segments.len()), (900, manifest.segments.len()));
}

/// A store of many small segments with three snapshots; rows have their snapshot's version.
fn three_snapshots() -> (MemDisk, [Arc<dyn Disk>; 3]) {
    let world = MemDisk::new();
    let home = world.create_directory(Path::new("/home")).unwrap();
    let store = Store::create(home, options()).unwrap();
    let snapshots = [1, 2, 3].map(|version| {
        // The second changes only a few rows.
        let count = if version == 2 { 50 } else { 4000 };
        let rows: Vec<(u64, u64)> = (0..count).map(|key| (key, version)).collect();
        put(&store, &rows).unwrap();
        let path = format!("/snapshot-{version}");
        let to = world.create_directory(Path::new(&path)).unwrap();
        store.snapshot(to.path()).unwrap();
        to
    });
    (world, snapshots)
}

/// Ends another thread when this one ends, even by a panic.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn a_scan_beside_refreshes_is_of_one_commit() {
    let (_world, [first, _, third]) = three_snapshots();
    let snapshots = [first, third];
    let view = View::open(Arc::clone(&snapshots[0]), options()).unwrap();
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let refreshing = scope.spawn(|| {
            let mut at = 0;
            while !ended.load(Ordering::SeqCst) {
                at = (at + 1) % snapshots.len();
                view.refresh_over(vec![Arc::clone(&snapshots[at])]).unwrap();
            }
        });
        let end = Ends(&ended);
        let (mut versions, mut scans) = ([0; 4], 0);
        // On a busy machine, the other thread may start late.
        while scans < 60 || scans < 2000 && versions.iter().filter(|count| **count > 0).count() < 2
        {
            scans += 1;
            let rows = scanned(&view);
            let keys: BTreeSet<u64> = rows.iter().map(|(key, _)| *key).collect();
            let used: BTreeSet<u32> = rows.iter().map(|(_, used)| *used).collect();
            assert_eq!((rows.len(), keys.len(), used.len()), (4000, 4000, 1), "{used:?}");
            used.iter().for_each(|version| versions[*version as usize] += 1);
        }
        drop(end);
        refreshing.join().unwrap();
        assert!(versions[1..].iter().filter(|count| **count > 0).count() > 1, "{versions:?}");
    });
}

#[test]
fn a_view_goes_on_to_a_fork_and_to_another_store() {
    let (world, snapshots) = three_snapshots();
    let [first, second, third] = &snapshots;
    let fresh = |disk: &Arc<dyn Disk>| View::open(Arc::clone(disk), options()).unwrap();
    let view = fresh(second);
    // The first snapshot is written as a store: its commits are later, but of another line.
    let fork = Store::open(Arc::clone(first), options()).unwrap();
    for key in 5000..5003 {
        put(&fork, &[(key, 9)]).unwrap();
        fork.commit().unwrap();
    }
    drop(fork);
    let refreshed = view.refresh_over(vec![Arc::clone(first)]).unwrap();
    assert!(refreshed.anew && seen(&view) == seen(&fresh(first)));
    // A restored store has its own id, and so have its cursors.
    let disk = world.create_directory(Path::new("/restored")).unwrap();
    let restored =
        Store::restore(Arc::clone(&disk), third.path(), Verify::Everything, options()).unwrap();
    restored.commit().unwrap();
    view.refresh_over(vec![Arc::clone(&disk)]).unwrap();
    let other = fresh(&disk);
    let mut scan = other.scan().unwrap();
    scan.visit(10, &mut |_, _, _| Ok(())).unwrap();
    let mut rest = view.scan_from(&scan.cursor()).unwrap();
    let mut rows = 10;
    while let more @ 1.. = rest.visit(1000, &mut |_, _, _| Ok(())).unwrap() {
        rows += more;
    }
    assert_eq!(rows, 4000);
    // The view reports its current directory.
    assert_eq!(view.stats().directories[0].path, "/restored");
    let refused = view.commit().unwrap_err().to_string();
    assert!(refused.contains("/restored") && refused.contains("`Store::open`"), "{refused}");
    let part = StoreOptions { key_shards: KeyShardSet::part(0, 2), ..options() };
    let half = world.create_directory(Path::new("/half")).unwrap();
    let sources = [third.path()];
    drop(Store::restore_shards(vec![Arc::clone(&half)], &sources, Verify::Everything, part));
    let refused = view.refresh_over(vec![half]).unwrap_err().to_string();
    assert!(refused.contains("key shards"), "{refused}");
}
