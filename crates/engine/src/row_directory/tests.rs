use super::*;

#[test]
fn many_at_once_never_take_each_others() {
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let scratch = Scratch::open(None, Placement::Fresh).unwrap();
                    let rows = scratch.rows(0).unwrap();
                    fs::write(rows.join("row"), b"here").unwrap();
                    assert!(rows.join("row").exists());
                }
            });
        }
    });
}

#[test]
fn a_temporary_directory_goes_with_its_owner() {
    let scratch = Scratch::open(None, Placement::Fresh).unwrap();
    let rows = scratch.rows(0).unwrap();
    assert!(rows.is_dir());
    // Another run's sweep leaves directories in use alone.
    let other = Scratch::open(None, Placement::Fresh).unwrap();
    assert!(rows.is_dir());
    assert_ne!(other.path, scratch.path);
    drop(scratch);
    assert!(!rows.exists());
    // As a killed process leaves it: a directory with a free lock.
    let left = temporary_parent().join(format!("{PREFIX}0-left"));
    fs::create_dir_all(&left).unwrap();
    fs::write(left.with_extension(LOCK), b"").unwrap();
    drop(Scratch::open(None, Placement::Fresh).unwrap());
    assert!(!left.exists() && !left.with_extension(LOCK).exists());
}

/// A named directory in a scratch of its own, as an earlier run left it.
struct Left {
    _parent: Scratch,
    named: PathBuf,
}

impl Left {
    fn new() -> Self {
        let parent = Scratch::open(None, Placement::Fresh).unwrap();
        let named = parent.path.join("ssd");
        let mut first = Scratch::open(Some(&named), Placement::Fresh).unwrap();
        assert_eq!(first.note(), None);
        first.keep();
        fs::write(first.rows(0).unwrap().join("segment"), b"rows").unwrap();
        Self { _parent: parent, named }
    }

    fn open(&self, placement: Placement) -> Scratch {
        Scratch::open(Some(&self.named), placement).unwrap()
    }

    /// Makes a directory with a file in it.
    fn put(&self, name: &str) -> PathBuf {
        let path = self.named.join(name);
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("segment"), name).unwrap();
        path
    }
}

#[test]
fn rows_of_an_earlier_run_are_refused_set_aside_or_made_anew() {
    let left = Left::new();
    let refused = Scratch::open(Some(&left.named), Placement::Fresh).unwrap_err().to_string();
    assert!(refused.contains("--force"), "{refused}");
    let mut second = left.open(Placement::SetAside);
    assert!(second.note().unwrap().contains("set-aside-1"), "{:?}", second.note());
    assert!(left.named.join("set-aside-1/rows-0/segment").exists());
    assert!(!second.rows(0).unwrap().join("segment").exists());
    let busy = Scratch::open(Some(&left.named), Placement::SetAside).unwrap_err().to_string();
    assert!(busy.contains("in use"), "{busy}");
    fs::write(second.rows(0).unwrap().join("segment"), b"rows").unwrap();
    second.keep();
    drop(second);
    // Resuming rebuilds the rows, so it leaves no second copy of them.
    let third = left.open(Placement::Resume);
    assert!(!third.rows(0).unwrap().join("segment").exists());
    assert!(!left.named.join("set-aside-2").exists());
    assert_eq!(third.note(), None);
}

#[test]
fn a_run_that_keeps_nothing_is_in_nobodys_way() {
    let left = Left::new();
    left.put("rows-7");
    let refused = left.open(Placement::SetAside);
    fs::write(refused.rows(0).unwrap().join("segment"), b"rows").unwrap();
    refused.rows(1).unwrap();
    left.put("rows-8");
    drop(refused);
    // The run's own rows are removed, with their marks; a user's stay.
    let kept: Vec<_> = leftovers::find(&left.named).unwrap();
    assert_eq!(kept, [left.named.join("rows-8")]);
    assert!(!left.named.join(".rows-0").exists());
    assert!(left.named.join("set-aside-1/rows-7/segment").exists());
}

#[test]
fn other_names_are_never_touched() {
    let left = Left::new();
    let names = ["rows-important", "rows-", "rows-00", "rows--1", "rows-0.old", "rows-+1"];
    let kept = names.map(|name| left.put(name));
    for placement in [Placement::Resume, Placement::SetAside, Placement::Resume] {
        let mut scratch = left.open(placement);
        scratch.keep();
        fs::write(scratch.rows(0).unwrap().join("segment"), b"rows").unwrap();
        assert!(kept.iter().all(|path| path.join("segment").exists()), "{placement:?}");
    }
    // These directories don't prevent a run from starting either.
    fs::remove_dir_all(left.named.join("rows-0")).unwrap();
    left.open(Placement::Fresh);
}

#[test]
fn rows_without_a_mark_are_set_aside_when_a_run_resumes() {
    let left = Left::new();
    // As builds without marks left them.
    fs::remove_file(left.named.join(".rows-0")).unwrap();
    left.put("rows-3");
    let resumed = left.open(Placement::Resume);
    let note = resumed.note().unwrap();
    assert!(note.contains("2 table groups") && note.contains("set-aside-1"), "{note}");
    for name in ["rows-0", "rows-3"] {
        assert!(left.named.join("set-aside-1").join(name).join("segment").exists(), "{name}");
    }
    assert!(!resumed.rows(0).unwrap().join("segment").exists());
}

#[test]
fn a_mark_counts_for_the_directory_that_it_was_made_for() {
    let left = Left::new();
    // Foreign rows under the name, while the run's own are still there.
    fs::rename(left.named.join("rows-0"), left.named.join("bad")).unwrap();
    left.put("rows-0");
    let resumed = left.open(Placement::Resume);
    assert!(resumed.note().is_some());
    assert!(left.named.join("set-aside-1/rows-0/segment").exists());
    assert!(left.named.join("bad/segment").exists());
}

fn copy(from: &Path, to: &Path) {
    let copied = std::process::Command::new("cp").arg("-a").args([from, to]).status().unwrap();
    assert!(copied.success());
}

#[test]
fn marks_are_moved_and_copied_with_the_directory() {
    let left = Left::new();
    let parent = left.named.parent().unwrap();
    let [copied, moved] = ["copied", "moved"].map(|name| parent.join(name));
    copy(&left.named, &copied);
    fs::rename(&left.named, &moved).unwrap();
    for place in [&copied, &moved] {
        let resumed = Scratch::open(Some(place), Placement::Resume).unwrap();
        assert_eq!(resumed.note(), None);
        assert!(!place.join("rows-0").exists() && !place.join(".rows-0").exists());
    }
}

#[test]
fn rows_that_were_copied_alone_are_somebodys() {
    let (left, other) = (Left::new(), Left::new());
    fs::remove_dir_all(left.named.join("rows-0")).unwrap();
    for name in ["rows-0", "rows-1"] {
        copy(&other.named.join("rows-0"), &left.named.join(name));
    }
    let resumed = left.open(Placement::Resume);
    assert!(resumed.note().unwrap().contains("2 table groups"), "{:?}", resumed.note());
    for name in ["rows-0", "rows-1"] {
        let aside = left.named.join("set-aside-1").join(name);
        assert!(aside.join("segment").exists() && fs::read_dir(aside).unwrap().count() == 1);
    }
}

#[test]
fn marks_of_earlier_builds_hold_for_the_directory_that_they_name() {
    let left = Left::new();
    let rows = left.named.join("rows-0");
    let mark = crate::identity(&FileDisk::open(&rows).unwrap(), &rows).unwrap();
    fs::write(left.named.join(".rows-0"), mark).unwrap();
    fs::remove_file(rows.join(".stepwell-rows")).unwrap();
    let copied = left.named.parent().unwrap().join("copied");
    copy(&left.named, &copied);
    assert_eq!(left.open(Placement::Resume).note(), None);
    assert!(Scratch::open(Some(&copied), Placement::Resume).unwrap().note().is_some());
    assert!(copied.join("set-aside-1/rows-0/segment").exists());
}

#[test]
fn a_checkpoint_is_no_place_for_rows() {
    let left = Left::new();
    let rows = left.put("step-000000000250/rows-0");
    let checkpoint = left.named.join("step-000000000250");
    let refused = |path: &Path| {
        for placement in [Placement::Fresh, Placement::Resume, Placement::SetAside] {
            let error = Scratch::open(Some(path), placement).unwrap_err().to_string();
            assert!(error.contains("is a checkpoint"), "{error}");
            assert!(!path.join(".lock").exists());
        }
    };
    for file in ["checkpoint.json", "CHECKSUMS"] {
        let path = checkpoint.join(file);
        fs::write(&path, b"{}").unwrap();
        refused(&checkpoint);
        fs::remove_file(&path).unwrap();
    }
    fs::write(checkpoint.join("checkpoint.json"), b"{}").unwrap();
    fs::write(checkpoint.join("CHECKSUMS"), b"").unwrap();
    [&rows, &checkpoint.join("new")].into_iter().for_each(|path| refused(path));
    assert!(rows.join("segment").exists());
}

#[test]
fn rows_of_other_ranks_go_where_nobody_uses_them() {
    let left = Left::new();
    let rank = |rank: usize| left.named.join(name_of_rank(rank));
    let fill = |place: &Path| {
        let mut scratch = Scratch::open(Some(place), Placement::Fresh).unwrap();
        scratch.keep();
        fs::write(scratch.rows(0).unwrap().join("segment"), b"rows").unwrap();
        scratch
    };
    drop((fill(&rank(0)), fill(&rank(2)), fill(&rank(3))));
    let used = fill(&rank(4));
    let important = left.put("rank-3/rows-1");
    fs::create_dir(rank(9)).unwrap();
    Scratch::clear_other_ranks(&left.named, 2, Placement::Resume).unwrap();
    // A single rank's rows, and those of ranks that no longer exist.
    assert!(!left.named.join("rows-0").exists() && !rank(2).join("rows-0").exists());
    assert!(!rank(3).join("rows-0").exists() && rank(0).join("rows-0").exists());
    // A directory in use, with its lock, and a user's.
    assert!(rank(4).join("rows-0/segment").exists() && DirectoryLock::take(&rank(4)).is_err());
    assert!(important.join("segment").exists() && rank(9).is_dir());
    drop(used);
    Scratch::clear_other_ranks(&left.named, 1, Placement::Resume).unwrap();
    assert!(!rank(0).join("rows-0").exists() && !rank(4).join("rows-0").exists());
}

#[test]
fn rows_of_other_ranks_are_in_the_way_of_a_run_that_begins_anew() {
    let left = Left::new();
    let rank = |rank: usize| left.named.join(name_of_rank(rank));
    let clear = |ranks, placement| Scratch::clear_other_ranks(&left.named, ranks, placement);
    fs::create_dir_all(rank(2)).unwrap();
    assert!(clear(1, Placement::Fresh).unwrap().is_empty(), "nothing is there, or its own");
    let own = left.put("rank-1/rows-0");
    let of_ranks =
        [left.put("rank-2/rows-0"), left.put("rank-3/rows-0"), left.put("rank-3/rows-1")];
    let of_one = left.named.join("rows-0");
    let refused = |ranks| clear(ranks, Placement::Fresh).unwrap_err().to_string();
    let one = format!("tiers.ssd = {} holds rows of an earlier run", left.named.display());
    assert!(refused(2).starts_with(&one), "{}", refused(2));
    assert!(refused(1).contains("rank-") && refused(1).contains("--force"), "{}", refused(1));
    // One is in use: nothing is moved.
    let used = DirectoryLock::take(&rank(3)).unwrap();
    let error = clear(2, Placement::SetAside).unwrap_err().to_string();
    assert!(error.contains("rank-3 is in use by another run") && of_one.exists(), "{error}");
    drop(used);
    let notes = clear(2, Placement::SetAside).unwrap();
    assert_eq!(notes.len(), 3, "{notes:?}");
    assert!(notes.iter().any(|note| note.contains("rank-3 held rows (2 table groups)")));
    assert!(of_ranks.iter().chain([&of_one]).all(|rows| !rows.exists()) && own.exists());
    for rows in ["set-aside-1/rows-0", "rank-2/set-aside-1/rows-0", "rank-3/set-aside-1/rows-1"] {
        assert!(left.named.join(rows).join("segment").exists(), "{rows}");
    }
    assert!(clear(2, Placement::Fresh).unwrap().is_empty());
}
