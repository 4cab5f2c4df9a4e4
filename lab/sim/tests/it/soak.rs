//! A long run with tiny tiers loses no pins, slots or memory.
//!
//! A million steps if `STEPWELL_LONG` is set, several thousand otherwise.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use stepwell_base::rules::Rules;
use stepwell_base::{ByteCount, Key, TableId};
use stepwell_disk::{Faults, MemDisk};
use stepwell_engine::{Moment, Witness};
use stepwell_settings::PlaceKind;
use stepwell_sim::{
    Case, Checker, Detail, Dice, Disks, Job, Launch, Length, Shape, Style, Tables, Tally, pools,
};

/// Steps per epoch.
const EPOCH_STEPS: u64 = 500;
const EPOCHS: u64 = 12;
const EPOCHS_LONG: u64 = 2000;
/// Most bytes by which memory may grow after a quarter of the steps.
const GROWTH_BYTES_MAX: u64 = 12 << 20;

/// Resident memory of this process.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// Forwards reads to a checker, and samples memory.
struct Memory {
    checker: Arc<Checker>,
    /// Steps before the first sample, and between samples.
    warm: u64,
    every: u64,
    next: AtomicU64,
    first: AtomicU64,
    most: AtomicU64,
}

impl Witness for Memory {
    fn read(&self, at: Moment, table: TableId, key: Key, weights: &[f32], state: &[f32]) {
        self.checker.read(at, table, key, weights, state);
        if at.steps < self.next.load(Ordering::Relaxed) {
            return;
        }
        self.next.store(at.steps + self.every, Ordering::Relaxed);
        let bytes = resident_bytes();
        if at.steps < self.warm + self.every {
            self.first.fetch_max(bytes, Ordering::Relaxed);
        }
        self.most.fetch_max(bytes, Ordering::Relaxed);
    }
}

/// Whether some tables share a store, and one stays in memory.
fn shares_and_keeps(job: &Job) -> bool {
    let groups = Tables::of(job).unwrap().groups;
    groups.iter().any(|group| group.tables.len() > 1) && groups.iter().any(|group| group.whole)
}

#[test]
fn nothing_is_lost_on_a_long_way() {
    let long = std::env::var_os("STEPWELL_LONG").is_some();
    let epochs = if long { EPOCHS_LONG } else { EPOCHS };
    let steps = (2 * EPOCH_STEPS, 2 * EPOCH_STEPS);
    let length = Length { steps, mini_batch_max: 2, epochs: Some(epochs) };
    let mut jobs = (11..).map(|number| Job::draw(number, length));
    let mut job = jobs.find(shares_and_keeps).unwrap();
    (job.config.rows.admit_probability, job.config.rows.expire_after) = (1.0, 300);
    job.tight = None;
    for table in &mut job.config.tables {
        let expires = if table.place == PlaceKind::Memory { 0 } else { 300 };
        (table.admit_after, table.admit_probability) = (Some(1), Some(1.0));
        (table.expire_after, table.lr) = (Some(expires), Some(1e-3));
    }
    let all = EPOCH_STEPS * epochs;
    job.config.checkpoint.every = all / 5;
    job.config.optim.rows.lr = Some(1e-3);
    job.config.optim.dense.lr = Some(1e-3);
    let pools = pools().unwrap();
    let case =
        Case::prepare(job, Detail::Sums, &pools).unwrap_or_else(|finding| panic!("{finding}"));
    let mut dice = Dice::new(1, "soak");
    let mut shape = Shape::draw(&mut dice, &case.job().config, case.oracle());
    shape.tighten(2, 4, case.oracle());
    shape.config.checkpoint.every = all / 5;
    shape.config.tiers.segment = Some(ByteCount(16 << 10));
    (shape.checkpoints, shape.style) = (true, Style::Mixed);
    let disks = Disks::new(MemDisk::new(), Faults::default());
    let checker = Arc::new(Checker::new(Arc::clone(&case.oracle().reads), 0));
    let (warm, every) = (all / 4, all / 40);
    let [next, first, most] = [warm, 0, 0].map(AtomicU64::new);
    let memory = Arc::new(Memory { checker: Arc::clone(&checker), warm, every, next, first, most });
    let launch = case.launch(&shape, 1, Rules::default(), &disks, &checker);
    let witness = Arc::clone(&memory) as Arc<dyn Witness>;
    let exit = Launch { witness, turns_max: Some(u64::MAX), ..launch }.run();
    case.judge(&exit, &checker, None).unwrap_or_else(|finding| panic!("{finding}"));
    let mut tally = Tally::default();
    tally.add(&exit);
    let (first, most) = (memory.first.load(Ordering::Relaxed), memory.most.load(Ordering::Relaxed));
    println!("{tally:?}, {} to {}", ByteCount(first), ByteCount(most));
    assert_eq!(tally.steps, all);
    assert!(tally.evictions > all && tally.refilled > all / 2, "{tally:?}");
    assert!(most <= first + GROWTH_BYTES_MAX, "memory grew from {first} to {most} bytes");
}
