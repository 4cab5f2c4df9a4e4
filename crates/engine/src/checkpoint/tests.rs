use std::io::ErrorKind;
use std::sync::Arc;

use serde_json::json;
use stepwell_base::{Key, hash};
use stepwell_disk::{Disk, Failure, Faults, FaultyDisk, FileDisk, Lasting, MemDisk};
use stepwell_optim::{RowOptimizer, Rule};
use stepwell_ssd::{Store, StoreOptions};

use super::*;
use crate::dense::Dense;
use crate::group::Group;
use crate::staging::Staging;
use crate::table_spec::TableSpec;

fn disk(directory: &Path) -> Arc<dyn Disk> {
    Arc::new(FileDisk::open(directory).unwrap())
}

fn dense() -> Dense {
    let sections = vec![("w".to_owned(), vec![1.0, -2.5]), ("m".to_owned(), vec![f32::MIN])];
    Dense { sections }
}

fn write(directory: &Path, step: u64) -> PathBuf {
    let mut writer = CheckpointWriter::new(disk(directory), 2);
    writer.write(step, &json!({ "at": step }), &dense().view(), &[]).unwrap()
}

#[test]
fn what_was_written_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = write(directory.path(), 7);
    let checkpoint = Checkpoint::open(directory.path()).unwrap();
    assert_eq!((checkpoint.step, &checkpoint.path), (7, &path));
    assert_eq!(checkpoint.dense, dense());
    assert_eq!(checkpoint.run, json!({ "at": 7 }));
    assert_eq!(Checkpoint::open(&path).unwrap().step, 7);
}

#[test]
fn sections_larger_than_a_piece_keep_every_bit() {
    let directory = tempfile::tempdir().unwrap();
    let values =
        |count: u32| (0..count).map(|bits| f32::from_bits(bits.wrapping_mul(65_537))).collect();
    let sections: Vec<(String, Vec<f32>)> = [40_000, 0, 1, 16_384, 70_001]
        .into_iter()
        .map(|count| (format!("of {count}"), values(count)))
        .collect();
    let dense = Dense { sections };
    let mut writer = CheckpointWriter::new(disk(directory.path()), 1);
    writer.write(1, &json!({}), &dense.view(), &[]).unwrap();
    let read = Checkpoint::open(directory.path()).unwrap().dense;
    assert_eq!(read.sections.len(), dense.sections.len());
    for ((name, found), (wanted, values)) in read.sections.iter().zip(&dense.sections) {
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert_eq!((name, bits(found)), (wanted, bits(values)));
    }
    assert_eq!(read.bytes(), 4 * (40_000 + 1 + 16_384 + 70_001));
}

#[test]
fn the_newest_few_of_this_run_are_kept() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), 1);
    let mut writer = CheckpointWriter::new(disk(directory.path()), 2);
    for step in [2, 3, 4] {
        writer.write(step, &json!({}), &dense().view(), &[]).unwrap();
    }
    // Step 1 is from an earlier run, so this one must not remove it.
    let steps: Vec<u64> =
        list(&*disk(directory.path())).unwrap().into_iter().map(|(s, _)| s).collect();
    assert_eq!(steps, [1, 3, 4]);
    let mut writer = CheckpointWriter::resume(disk(directory.path()), 2).unwrap();
    writer.write(5, &json!({}), &dense().view(), &[]).unwrap();
    let steps: Vec<u64> =
        list(&*disk(directory.path())).unwrap().into_iter().map(|(s, _)| s).collect();
    assert_eq!(steps, [4, 5]);
}

#[test]
fn what_is_there_is_refused_resumed_or_set_aside() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(prepare(&*disk(directory.path()), Placement::Fresh).unwrap(), None);
    let path = write(directory.path(), 5);
    let refused = prepare(&*disk(directory.path()), Placement::Fresh).unwrap_err().to_string();
    assert!(refused.contains("step 5") && refused.contains("--resume"), "{refused}");
    assert_eq!(prepare(&*disk(directory.path()), Placement::Resume).unwrap(), Some(path));
    assert_eq!(prepare(&*disk(directory.path()), Placement::SetAside).unwrap(), None);
    assert!(directory.path().join("set-aside-1/step-000000000005").is_dir());
    assert_eq!(list(&*disk(directory.path())).unwrap(), []);
}

#[test]
fn an_incomplete_checkpoint_is_never_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = write(directory.path(), 5);
    std::fs::rename(&path, directory.path().join(".incomplete-step-000000000005")).unwrap();
    let error = Checkpoint::open(directory.path()).unwrap_err().to_string();
    assert!(error.contains("holds no checkpoint"), "{error}");
    let error = prepare(&*disk(directory.path()), Placement::Resume).unwrap_err().to_string();
    assert!(error.contains("no checkpoint to resume from") && error.contains("=auto"), "{error}");
    // The incomplete checkpoint had the mark of this program, and was removed.
    assert_eq!(names(directory.path()), [".stepwell-id"]);
    assert_eq!(prepare(&*disk(directory.path()), Placement::ResumeOrStart).unwrap(), None);
}

#[test]
fn every_flipped_byte_is_found() {
    let directory = tempfile::tempdir().unwrap();
    let path = write(directory.path(), 5);
    for name in [META_FILE, DENSE_FILE] {
        let intact = std::fs::read(path.join(name)).unwrap();
        for at in 0..intact.len() {
            let mut flipped = intact.clone();
            flipped[at] ^= 1;
            std::fs::write(path.join(name), &flipped).unwrap();
            let error = Checkpoint::open(&path).unwrap_err().to_string();
            assert!(error.contains(name) || error.contains("version"), "{error}");
        }
        std::fs::write(path.join(name), &intact).unwrap();
    }
    assert!(Checkpoint::open(&path).is_ok());
}

#[test]
fn another_version_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = write(directory.path(), 5).join(META_FILE);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("\"version\": 2", "\"version\": 4")).unwrap();
    let error = Checkpoint::open(directory.path()).unwrap_err().to_string();
    assert!(error.contains("version 4") && error.contains("reads versions 1 to 3"), "{error}");
}

#[test]
fn a_checkpoint_that_is_read_stays_until_it_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = CheckpointWriter::new(disk(directory.path()), 1);
    let mut write = |step| {
        writer.write(step, &json!({}), &dense().view(), &[]).unwrap();
        list(&*disk(directory.path()))
            .unwrap()
            .into_iter()
            .map(|(step, _)| step)
            .collect::<Vec<_>>()
    };
    assert_eq!(write(1), [1]);
    let read = Checkpoint::open(directory.path()).unwrap();
    let again = read.clone();
    assert_eq!((write(2), write(3)), (vec![1, 2], vec![1, 3]));
    drop(read);
    assert_eq!(write(4), [1, 4]);
    drop(again);
    assert_eq!(write(5), [5]);
}

#[test]
fn what_an_earlier_build_wrote_opens() {
    let directory = tempfile::tempdir().unwrap();
    let path = write(directory.path(), 5);
    let meta = std::fs::read_to_string(path.join(META_FILE)).unwrap();
    let meta = meta.replace("\"version\": 2", "\"version\": 1");
    std::fs::write(path.join(META_FILE), &meta).unwrap();
    let dense = std::fs::read(path.join(DENSE_FILE)).unwrap();
    let (meta, dense_sum) = (hash::checksum(meta.as_bytes()), hash::checksum(&dense));
    let sums = format!("{meta:016x}  {META_FILE}\n{dense_sum:016x}  {DENSE_FILE}\n");
    std::fs::write(path.join(SUMS_FILE), sums).unwrap();
    let checkpoint = Checkpoint::open(directory.path()).unwrap();
    assert_eq!((checkpoint.step, checkpoint.meta["version"].as_u64()), (5, Some(1)));
}

#[test]
fn what_a_user_put_there_is_neither_read_nor_removed() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    write(directory.path(), 1);
    let users = [
        ".incomplete-old",
        ".incomplete-step-000000000009",
        "step-9",
        "step-000000000008-backup",
        "step-000000000007",
    ];
    for name in users {
        std::fs::create_dir(at(name)).unwrap();
        std::fs::write(at(name).join("notes"), name).unwrap();
    }
    // A whole checkpoint of the user's, copied.
    std::fs::create_dir(at("step-000000000003")).unwrap();
    for file in std::fs::read_dir(at("step-000000000001")).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), at("step-000000000003").join(file.file_name())).unwrap();
    }
    let steps: Vec<u64> =
        list(&*disk(directory.path())).unwrap().into_iter().map(|(s, _)| s).collect();
    assert_eq!(steps, [1], "what is called step 3 is step 1");
    let newest = prepare(&*disk(directory.path()), Placement::Resume).unwrap();
    assert_eq!(newest, Some(at("step-000000000001")));
    let mut writer = CheckpointWriter::resume(disk(directory.path()), 1).unwrap();
    let mut write = |step| {
        let path = writer.write(step, &json!({}), &dense().view(), &[]);
        path.map(drop).map_err(|error| error.to_string())
    };
    assert_eq!((write(4), write(5)), (Ok(()), Ok(())));
    // Entries in the place of a checkpoint that aren't this run's are set aside.
    assert_eq!((write(7), write(3), write(9)), (Ok(()), Ok(()), Ok(())));
    let places = [
        ("set-aside-1", "step-000000000007"),
        ("set-aside-2", "step-000000000003"),
        ("set-aside-3", ".incomplete-step-000000000009"),
    ];
    for name in users {
        let aside = places.iter().find(|(_, moved)| *moved == name).map_or("", |(aside, _)| aside);
        assert_eq!(std::fs::read_to_string(at(aside).join(name).join("notes")).unwrap(), name);
    }
    let steps: Vec<u64> =
        list(&*disk(directory.path())).unwrap().into_iter().map(|(s, _)| s).collect();
    assert_eq!(steps, [9]);
    assert!(at("set-aside-2/step-000000000003").join(META_FILE).exists());
}

/// A kill before the new checkpoint is complete leaves the old one, from which a run can begin.
#[test]
fn another_run_s_checkpoint_stays_until_the_one_in_its_place_is_complete() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), 5);
    let other = json!({ "job": "another" });
    let writer = || CheckpointWriter::resume(disk(directory.path()), 2).unwrap();
    assert_eq!(writer().begin(5, &other).unwrap(), None);
    let kept = Checkpoint::open(directory.path()).unwrap();
    assert_eq!((kept.step, &kept.run["job"]), (5, &json!(null)));
    drop(kept);
    writer().write(5, &other, &dense().view(), &[]).unwrap();
    assert_eq!(Checkpoint::open(directory.path()).unwrap().run["job"], "another");
    assert!(directory.path().join("set-aside-1/step-000000000005").is_dir());
}

#[test]
fn a_directory_that_a_kill_left_half_marked_is_removed() {
    let directory = tempfile::tempdir().unwrap();
    let left = directory.path().join(".incomplete-step-000000000009");
    for (mark, stays) in [("", false), ("made by stepwell: dev", false), ("my own", true)] {
        std::fs::create_dir_all(&left).unwrap();
        std::fs::write(left.join(".stepwell"), mark).unwrap();
        prepare(&*disk(directory.path()), Placement::ResumeOrStart).unwrap();
        assert_eq!(left.exists(), stays, "{mark}");
    }
}

/// Names of all entries of a directory.
fn names(directory: &Path) -> Vec<String> {
    disk(directory).entries().unwrap().into_iter().map(|(name, _)| name).collect()
}

#[test]
fn a_checkpoint_that_cannot_be_written_leaves_nothing() {
    let faulty = Arc::new(FaultyDisk::new(Arc::new(MemDisk::new()), Faults::default()));
    let spec = TableSpec::new(0, "t", 2, RowOptimizer::new(Rule::sgd(0.1)).unwrap());
    let options = StoreOptions::new(0, spec.row_bytes());
    let store = Store::create(Arc::clone(&faulty) as Arc<dyn Disk>, options).unwrap();
    let staging = Staging::new(spec.row_lanes(), 1, 1);
    let group = Arc::new(Group::new(spec, 4, Arc::new(store), staging).unwrap());
    group.store.put_many(&[Key(1)], &[1], &[0; 8]).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let mut writer = CheckpointWriter::new(disk(directory.path()), 2);
    let failure = Failure {
        operation: None,
        after: 0,
        kind: ErrorKind::StorageFull,
        lasting: Lasting::FromThenOn,
    };
    faulty.inflict(Faults { failure: Some(failure), ..Faults::default() });
    writer.write(1, &json!({}), &dense().view(), &[group]).unwrap_err();
    assert_eq!(names(directory.path()), [".stepwell-id"]);
}
