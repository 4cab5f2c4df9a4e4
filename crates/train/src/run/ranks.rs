//! Several ranks that train one model, as threads of this process or as separate processes.
//!
//! Each is a run with its own tiers and threads that shares its mini-batches with the others: the
//! model has the bits of one rank. Rank 0 is observed, and its report is the run's. A rank that
//! fails sends the others its reason, and all end.

use std::path::PathBuf;
use std::sync::Arc;

use stepwell_base::NO_THREAD;
use stepwell_base::stop::StopRequest;
use stepwell_engine::{Scratch, name_of_rank};
use stepwell_fabric::collective::{Barrier, Gather};
use stepwell_fabric::{Error as FabricError, Fabric, Malformed, threads};
use stepwell_settings::{Config, RanksConfig};
use tracing::{error, info};

use super::one_rank::run;
use super::surroundings::{RowsAtStart, Surroundings};
use crate::machine::Machine;
use crate::pipeline::Silence;
use crate::ranks::Ranks;
use crate::report::{RankReport, Report};
use crate::warm_start::WarmStart;
use crate::{Error, Result, talk};

/// Key of the setting for the number of ranks.
pub(super) const COUNT: &str = "ranks.count";

/// Trains with as many ranks as `config` sets.
pub(super) fn train(config: &Config, around: &Surroundings) -> Result<Report> {
    check(config, around)?;
    // Before any rank's rows are moved.
    for rank in 0..config.ranks.count {
        let place = config_of(config, rank).tiers.ssd;
        place.as_deref().map_or(Ok(()), Scratch::check)?;
    }
    let fabrics = joined(config.ranks.count, &around.machine)?;
    info!(ranks = config.ranks.count, "ranks connected as threads");
    let ends = fabrics.clone();
    let outcomes: Vec<Result<Report>> = std::thread::scope(|scope| {
        let ranks: Vec<_> = fabrics
            .into_iter()
            .enumerate()
            .map(|(rank, fabric)| {
                let config = config_of(config, rank);
                let ranks =
                    Ranks { fabric: fabric.clone(), stop: around.stop.clone(), processes: None };
                let around = surroundings_of(around, ranks);
                let thread = std::thread::Builder::new().name(format!("rank {rank}"));
                thread.spawn_scoped(scope, move || run_rank(&config, &around, &fabric))
            })
            .collect();
        // Each rank now holds the warm start's checkpoint itself.
        around.from.iter().for_each(WarmStart::release);
        for (end, thread) in ends.iter().zip(&ranks) {
            // Reports a rank that could not be started to those that were.
            thread.as_ref().map_or_else(|error| end.fail(&error.to_string()), |_| ());
        }
        let join = |thread: std::io::Result<std::thread::ScopedJoinHandle<'_, Result<Report>>>| {
            let thread = thread.map_err(|error| {
                Error::Config(format!("cannot start a rank: {error}{NO_THREAD} or ranks"))
            })?;
            thread.join().unwrap_or(Err(Error::Panicked("rank")))
        };
        ranks.into_iter().map(join).collect()
    });
    merge(outcomes)
}

/// The ends of ranks that are threads, joined by `machine`'s network.
fn joined(ranks: usize, machine: &Machine) -> Result<Vec<Fabric>> {
    let ends = threads(ranks).into_iter();
    let Some(network) = machine.network else { return Ok(ends.collect()) };
    let slow = ends.map(|end| network.slow_down(end, &machine.clock));
    let slow = slow.collect::<std::io::Result<_>>();
    slow.map_err(|error| Error::Config(format!("cannot start a network: {error}; lower ranks")))
}

/// Runs this process's rank. Rank 0 returns the report of all; the others return their own.
pub(super) fn run_process(config: &Config, around: &Surroundings, ranks: &Ranks) -> Result<Report> {
    let fabric = &ranks.fabric;
    let count = fabric.size();
    let config = Config { ranks: RanksConfig { count, ..config.ranks }, ..config.clone() };
    check(&config, around).inspect_err(|error| fabric.fail(&error.to_string()))?;
    let config = config_of(&config, fabric.rank());
    let report = run_rank_with(&config, around, fabric, |report| gather(report, fabric))?;
    Ok(report)
}

/// Collects the reports of all ranks at rank 0.
fn gather(report: Report, fabric: &Fabric) -> Result<Report> {
    let mut message = fabric.message();
    message.put(serde_json::json!(RankReport::of(&report)).to_string().as_bytes());
    let all = fabric.wait(Gather::start(fabric, talk::REPORT, 0, message)?)?;
    let mut by_rank = Vec::new();
    for (rank, message) in all.iter().enumerate() {
        let wrong = |why| stepwell_fabric::Error::malformed(rank, why);
        let text: &[u8] = message.reader().take().map_err(wrong)?;
        let of_rank = serde_json::from_slice(text);
        by_rank.push(of_rank.map_err(|_| wrong(Malformed::Wrong("it is not a report")))?);
    }
    if by_rank.is_empty() {
        return Ok(report);
    }
    // Each process has its own memory.
    let peak_rss_bytes = by_rank.iter().map(|rank: &RankReport| rank.peak_rss_bytes).sum();
    Ok(Report { peak_rss_bytes, ..with_ranks(report, by_rank) })
}

/// Adds the figures of all ranks to rank 0's report.
fn with_ranks(report: Report, by_rank: Vec<RankReport>) -> Report {
    let budget_bytes = by_rank.iter().map(|rank| rank.budget_bytes).sum();
    let mut report = Report { budget_bytes, ..report };
    // Stores that any rank set aside may need inspection.
    let aside = by_rank.iter().flat_map(|rank| &rank.tiers.disk.set_aside);
    report.tiers.disk.set_aside = aside.cloned().collect();
    report.cut_lists.clear();
    let cut = by_rank.iter().flat_map(|rank| rank.cut_lists.clone());
    cut.for_each(|column| column.add_to(&mut report.cut_lists));
    Report { by_rank, ..report }
}

/// Runs one rank, and sends the others how it ended.
pub(super) fn run_rank(config: &Config, around: &Surroundings, fabric: &Fabric) -> Result<Report> {
    run_rank_with(config, around, fabric, Ok)
}

/// Runs one rank, applies `finish` to its report while the others are connected, and sends them how
/// it ended.
fn run_rank_with(
    config: &Config,
    around: &Surroundings,
    fabric: &Fabric,
    finish: impl FnOnce(Report) -> Result<Report>,
) -> Result<Report> {
    let tells = Tells(fabric);
    let report = run(config, around).and_then(finish);
    let report = report.inspect_err(|error| {
        error!(rank = fabric.rank(), %error, "rank failed");
        tell(fabric, error);
    })?;
    // No rank ends while others still poll for its messages.
    fabric.wait(Barrier::start(talk::END))?;
    fabric.end();
    drop(tells);
    Ok(report)
}

/// Sends the other ranks this one's failure, unless they know it already.
fn tell(fabric: &Fabric, error: &Error) {
    match error {
        // All ranks have it from the rank that failed.
        Error::Fabric(FabricError::Failed { .. }) => {}
        // All ranks find the same at the same place, and each reports it itself.
        Error::DataOfRanks(_) if fabric.wait(Barrier::start(talk::END)).is_ok() => fabric.end(),
        other => fabric.fail(&other.to_string()),
    }
}

/// Reports a panic to the other ranks, which would wait forever.
struct Tells<'a>(&'a Fabric);

impl Drop for Tells<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail(&Error::Panicked("rank").to_string());
        }
    }
}

/// Refuses settings that several ranks cannot run with.
fn check(config: &Config, around: &Surroundings) -> Result<()> {
    let checked = config.check().and_then(|()| config.check_ranks(COUNT));
    checked.and_then(|()| check_rows(around)).map_err(Error::Config)
}

/// Refuses rows to start with, which only a single rank supports.
fn check_rows(around: &Surroundings) -> std::result::Result<(), String> {
    match around.rows.from.is_empty() {
        true => Ok(()),
        false => Err("initial rows can be given only to a single rank".to_owned()),
    }
}

/// The settings of rank `rank`: its rows have their own directory.
fn config_of(config: &Config, rank: usize) -> Config {
    let mut config = config.clone();
    let of_rank = |place: PathBuf| place.join(name_of_rank(rank));
    config.tiers.ssd = config.tiers.ssd.take().map(of_rank);
    config
}

/// The surroundings of a rank: only the first is observed.
fn surroundings_of(around: &Surroundings, ranks: Ranks) -> Surroundings {
    let (machine, first) = (&around.machine, ranks.fabric.rank() == 0);
    Surroundings {
        observer: if first { Arc::clone(&around.observer) } else { Arc::new(Silence) },
        machine: Machine {
            clock: Arc::clone(&machine.clock),
            pace: Arc::clone(&machine.pace),
            driver: Arc::clone(&machine.driver),
            ranks: Some(ranks),
            network: None,
            late: machine.late,
            pool: None,
            places: Arc::clone(&machine.places),
            devices: Arc::clone(&machine.devices),
            compaction: machine.compaction,
            index_seed: machine.index_seed,
            witness: machine.witness.clone(),
            rules: machine.rules,
            sizes: machine.sizes.clone(),
        },
        // All ranks end after the same step, which they agree on.
        stop: StopRequest::new(),
        placement: around.placement,
        from: around.from.clone(),
        rows: RowsAtStart::default(),
        repaired_rows: around.repaired_rows,
        digest: around.digest,
        settings: around.settings.clone(),
        on_plan: if first { Arc::clone(&around.on_plan) } else { Arc::new(|_| {}) },
        on_note: if first { Arc::clone(&around.on_note) } else { Arc::new(|_| {}) },
        on_warning: if first { Arc::clone(&around.on_warning) } else { Arc::new(|_| {}) },
    }
}

/// The report of rank 0 with the figures of all, or their error: a rank's own error takes
/// precedence over those that it was sent.
fn merge(outcomes: Vec<Result<Report>>) -> Result<Report> {
    let (mut reports, mut failed, mut told) = (Vec::new(), None, None);
    for outcome in outcomes {
        match outcome {
            Ok(report) => reports.push(report),
            Err(error @ Error::Fabric(_)) => told = told.or(Some(error)),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    failed.or(told).map_or(Ok(()), Err)?;
    let by_rank: Vec<RankReport> = reports.iter().map(RankReport::of).collect();
    let first = reports.into_iter().next().ok_or(Error::Panicked("rank"))?;
    Ok(with_ranks(first, by_rank))
}
