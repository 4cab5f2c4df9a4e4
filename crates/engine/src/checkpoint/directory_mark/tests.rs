use std::io::ErrorKind;
use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::json;
use stepwell_disk::{Disk, Failure, Faults, FaultyDisk, FileDisk, Lasting, MemDisk, Operation};

use super::identity;
use crate::checkpoint::keep::Keep;
use crate::checkpoint::writer::CheckpointWriter;
use crate::checkpoint::{Placement, list, prepare};
use crate::dense::Dense;

fn disk(directory: &Path) -> Arc<dyn Disk> {
    Arc::new(FileDisk::open(directory).unwrap())
}

fn dense() -> Dense {
    Dense { sections: vec![("w".to_owned(), vec![1.0, -2.5])] }
}

/// Names of all entries of a directory.
fn names(directory: &Path) -> Vec<String> {
    disk(directory).entries().unwrap().into_iter().map(|(name, _)| name).collect()
}

fn copy(from: &Path, to: &Path) {
    let copied = std::process::Command::new("cp").arg("-a").args([from, to]).status().unwrap();
    assert!(copied.success());
}

/// Writes steps 1 to 3, keeps all of them, and leaves a half-written step 4.
fn killed(directory: &Path) {
    let mut writer = CheckpointWriter::new(disk(directory), 9);
    for step in 1..=3 {
        writer.write(step, &json!({}), &dense().view(), &[]).unwrap();
    }
    writer.begin(4, &json!({})).unwrap();
    let half = directory.join(".incomplete-step-000000000004");
    std::fs::write(half.join("dense.bin"), b"half").unwrap();
    // Like a kill, which drops nothing.
    std::mem::forget(writer);
}

/// Continues in a directory with step 4, keeping one; returns the remaining names and the notes.
fn go_on(directory: &Path) -> (Vec<String>, Vec<String>) {
    prepare(&*disk(directory), Placement::Resume).unwrap();
    let said = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&said);
    let writer = CheckpointWriter::resume(disk(directory), 1).unwrap();
    let mut writer =
        writer.telling(Arc::new(move |note| told.lock().unwrap().push(note.to_owned())));
    writer.write(4, &json!({}), &dense().view(), &[]).unwrap();
    (names(directory), std::mem::take(&mut said.lock().unwrap()))
}

const ALONE: [&str; 2] = [".stepwell-id", "step-000000000004"];

#[test]
fn marks_hold_in_a_directory_that_was_copied_or_moved_as_a_whole() {
    let parent = tempfile::tempdir().unwrap();
    let at = |name: &str| parent.path().join(name);
    std::fs::create_dir(at("saved")).unwrap();
    killed(&at("saved"));
    copy(&at("saved"), &at("copied"));
    std::fs::rename(at("saved"), at("moved")).unwrap();
    for name in ["copied", "moved"] {
        assert_eq!(go_on(&at(name)), (ALONE.map(str::to_owned).to_vec(), Vec::new()), "{name}");
    }
}

#[test]
fn marks_hold_nowhere_else() {
    let parent = tempfile::tempdir().unwrap();
    let at = |name: &str| parent.path().join(name);
    for name in ["saved", "other"] {
        std::fs::create_dir(at(name)).unwrap();
        killed(&at(name));
    }
    // Checkpoints of another directory, and a copy of the half-written one for a later step.
    std::fs::remove_dir_all(at("saved/step-000000000002")).unwrap();
    copy(&at("other/step-000000000002"), &at("saved/step-000000000002"));
    copy(&at("saved/step-000000000003"), &at("saved/step-000000000003-backup"));
    std::fs::remove_dir_all(at("saved/.incomplete-step-000000000004")).unwrap();
    copy(&at("other/.incomplete-step-000000000004"), &at("saved/.incomplete-step-000000000004"));
    let (names, said) = go_on(&at("saved"));
    let stay = [
        ".stepwell-id",
        "set-aside-1",
        "step-000000000002",
        "step-000000000003-backup",
        "step-000000000004",
    ];
    assert_eq!(names, stay);
    assert!(said.len() == 1 && said[0].ends_with("set-aside-1"), "{said:?}");
    assert!(at("saved/set-aside-1/.incomplete-step-000000000004/dense.bin").exists());
    // A single checkpoint that was copied into a new directory stays there.
    std::fs::create_dir(at("new")).unwrap();
    copy(&at("other/step-000000000003"), &at("new/step-000000000003"));
    let stay = [ALONE[0], "step-000000000003", ALONE[1]].map(str::to_owned).to_vec();
    assert_eq!(go_on(&at("new")), (stay, Vec::new()));
}

#[test]
fn marks_of_earlier_builds_hold_for_the_directory_that_they_name() {
    let parent = tempfile::tempdir().unwrap();
    let at = |name: &str| parent.path().join(name);
    std::fs::create_dir(at("saved")).unwrap();
    killed(&at("saved"));
    std::fs::remove_file(at("saved/.stepwell-id")).unwrap();
    for name in names(&at("saved")) {
        let path = at("saved").join(name);
        std::fs::write(path.join(".stepwell"), identity(&*disk(&path), &path).unwrap()).unwrap();
    }
    copy(&at("saved"), &at("copied"));
    assert_eq!(go_on(&at("saved")), (ALONE.map(str::to_owned).to_vec(), Vec::new()));
    let (names, said) = go_on(&at("copied"));
    assert_eq!((names.len(), said.len()), (6, 1), "{names:?} {said:?}");
}

#[test]
fn what_was_moved_away_or_replaced_counts_no_longer() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let mut writer = CheckpointWriter::new(disk(directory.path()), 2);
    let mut write = |step| {
        writer.write(step, &json!({}), &dense().view(), &[]).unwrap();
        names(directory.path())
    };
    write(1);
    write(2);
    std::fs::rename(at("step-000000000001"), at("best")).unwrap();
    assert_eq!(
        write(3),
        [".stepwell-id", "best", "step-000000000002", "step-000000000003"],
        "two are kept beside it"
    );
    // A user's directory in the place of a checkpoint.
    std::fs::remove_dir_all(at("step-000000000002")).unwrap();
    std::fs::create_dir(at("step-000000000002")).unwrap();
    std::fs::write(at("step-000000000002/notes"), b"mine").unwrap();
    write(4);
    write(5);
    assert!(at("step-000000000002/notes").exists() && !at("step-000000000003").exists());
}

#[test]
fn what_cannot_be_removed_is_told_and_ends_nothing() {
    let world = Arc::new(MemDisk::new());
    let faulty = Arc::new(FaultyDisk::new(world, Faults::default()));
    let said = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&said);
    let writer = CheckpointWriter::new(Arc::<FaultyDisk>::clone(&faulty), 1);
    let mut writer =
        writer.telling(Arc::new(move |note| told.lock().unwrap().push(note.to_owned())));
    let mut write = |step| writer.write(step, &json!({}), &dense().view(), &[]).unwrap();
    write(1);
    let failure = Failure {
        operation: Some(Operation::Remove),
        after: 0,
        kind: ErrorKind::PermissionDenied,
        lasting: Lasting::FromThenOn,
    };
    faulty.inflict(Faults { failure: Some(failure), ..Faults::default() });
    write(2);
    faulty.inflict(Faults::default());
    write(3);
    let said = said.lock().unwrap();
    assert!(said.len() == 1 && said[0].contains("step-000000000001, which stays"), "{said:?}");
    let steps = list(&*faulty).unwrap().into_iter().map(|(step, _)| step);
    assert_eq!(steps.collect::<Vec<_>>(), [3]);
}
