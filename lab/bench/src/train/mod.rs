//! `stepwell-lab bench train`: training out of core, compared with memory and the raw disk.
//!
//! All rows are in the store before a run starts, as left by long training or as loaded
//! ([`StoreAge`]). For each model, a run with every row in memory is followed by runs with slots
//! for a part of the rows. The limit of such a run is the smaller of two rates: that of the run in
//! memory, and the rate at which the raw disk could perform the reads of the run. The raw disk is
//! measured before and after each run, on the store's own files.
//!
//! - **Plain.** Each run out of core is paired with a plain run, without harvesting rows from pages
//!   read for others. Their order alternates from run to run, so that a disk that becomes faster or
//!   slower favors neither.

mod aged;
mod check;
mod figures;
mod ideal;
mod options;
mod parts;
mod raw;
mod store;
mod stream;
mod watch;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use stepwell_base::ByteCount;
use stepwell_base::stop::StopRequest;
use stepwell_disk::FileDisk;
use stepwell_engine::Placement;
use stepwell_settings::{Config, TierConfig};
use stepwell_train::{RowsAtStart, Surroundings, slab_bytes};

use self::figures::Counted;
pub use self::figures::{Figures, Run, StageCost};
pub use self::options::Options;
use self::options::config;
use self::raw::Raw;
pub use self::store::{Made, StoreAge};
pub(crate) use self::stream::Ids;
use self::watch::MeasuredSpan;
use crate::directory::{Home, make, remove};
use crate::machine::Machine;
use crate::{Error, Result};

/// Runs the benchmark; calls `say` with a description of each part, and `keep` with the results so
/// far after it.
///
/// # Errors
/// Invalid arguments, or a run that fails.
pub fn run(
    options: &Options,
    say: &mut dyn FnMut(&str),
    keep: &mut dyn FnMut(&Figures),
) -> Result<Figures> {
    check::check(options)?;
    let ids = Ids::new(options.rows, options.equal, options.skew);
    let mut figures =
        Figures { options: Some(options.clone()), rows: ids.count(), ..Figures::default() };
    let home = Home::take(&options.directory.join("stepwell-bench-train"))?;
    let disk = FileDisk::open(home.path())?;
    figures.machine = Some(Machine::here(disk.engine()));
    let data = home.path().join("examples");
    say(&format!("writing {} examples", options.warmup + options.examples));
    ids.write(options.warmup + options.examples, &data)?;
    let made = Vec::new();
    let mut bench = Bench { options, ids: &ids, place: home.path(), made, plain_first: true };
    for kind in &options.models {
        bench.measure(config(options, *kind, &data)?, say, &mut figures, keep)?;
    }
    Ok(figures)
}

/// State that the runs of a benchmark share.
struct Bench<'a> {
    options: &'a Options,
    ids: &'a Ids,
    place: &'a Path,
    /// Existing stores, with the bytes of their rows.
    made: Vec<Made>,
    plain_first: bool,
}

impl Bench<'_> {
    /// Measures a model.
    fn measure(
        &mut self,
        mut config: Config,
        say: &mut dyn FnMut(&str),
        figures: &mut Figures,
        keep: &mut dyn FnMut(&Figures),
    ) -> Result<()> {
        self.make_stores(&config, say, figures)?;
        keep(figures);
        let in_memory = if self.options.only_out_of_core {
            None
        } else {
            say(&format!("{}: every row in memory", config.model.kind.name()));
            config.tiers.dram = Some(dram_for(&config, self.ids.count())?);
            let rows = self.rows_of(self.options.stores[0]);
            Some(train(self.options, &config, self.place, &rows, true)?)
        };
        for store in &self.options.stores {
            for share in &self.options.shares {
                let mut run = self.out_of_core(&mut config, *store, *share, say)?;
                run.over_memory(in_memory.as_ref());
                figures.runs.push(run);
                keep(figures);
            }
        }
        Ok(())
    }

    fn rows_of(&self, store: StoreAge) -> PathBuf {
        self.place.join(format!("rows-{store}"))
    }

    /// Makes new stores if the bytes of a row differ from those of the existing ones.
    fn make_stores(
        &mut self,
        config: &Config,
        say: &mut dyn FnMut(&str),
        figures: &mut Figures,
    ) -> Result<()> {
        let row_bytes = store::table(config)?.row_bytes();
        if self.made.first().is_some_and(|made| made.row_bytes == row_bytes) {
            return Ok(());
        }
        self.made.clear();
        for age in &self.options.stores {
            remove(&self.rows_of(*age))?;
        }
        for age in &self.options.stores {
            let rows = self.ids.count();
            say(&format!("putting {rows} rows of {row_bytes} bytes into a store: {age}"));
            let directory = self.rows_of(*age);
            make(&directory)?;
            self.made.push(store::make(*age, self.ids, config, &directory)?);
        }
        figures.stores.extend_from_slice(&self.made);
        Ok(())
    }

    fn out_of_core(
        &mut self,
        config: &mut Config,
        store: StoreAge,
        share: f64,
        say: &mut dyn FnMut(&str),
    ) -> Result<Run> {
        let slots = (self.ids.count() as f64 * share / 100.0).round() as u64;
        config.tiers.dram = Some(dram_for(config, slots)?);
        let (rows, name) = (self.rows_of(store), config.model.kind.name());
        let made = self.made.iter().find(|made| made.store == Some(store));
        let page_bytes = made.map_or(0, |made| made.page_bytes);
        let mini_batch = config.data.mini_batch as u64;
        let mut run = Run {
            ideal_cold_rows_per_example: ideal::cold_rows_per_example(self.ids, slots, mini_batch),
            ..Run::new(name, store, share, slots)
        };
        let before = Raw::measure(&rows, slots)?;
        let (counted, plain) =
            self.turns(config, &rows, &format!("{name}, {store}, {slots} slots"), say)?;
        let raw = before.mean(Raw::measure(&rows, slots + 1)?);
        run.fill(&counted, &raw, page_bytes);
        if let Some(plain) = plain {
            run.over_plain(&plain, &raw, page_bytes);
        }
        Ok(run)
    }

    /// Runs a configuration and its plain counterpart.
    fn turns(
        &mut self,
        config: &Config,
        rows: &Path,
        name: &str,
        say: &mut dyn FnMut(&str),
    ) -> Result<(Counted, Option<Counted>)> {
        let turn = |config: &Config, kind: &str, say: &mut dyn FnMut(&str)| {
            say(&format!("{name}{kind}"));
            train(self.options, config, self.place, rows, false)
        };
        let plain = plain(config).filter(|_| !self.options.no_plain);
        let plain_turn = |say: &mut dyn FnMut(&str)| {
            plain.as_ref().map(|plain| turn(plain, ", plain", say)).transpose()
        };
        let turns = if self.plain_first {
            let plain = plain_turn(say)?;
            (turn(config, "", say)?, plain)
        } else {
            (turn(config, "", say)?, plain_turn(say)?)
        };
        self.plain_first = !self.plain_first;
        Ok(turns)
    }
}

/// The configuration without harvesting; `None` if it already has none.
fn plain(config: &Config) -> Option<Config> {
    let mut plain = config.clone();
    plain.tiers.harvest = Some(ByteCount(0));
    (plain != *config).then_some(plain)
}

/// Bytes of memory for exactly `slots` slots.
fn dram_for(config: &Config, slots: u64) -> Result<ByteCount> {
    Ok(ByteCount(slab_bytes(config, &store::table(config)?, slots)))
}

fn train(
    options: &Options,
    config: &Config,
    place: &Path,
    rows: &Path,
    in_memory: bool,
) -> Result<Counted> {
    let scratch = place.join("run");
    let config = Config {
        tiers: TierConfig { ssd: Some(scratch.clone()), ..config.tiers.clone() },
        ..config.clone()
    };
    let span = Arc::new(MeasuredSpan::after(options.warmup));
    let around = Surroundings {
        observer: Arc::clone(&span) as Arc<_>,
        machine: stepwell_train::Machine::default(),
        stop: StopRequest::new(),
        placement: Placement::Fresh,
        from: None,
        rows: RowsAtStart { from: vec![rows.to_owned()], in_memory },
        repaired_rows: false,
        digest: false,
        settings: Value::Null,
        on_plan: Arc::new(|_| {}),
        on_note: Arc::new(|_| {}),
        on_warning: Arc::new(|_| {}),
    };
    let report = stepwell_train::train(&config, &around);
    remove(&scratch)?;
    let report = report.map_err(|error| Error::Arguments(error.to_string()))?;
    let few = || Error::Arguments("more examples than the warm-up are needed".to_owned());
    let (begin, end) = span.marks().ok_or_else(few)?;
    Ok(Counted::between(&begin, &end, report))
}
