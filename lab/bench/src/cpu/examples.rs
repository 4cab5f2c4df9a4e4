//! Examples of all steps, drawn before timing starts.

use stepwell_base::Key;
use stepwell_base::random::Stream;
use stepwell_data::{Schema, Zipf};
use stepwell_engine::Grouper;
use stepwell_train::StepInput;

use super::options::Options;
use crate::train::Ids;

/// Share of clicks.
const CLICKS: f64 = 0.25;

/// Examples by step.
#[derive(Debug)]
pub(super) struct Drawn {
    steps: Vec<StepInput>,
    rows: usize,
    /// By step, each occurrence's row, numbered in order of first use over all steps. These are the
    /// slots that a planner would assign if it never runs out of them.
    occurrences: Vec<Vec<u32>>,
    /// By step, the distinct rows.
    distinct: Vec<Vec<u32>>,
}

impl Drawn {
    pub(super) fn new(options: &Options) -> Self {
        let ids = Ids::new(options.rows, false, options.skew);
        let zipfs = ids.zipfs();
        let mut dice = Stream::from_state(11);
        let draw = |_| step(options, &zipfs, &mut dice);
        let steps: Vec<StepInput> = (0..options.steps).map(draw).collect();
        let mut drawn = Self { steps, rows: 0, occurrences: Vec::new(), distinct: Vec::new() };
        drawn.number_rows();
        drawn
    }

    /// Bytes of the examples of all steps: label, features and bag ends of each, key and row of
    /// each id; without the lists of distinct rows.
    pub(super) fn bytes_min(options: &Options) -> u64 {
        let Schema { dense, id_columns: slots, .. } = Schema::CRITEO;
        let ids = (slots * options.ids_per_slot) as u64;
        let of_id = (size_of::<Key>() + size_of::<u32>()) as u64;
        let example = ids * of_id + ((1 + dense + slots) * size_of::<f32>()) as u64;
        let examples = (options.config.data.mini_batch as u64).saturating_mul(options.steps as u64);
        examples.saturating_mul(example)
    }

    fn number_rows(&mut self) {
        let mut slots = std::collections::HashMap::new();
        let mut grouper = Grouper::default();
        for examples in &self.steps {
            let lookup = grouper.group(&examples.bags);
            let mut of_step = Vec::with_capacity(lookup.distinct.len());
            for key in &lookup.distinct {
                let next = slots.len() as u32;
                of_step.push(*slots.entry(*key).or_insert(next));
            }
            let rows = lookup.occurrence_rows.iter().map(|row| of_step[*row as usize]);
            self.occurrences.push(rows.collect());
            self.distinct.push(of_step);
        }
        self.rows = slots.len();
    }

    /// Rows of all steps.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Slots for all rows, and for the rows of one more step, so that memory is never scarce.
    pub(super) fn slots(&self) -> usize {
        self.rows + self.distinct.iter().map(Vec::len).max().unwrap_or(0)
    }

    pub(super) fn steps(&self) -> &[StepInput] {
        &self.steps
    }

    pub(super) fn examples(&self) -> usize {
        self.steps.iter().map(|examples| examples.labels.len()).sum()
    }

    /// Rows of the occurrences, and distinct rows, by step.
    pub(super) fn rows_by_step(&self) -> impl Iterator<Item = (&[u32], &[u32])> {
        let lists = self.occurrences.iter().zip(&self.distinct);
        lists.map(|(occurrences, distinct)| (occurrences.as_slice(), distinct.as_slice()))
    }
}

fn step(options: &Options, zipfs: &[Zipf], dice: &mut Stream) -> StepInput {
    let mut examples = StepInput::default();
    for _ in 0..options.config.data.mini_batch {
        examples.labels.push(f32::from(u8::from(dice.next_f64() < CLICKS)));
        examples.dense.extend((0..Schema::CRITEO.dense).map(|_| dice.next_f32()));
        for (slot, zipf) in zipfs.iter().enumerate() {
            for _ in 0..options.ids_per_slot {
                let rank = zipf.rank(dice.next_u64(), dice.next_u64());
                examples.bags.keys.push(Ids::key(slot, rank));
            }
            examples.bags.ends.push(examples.bags.keys.len() as u32);
        }
    }
    examples
}
