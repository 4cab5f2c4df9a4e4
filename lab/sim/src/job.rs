//! Jobs: a model and the examples to train it on, independent of tiers and scheduling.
//!
//! All schedules of a job must end with the same bits; a run in memory determines them.

use std::fmt::Write;

use stepwell_base::ByteCount;
use stepwell_data::Chunk;
use stepwell_optim::Storage;
use stepwell_settings::{
    Config, ModelKind, OptimizerConfig, OptimizerKind, RowOptimizerConfig, RowOptimizerKind,
};

use crate::bags::{self, Bound};
use crate::dice::Dice;
use crate::ids::{DENSE, Ids};
use crate::tables::{self, Tight};

const SLOTS: usize = 26;

/// A job, drawn by its number.
#[derive(Clone, Debug)]
pub struct Job {
    /// Number.
    pub number: u64,
    /// Settings that determine the bits of the model. Tiers and pipeline are set for an oracle:
    /// everything in memory, one mini-batch at a time.
    pub config: Config,
    /// Examples by file.
    pub files: Vec<Examples>,
    /// Bytes of the largest block of a packed file.
    pub block_bytes: usize,
    /// A table without enough space, if any.
    pub tight: Option<Tight>,
}

/// Examples of a file.
#[derive(Clone, Debug)]
pub enum Examples {
    /// Lines with one id per slot.
    Lines(String),
    /// Bags of any number of ids, from vocabularies that slots may share.
    Bags(Box<Chunk>),
}

/// Length of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Length {
    /// Fewest and most steps per epoch.
    pub steps: (u64, u64),
    /// Most examples of a mini-batch.
    pub mini_batch_max: u64,
    /// Epochs; `None` to draw them.
    pub epochs: Option<u64>,
}

impl Length {
    /// The length for most schedules.
    pub const SHORT: Self = Self { steps: (10, 40), mini_batch_max: 8, epochs: None };
}

impl Job {
    /// Job `number`.
    pub fn draw(number: u64, length: Length) -> Self {
        let mut dice = Dice::new(number, "job");
        let mut config = Config { seed: number + 1, threads: 1, ..Config::default() };
        config.data.mini_batch =
            dice.within(2.min(length.mini_batch_max), length.mini_batch_max) as usize;
        let drawn = if dice.once_in(3) { 2 } else { 1 };
        config.data.epochs = length.epochs.unwrap_or(drawn);
        config.data.eval_fraction = dice.pick(&[0.0, 0.1, 0.25]);
        let steps = dice.within(length.steps.0, length.steps.1) / config.data.epochs.min(2);
        // The last mini-batch of a pass may be short.
        let train = steps.max(3) * config.data.mini_batch as u64 - dice.below(4);
        let examples = (train as f64 / (1.0 - config.data.eval_fraction)) as u64;
        model(&mut config, &mut dice);
        config.rows = tables::life(&mut dice);
        // Separate dice, so that the rest of a job doesn't depend on them.
        config.rows.storage = Dice::new(number, "storage").pick(&Storage::ALL);
        config.pipeline.staleness = if dice.once_in(3) { dice.within(1, 3) as usize } else { 0 };
        config.tiers.dram = Some(ByteCount(4 << 20));
        config.tiers.index = Some(ByteCount(4 << 20));
        config.tiers.segment = Some(ByteCount(64 << 10));
        (config.pipeline.lookahead, config.pipeline.horizon) = (0, 0);
        (config.checkpoint.every, config.checkpoint.minutes) = (1, 0.0);
        let mut lines = lines(examples, &mut dice);
        if dice.once_in(6) {
            config.data.skip_max = spoil(&mut lines, &mut dice);
        }
        let mut files: Vec<Examples> =
            cut(&lines, &mut dice).into_iter().map(Examples::Lines).collect();
        let mut of_bags = Dice::new(number, "bags");
        let mut of_tables = Dice::new(number, "tables");
        let has_tables = of_tables.once_in(2);
        // Bags have separate bounds only if features use them.
        let bound = if has_tables { Bound::Bags } else { Bound::Slots };
        // Only text has malformed lines.
        if config.data.skip_max == 0 && of_bags.once_in(3) {
            let chunks = bags::draw(examples, bound, &mut of_bags);
            files = chunks.into_iter().map(|chunk| Examples::Bags(Box::new(chunk))).collect();
        }
        let ids = ids_max(&files);
        // The rows of a bag move together, so with many of them, a learning rate that suits a
        // single row diverges.
        let share = ids.len() as f64 / ids.iter().sum::<usize>().max(ids.len()) as f64;
        config.optim.rows.lr = Some(config.row_rate() * share);
        let tight = has_tables.then(|| tables::draw(&mut config, &ids, &mut of_tables)).flatten();
        if has_tables {
            let of_each = ByteCount(4 << 20);
            for table in &mut config.tables {
                table.dram = Some(of_each);
                let kind = table.optimizer.unwrap_or(config.optim.rows.kind);
                let lr = table.lr.map(|lr| lr * share * slower(kind));
                let slowest = config.optim.rows.lr.map(|lr| lr * slower(kind));
                let is_other = table.optimizer.is_some_and(|kind| kind != config.optim.rows.kind);
                table.lr = lr.or(slowest.filter(|_| is_other));
            }
            config.tiers.dram = Some(ByteCount(of_each.0 * config.tables.len() as u64));
            // Every group must get enough of the total.
            config.tiers.index = Some(ByteCount(256 << 20));
        }
        Self { number, config, files, block_bytes: bound.block_bytes(), tight }
    }
}

/// Most ids in the bags of each slot.
fn ids_max(files: &[Examples]) -> Vec<usize> {
    let of_file = |slot: usize, file: &Examples| match file {
        Examples::Lines(_) => 1,
        Examples::Bags(chunk) => {
            (0..chunk.len()).map(|example| chunk.bag(example, slot).len()).max().unwrap_or(0)
        }
    };
    let of_slot = |slot| files.iter().map(|file| of_file(slot, file)).max().unwrap_or(0);
    (0..SLOTS).map(of_slot).collect()
}

fn model(config: &mut Config, dice: &mut Dice) {
    // Models with first-order weights count twice, so that half of the jobs have them.
    let wide = ModelKind::OF_ANY_DATA.into_iter().filter(|kind| kind.has_first_order());
    config.model.kind = dice.pick(&wide.chain(ModelKind::OF_ANY_DATA).collect::<Vec<_>>());
    config.model.dim = dice.within(1, 4) as usize;
    config.model.hidden = vec![4];
    (config.model.cross_layers, config.model.bottom) = (1, vec![4]);
    config.train.blocks = dice.pick(&[1, 2, 3, 8]);
    config.model.init_range = 0.1;
    let [rows, dense] = [(); 2].map(|()| dice.pick(&OptimizerKind::ALL));
    config.optim.rows = RowOptimizerConfig::new(rows.into(), 0.05 * slower(rows.into()));
    config.optim.dense = OptimizerConfig::new(dense, 0.01 * slower(dense.into()));
}

/// Factor of the rate: a velocity adds up ten gradients, so it diverges at rates that suit others.
fn slower(kind: RowOptimizerKind) -> f64 {
    if kind == RowOptimizerKind::Momentum { 0.1 } else { 1.0 }
}

/// Draws `examples` lines of label, numbers and ids.
fn lines(examples: u64, dice: &mut Dice) -> Vec<String> {
    let slots: Vec<Ids> = (0..SLOTS).map(|_| Ids::draw(dice)).collect();
    let line = |example| {
        let mut line = dice.below(2).to_string();
        for _ in 0..DENSE {
            let _ = write!(line, "\t{}", dice.below(10));
        }
        for ids in &slots {
            let _ = write!(line, "\t{:x}", ids.id(example, dice));
        }
        line.push('\n');
        line
    };
    (0..examples).map(line).collect()
}

/// Inserts malformed lines; returns the number that must be allowed.
fn spoil(lines: &mut Vec<String>, dice: &mut Dice) -> u64 {
    let count = dice.within(1, 9);
    for _ in 0..count {
        let place = dice.below(lines.len() as u64) as usize;
        lines.insert(place, "no example\n".to_owned());
    }
    count
}

/// Splits the lines into up to three files.
fn cut(lines: &[String], dice: &mut Dice) -> Vec<String> {
    let files = dice.pick(&[1, 1, 2, 3]);
    lines.chunks(lines.len().div_ceil(files)).map(<[String]>::concat).collect()
}
