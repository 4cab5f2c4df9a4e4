//! Shapes: the tiers, the pipeline and the scheduler under which a job runs. They must not affect a
//! single bit of the model.

use stepwell_base::ByteCount;
use stepwell_mem::PolicyKind;
use stepwell_settings::Config;
use stepwell_train::Sizes;

use crate::dice::Dice;
use crate::oracle::Oracle;
use crate::styles::Style;
use crate::tiers::{self, Room};

/// A shape, drawn by the seed of its schedule.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Settings of the job, with these tiers and this pipeline.
    pub config: Config,
    /// Sizes of blocks and of staging.
    pub sizes: Sizes,
    /// Requested slots of each table group.
    pub slots: Vec<u64>,
    /// Whether checkpoints are written.
    pub checkpoints: bool,
    /// Whether a resumed run loads rows into memory before it starts.
    pub preloads: bool,
    /// Style of the scheduler.
    pub style: Style,
}

impl Shape {
    /// A shape for `job`; `oracle` gives the space it needs.
    pub fn draw(dice: &mut Dice, job: &Config, oracle: &Oracle) -> Self {
        let mut config = job.clone();
        config.threads = if dice.once_in(12) { 2 } else { 1 };
        config.data.batch = config.data.mini_batch * dice.pick(&[1, 1, 2, 3, 4, 8]);
        config.pipeline.lookahead = dice.pick(&[0, 1, 2, 2, 8]);
        let far = dice.pick(&[0, 1, 1, 4]);
        config.pipeline.horizon = config.pipeline.lookahead * far.max(1) + far.min(2);
        config.tiers.policy = dice.pick(&PolicyKind::ALL);
        config.tiers.segment =
            Some(ByteCount(dice.pick(&[16 << 10, 16 << 10, 32 << 10, 128 << 10])));
        config.tiers.page_cache = ByteCount(dice.pick(&[0, 32 << 10, 1 << 30]));
        config.tiers.harvest = Some(ByteCount(dice.pick(&[0, 1 << 10, 4 << 10, 64 << 10])));
        config.tiers.read_unit = ByteCount(dice.pick(&[0, 8 << 10, 32 << 10]));
        config.tiers.space = dice.pick(&[1.5, 1.5, 1.5, 2.0]);
        let slots: Vec<u64> = oracle.rooms.iter().map(|room| slots_of(dice, room)).collect();
        // With named tables, memory may be given per table, or as a total.
        match slots.len() > 1 && dice.once_in(4) {
            true => tiers::share_out(&mut config, &oracle.rooms, &slots),
            false => tiers::give(&mut config, &oracle.rooms, &slots),
        }
        let checkpoints = dice.once_in(2);
        config.checkpoint.every = dice.pick(&[0, 3, 7, 10, 15]);
        let sizes = Sizes {
            block_bytes: dice.pick(&[512, 2048, 16 << 10]).max(oracle.block_bytes),
            staging_buffer_rows: dice.pick(&[1, 3, 10, 30, 100]),
            staging_buffers: dice.within(1, 4) as usize,
            device_slots: Vec::new(),
        };
        let (preloads, style) = (dice.once_in(2), Style::draw(dice));
        Self { config, sizes, slots, checkpoints, preloads, style }
    }

    /// Ensures that there are checkpoints to resume from.
    pub fn keep_some(&mut self, dice: &mut Dice) {
        self.checkpoints = true;
        self.config.checkpoint.every = dice.within(1, 7);
    }

    /// Adds checkpoints at times, and before the first step.
    pub fn keep_at_times(&mut self, dice: &mut Dice) {
        self.config.checkpoint.minutes = dice.pick(&[0.0, 0.0, 2e-3, 1e-2]);
        self.config.checkpoint.initial = dice.once_in(4);
    }

    /// Sets lookahead and horizon to `lookahead` mini-batches, and leaves room for the rows of the
    /// largest mini-batch and `extra` more.
    pub fn tighten(&mut self, lookahead: usize, extra: u64, oracle: &Oracle) {
        self.config.data.batch = self.config.data.mini_batch;
        (self.config.pipeline.lookahead, self.config.pipeline.horizon) = (lookahead, lookahead);
        let slots = |room: &Room| room.whole.unwrap_or(room.rows_of_mini_batch + extra);
        self.give(oracle.rooms.iter().map(slots).collect(), oracle);
    }

    /// Gives each table group this many slots.
    pub fn give(&mut self, slots: Vec<u64>, oracle: &Oracle) {
        tiers::give(&mut self.config, &oracle.rooms, &slots);
        self.slots = slots;
    }

    /// The shape for an oracle: everything in memory, one mini-batch at a time, no checkpoints.
    pub fn roomy(job: &Config) -> Self {
        let sizes = Sizes {
            block_bytes: 64 << 10,
            staging_buffer_rows: 1000,
            staging_buffers: 2,
            device_slots: Vec::new(),
        };
        let style = Style::Bursts(8);
        let (config, slots) = (job.clone(), Vec::new());
        let (checkpoints, preloads) = (false, false);
        Self { config, sizes, slots, checkpoints, preloads, style }
    }
}

/// Draws a number of slots, from just enough for the largest mini-batch to enough for all rows; for
/// tables that stay in memory, their limit.
fn slots_of(dice: &mut Dice, room: &Room) -> u64 {
    if let Some(slots) = room.whole {
        return slots;
    }
    let (least, all) = (room.rows_of_mini_batch, room.rows_of_job);
    match dice.below(8) {
        0 | 1 => least,
        2 => least + 1,
        3 | 4 => least + dice.below(least / 2 + 1),
        5 => least * 2,
        6 => least + dice.below(all.saturating_sub(least) + 1),
        _ => all,
    }
}
