//! How an oracle comes to be: two runs with everything in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use rayon::ThreadPool;
use stepwell_base::rules::Rules;
use stepwell_disk::{Faults, MemDisk};
use stepwell_engine::Witness;
use stepwell_settings::Config;
use stepwell_train::Report;

use crate::finding::{Finding, compare};
use crate::job::Job;
use crate::life::{Birth, Disks, Life};
use crate::oracle::{Checker, Oracle, Reads, Recorder};
use crate::shape::Shape;

/// What is right for `job`: a run in memory, and a second one, which writes a checkpoint where the
/// job says and must not differ.
///
/// # Errors
/// What went wrong with one of them.
pub(crate) fn record(job: &Job, each: bool, pool: &Arc<ThreadPool>) -> Result<Oracle, Finding> {
    let recorder = Arc::new(Recorder::new(each));
    let [first, mut second] = [false, true].map(|keeps| Shape::roomy(&job.config, keeps));
    second.config.checkpoint.initial = true;
    let life = live(&first, Arc::clone(&recorder) as Arc<_>, pool);
    if let Some(trouble) = life.log.trouble {
        return Err(trouble.into());
    }
    let report = life.result.map_err(Finding::Failed)?;
    let (reads, rows_of_job) = recorder.take();
    check(&report, &reads, &job.config)?;
    let rows_of_mini_batch = reads.iter().map(|reads| reads.rows as usize).max().unwrap_or(0);
    let (digests, reads) = (BTreeMap::new(), Arc::from(reads));
    let mut oracle =
        Oracle { reads, digests, report, rows_of_mini_batch, rows_of_job, row_lanes: 0 };
    let checker = Arc::new(Checker::new(Arc::clone(&oracle.reads), 0));
    let life = live(&second, Arc::clone(&checker) as Arc<_>, pool);
    let report = life.result.map_err(Finding::Failed)?;
    compare(&report, &oracle, false)?;
    if let Some(difference) = checker.finish() {
        return Err(Finding::WrongRow(difference));
    }
    let kept = life.vault.kept();
    if let Some(why) = kept.unreadable.first() {
        return Err(Finding::LostCheckpoint(why.clone()));
    }
    oracle.digests.extend(kept.digests.iter().cloned());
    oracle.row_lanes = kept.row_lanes;
    Ok(oracle)
}

fn live(shape: &Shape, witness: Arc<dyn Witness>, pool: &Arc<ThreadPool>) -> Life {
    let disks = Disks::new(MemDisk::new(), Faults::default());
    let (rules, turns_max) = (Rules::default(), Some(u64::MAX));
    let (seed, name, from) = (0, "oracle", None);
    let stop_after = None;
    Birth { shape, seed, disks: &disks, name, from, rules, witness, stop_after, turns_max, pool }
        .live()
}

/// Checks what an oracle can say of itself.
fn check(report: &Report, reads: &[Reads], config: &Config) -> Result<(), Finding> {
    let (host, disk) = (&report.tiers.host, &report.tiers.disk);
    if host.evictions > 0 || disk.rows_written > 0 {
        return Err(Finding::Failed("the oracle's rows did not fit memory".to_owned()));
    }
    // A policy hears of each distinct key of a trained mini-batch once, unless it was refused.
    let trained = reads.iter().filter(|reads| reads.when.evaluated == 0);
    let (trained, uses) = (trained.map(|reads| u64::from(reads.rows)).sum::<u64>(), host.uses);
    let admits_all = config.life.admit_after == 1 && config.life.admit_probability >= 1.0;
    if uses > trained || (admits_all && uses < trained) {
        let why = format!("the policy was told of {uses} uses of {trained} trained rows");
        return Err(Finding::WrongFigures(why));
    }
    Ok(())
}
