//! Records an oracle: two runs with everything in memory, and a third if a table doesn't have
//! enough of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use rayon::ThreadPool;
use stepwell_disk::{Faults, MemDisk};
use stepwell_engine::Witness;
use stepwell_train::Report;

use crate::finding::Finding;
use crate::job::Job;
use crate::oracle::{Checker, Detail, Oracle, Reads, Recorder};
use crate::process::{Disks, Exit, Launch};
use crate::shape::Shape;
use crate::tiers::{Room, Tables};

/// Records the oracle of `job` from a run in memory, and from a second run, which writes the job's
/// checkpoints and must not differ.
///
/// # Errors
/// The finding in one of the runs.
pub(crate) fn record(job: &Job, detail: Detail, pool: &Arc<ThreadPool>) -> Result<Oracle, Finding> {
    let tables = Arc::new(Tables::of(job)?);
    let recorder = Arc::new(Recorder::new(Arc::clone(&tables), detail));
    let first = Shape::roomy(&job.config);
    let mut second = Shape { checkpoints: true, ..first.clone() };
    second.config.checkpoint.initial = true;
    let exit = run(&first, Arc::clone(&recorder) as Arc<_>, pool);
    if let Some(trouble) = exit.log.trouble {
        return Err(trouble.into());
    }
    let report = exit.result.map_err(Finding::Failed)?;
    let (reads, counts) = recorder.take();
    if counts.strays > 0 {
        return Err(Finding::WrongRow(format!("{} reads belong to no table", counts.strays)));
    }
    let (admits_all, block_bytes) = (tables.admit_all(), job.block_bytes);
    check(&report, &reads, admits_all)?;
    let rooms = tables.rooms(job, &counts.most, &counts.keys);
    let (digests, reads, full) = (BTreeMap::new(), Arc::from(reads), None);
    let mut oracle = Oracle { reads, digests, report, rooms, block_bytes, admits_all, full };
    let checker = Arc::new(Checker::new(Arc::clone(&oracle.reads), 0));
    let exit = run(&second, Arc::clone(&checker) as Arc<_>, pool);
    let report = exit.result.map_err(Finding::Failed)?;
    oracle.compare(&report, None)?;
    if let Some(difference) = checker.finish() {
        return Err(Finding::WrongRow(difference));
    }
    let kept = exit.vault.kept();
    if let Some(why) = kept.unreadable.first() {
        return Err(Finding::LostCheckpoint(why.clone()));
    }
    oracle.digests.extend(kept.digests.iter().cloned());
    drop(kept);
    if let Some(tight) = &job.tight {
        oracle.full = ends_full(&first, &oracle, &tight.table, pool)?;
    }
    Ok(oracle)
}

/// The table that doesn't fit if tables that stay in memory get the space that the job gives them:
/// `tight`, or `None` if few enough of its rows exist.
fn ends_full(
    roomy: &Shape,
    oracle: &Oracle,
    tight: &str,
    pool: &Arc<ThreadPool>,
) -> Result<Option<String>, Finding> {
    let mut shape = roomy.clone();
    let slots = |room: &Room| room.whole.unwrap_or(room.rows_of_job);
    shape.give(oracle.rooms.iter().map(slots).collect(), oracle);
    let checker = Arc::new(Checker::new(Arc::clone(&oracle.reads), 0));
    let exit = run(&shape, Arc::clone(&checker) as Arc<_>, pool);
    match (exit.result, exit.full) {
        (Ok(report), _) => oracle.compare(&report, None).map(|()| None),
        (Err(_), Some(table)) if table == tight => match checker.difference() {
            Some(difference) => Err(Finding::WrongRow(difference)),
            None => Ok(Some(table)),
        },
        (Err(why), _) => Err(Finding::Failed(why)),
    }
}

fn run(shape: &Shape, witness: Arc<dyn Witness>, pool: &Arc<ThreadPool>) -> Exit {
    let disks = Disks::new(MemDisk::new(), Faults::default());
    let launch = Launch::new(shape, &disks, witness, pool);
    Launch { name: "oracle", turns_max: Some(u64::MAX), ..launch }.run()
}

/// Checks the consistency of an oracle.
fn check(report: &Report, reads: &[Reads], admits_all: bool) -> Result<(), Finding> {
    let (host, disk) = (&report.tiers.host, &report.tiers.disk);
    if host.evictions > 0 || disk.rows_written > 0 {
        return Err(Finding::Failed("the oracle's rows did not fit in memory".to_owned()));
    }
    // A policy counts each distinct key of a trained mini-batch once, unless it isn't admitted.
    let trained = reads.iter().filter(|reads| reads.when.evaluated == 0);
    let (trained, uses) = (trained.map(|reads| u64::from(reads.rows)).sum::<u64>(), host.uses);
    if uses > trained || (admits_all && uses < trained) {
        let why = format!("{uses} uses of {trained} trained rows were reported to the policy");
        return Err(Finding::WrongFigures(why));
    }
    Ok(())
}
