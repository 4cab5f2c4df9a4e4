//! Checkpoints that are being read stay, in whichever process they are read.

#![expect(clippy::unwrap_used, reason = "a test panics on unexpected results")]

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use serde_json::json;
use stepwell_base::Key;
use stepwell_disk::{Disk, FileDisk};
use stepwell_engine::{
    Checkpoint, CheckpointWriter, Dense, Group, Keep, Lease, RowsView, Staging, TableSpec, list,
};
use stepwell_optim::{RowOptimizer, Rule};
use stepwell_ssd::{Store, StoreOptions};

/// Environment variable with the path that a child process reads.
const CHILD: &str = "STEPWELL_LEASES";

/// A run that keeps only its newest checkpoint.
struct Run {
    home: tempfile::TempDir,
    writer: CheckpointWriter,
    group: Arc<Group>,
}

fn disk(path: &Path) -> Arc<dyn Disk> {
    Arc::new(FileDisk::create(path).unwrap())
}

impl Run {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let spec = TableSpec::new(0, "rows", 1, RowOptimizer::new(Rule::sgd(0.1)).unwrap());
        let options = StoreOptions::new(0, spec.row_bytes());
        let store = Store::create(disk(&home.path().join("store")), options).unwrap();
        let staging = Staging::new(spec.row_lanes(), 1, 1);
        let group = Arc::new(Group::new(spec, 4, Arc::new(store), staging).unwrap());
        let writer = CheckpointWriter::new(disk(&home.path().join("saved")), 1);
        Self { home, writer, group }
    }

    /// Puts a row and saves; returns the steps of the existing checkpoints.
    fn save(&mut self, step: u64) -> Vec<u64> {
        let row = vec![step as u8; self.group.spec().row_bytes()];
        self.group.store.put_many(&[Key(step)], &[step as u32], &row).unwrap();
        let dense = Dense::default();
        let groups = [Arc::clone(&self.group)];
        self.writer.write(step, &json!({}), &dense.view(), &groups).unwrap();
        let listed = list(&*disk(&self.home.path().join("saved"))).unwrap();
        listed.into_iter().map(|(step, _)| step).collect()
    }

    fn newest(&self) -> Checkpoint {
        Checkpoint::open(&self.home.path().join("saved")).unwrap()
    }
}

#[test]
fn a_view_keeps_the_checkpoint_that_it_looks_at() {
    let mut run = Run::new();
    assert_eq!(run.save(1), [1]);
    let options = run.group.store.options().clone();
    let view = RowsView::open(&run.newest(), 0, options).unwrap();
    assert_eq!(run.save(2), [1, 2]);
    assert_eq!((view.len(), view.refresh(&run.newest()).unwrap().anew), (1, false));
    assert_eq!(view.len(), 2);
    // Earlier look-ups may still be in progress.
    assert_eq!(run.save(3), [1, 2, 3]);
    view.refresh(&run.newest()).unwrap();
    assert_eq!(run.save(4), [2, 3, 4]);
    let bytes = run.group.spec().row_bytes();
    let (mut rows, mut found) = (vec![0; 4 * bytes], [false; 4]);
    view.get_many(&[1, 2, 3, 4].map(Key), &mut rows, &mut found).unwrap();
    assert_eq!((found, rows[2 * bytes]), ([true, true, true, false], 3));
    drop(view);
    assert_eq!(run.save(5), [5]);
}

#[test]
fn a_lease_over_rows_alone_keeps_their_checkpoint() {
    let mut run = Run::new();
    run.save(1);
    let rows = run.newest().rows[0].path.clone();
    let lease = Lease::over(&rows).unwrap();
    assert_eq!(run.save(2), [1, 2]);
    drop(lease);
    let lease = Lease::over(&run.newest().path).unwrap();
    assert_eq!(run.save(3), [2, 3]);
    drop(lease);
    assert_eq!(run.save(4), [4]);
    Lease::over(&run.home.path().join("store")).unwrap();
    Lease::over(&run.home.path().join("nowhere")).unwrap();
}

#[test]
fn nobody_begins_to_read_what_is_being_removed() {
    let mut run = Run::new();
    run.save(1);
    let checkpoint = run.newest();
    let (path, rows) = (checkpoint.path.clone(), checkpoint.rows[0].path.clone());
    drop(checkpoint);
    // Removing a checkpoint takes the exclusive lock of its mark.
    let removing = disk(&path).lock(".stepwell").unwrap().unwrap();
    for error in [Checkpoint::open(&path).unwrap_err(), Lease::over(&rows).unwrap_err()] {
        assert!(error.to_string().contains("is being removed"), "{error}");
    }
    drop(removing);
    assert_eq!(run.newest().step, 1);
}

/// The child process's part; does nothing in other test runs.
#[test]
fn child() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    let _checkpoint = Checkpoint::open(Path::new(&path)).unwrap();
    println!("reading");
    // Until the parent closes standard input or kills it.
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn another_process_keeps_what_it_reads_until_it_ends_however() {
    for killed in [false, true] {
        let mut run = Run::new();
        run.save(1);
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "leases::child", "--nocapture"])
            .env(CHILD, run.home.path().join("saved"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(said.any(|line| line.unwrap().contains("reading")));
        assert_eq!(run.save(2), [1, 2]);
        if killed {
            child.kill().unwrap();
        }
        drop(child.stdin.take());
        assert_eq!(child.wait().unwrap().success(), !killed);
        assert_eq!(run.save(3), [3]);
    }
}
