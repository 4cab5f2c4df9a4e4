//! Contents of the pipeline's queues: mini-batches of examples, and marks between them.

use std::ops::Range;

use stepwell_base::Key;
use stepwell_data::{Labels, Schema};
use stepwell_engine::{Blocks, Cargo, Part, Request, Routes, WorkingSet};
use stepwell_nn::{Objective, Targets};

use crate::Error;
use crate::features::Features;

/// A place in the training data, between two examples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
pub struct RunPosition {
    /// Epoch, from 0.
    pub epoch: u64,
    /// File, from 0, in the order of the resolved list.
    pub file: u32,
    /// Lines of that file before this place.
    pub line: u64,
    /// Steps trained before this place.
    pub step: u64,
    /// Malformed lines of this epoch's training part that were skipped before this place.
    #[serde(default)]
    pub skipped: u64,
    /// Malformed lines that were skipped in earlier passes.
    #[serde(default)]
    pub skipped_earlier: u64,
    /// Number of shuffle windows of this epoch before the one that begins here, if examples are
    /// shuffled.
    #[serde(default)]
    pub window: u64,
    /// Number of trained examples of that window.
    #[serde(default)]
    pub taken: u64,
}

impl RunPosition {
    /// Whether this is the start of the data.
    pub(crate) fn is_at_start(self) -> bool {
        let Self { epoch, file, line, taken, .. } = self;
        (epoch, file, line, taken) == (0, 0, 0, 0)
    }

    /// Start position in the data that follows: steps and shuffle windows continue.
    pub(crate) fn next_start(self) -> Self {
        let windows = self.window + u64::from(self.taken > 0);
        let window = if self.epoch == 0 { windows } else { 0 };
        Self { step: self.step, window, ..Self::default() }
    }

    /// The form that [`serde::Deserialize`] reads.
    pub(crate) fn to_json(self) -> serde_json::Value {
        let Self { epoch, file, line, step, skipped, skipped_earlier, window, taken } = self;
        let parts = [
            ("epoch", epoch),
            ("file", u64::from(file)),
            ("line", line),
            ("step", step),
            ("skipped", skipped),
            ("skipped_earlier", skipped_earlier),
            ("window", window),
            ("taken", taken),
        ];
        parts.into_iter().collect()
    }
}

/// The examples of one step, or of an evaluation's mini-batch, without their ids.
#[derive(Debug, Default)]
pub(crate) struct Examples {
    /// Position in the training data after these examples, with the step count there.
    pub(crate) after: RunPosition,
    /// Number of examples.
    pub(crate) count: usize,
    /// Labels, from 0 to 1 or any numbers. // (examples, labels)
    pub(crate) labels: Vec<f32>,
    /// Weight of each example; empty if all are 1. // (examples) or (0)
    pub(crate) weights: Vec<f32>,
    /// Dense features. // (examples, dense)
    pub(crate) dense: Vec<f32>,
    /// True click probabilities of the first examples, if known; NaN if unknown for an example
    /// among them. // (examples) at most
    pub(crate) truth: Vec<f32>,
    /// Blocks of the mini-batch that are here: with several ranks, this rank's.
    pub(crate) blocks: Blocks,
    /// This rank's own data, if several ranks share the mini-batch.
    pub(crate) shared: Shared,
}

impl Examples {
    /// What the scores of some of the examples are compared with, by the objective of each label.
    pub(crate) fn targets<'a>(
        &'a self,
        objectives: &'a [Objective],
        examples: Range<usize>,
    ) -> Targets<'a> {
        let (count, weights) = (objectives.len(), &self.weights[..]);
        let labels = &self.labels[examples.start * count..examples.end * count];
        let weights = if weights.is_empty() { weights } else { &weights[examples] };
        Targets { objectives, labels, weights }
    }

    /// Returns no examples, with room for the labels and weights of `examples` of them.
    pub(crate) fn with_room(examples: usize, labels: Labels) -> Self {
        let weights = if labels.weighted { examples } else { 0 };
        Self {
            labels: Vec::with_capacity(examples * labels.count),
            weights: Vec::with_capacity(weights),
            ..Self::default()
        }
    }
}

/// A rank's own part of a mini-batch that several share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// Requests of this rank's examples, by table, for all owners.
    pub(crate) parts: Vec<Part>,
    /// Owners of the requested keys, by table.
    pub(crate) routes: Vec<Routes>,
    /// Whether rows may be lent beyond this mini-batch, since no run can end with it.
    pub(crate) lends_on: bool,
}

impl Cargo for Examples {
    fn examples(&self) -> usize {
        self.blocks.examples_of_all()
    }

    fn clear(&mut self) {
        self.count = 0;
        self.labels.clear();
        self.weights.clear();
        self.dense.clear();
        self.truth.clear();
        (self.blocks, self.shared.lends_on) = (Blocks::default(), false);
    }

    fn parts(&mut self) -> &mut [Part] {
        &mut self.shared.parts
    }
}

/// Mini-batches with examples.
pub(crate) type MiniBatch = stepwell_engine::MiniBatch<Examples>;

/// The most bytes of mini-batches, for a given number of examples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MiniBatchBytes {
    /// Bytes of a known mini-batch.
    pub(crate) known: u64,
    /// Further bytes from plan to retire.
    pub(crate) planned: u64,
    /// Bytes of keys and weights of the mini-batch being made.
    pub(crate) gathered: u64,
}

impl MiniBatchBytes {
    /// The bytes if ranks share mini-batches: a rank's own requests, and all ranks' requests to it,
    /// which may be for all of their keys, with numbers of occurrences.
    pub(crate) fn shared(self) -> Self {
        let (known, planned) = (2 * self.known + self.gathered, 2 * self.planned);
        Self { known, planned, gathered: self.gathered }
    }

    /// The bytes of `examples` examples of `schema`.
    pub(crate) fn new(examples: u64, schema: Schema, features: &Features) -> Self {
        let Schema { dense, labels, .. } = schema;
        // Includes true probabilities, in case they are known.
        let dense = dense + features.derived().len();
        let lanes = dense + labels.count + usize::from(labels.weighted) + 1;
        let known = examples * (lanes * size_of::<f32>()) as u64;
        let mut bytes = Self { known, planned: 0, gathered: 0 };
        // The ends of bags are counted once, with the first table.
        let mut bags = examples * features.fields();
        for (table, ids) in features.ids_by_table().into_iter().enumerate() {
            let (ids, weighed) = (examples * ids, features.is_weighed(table));
            let weight = if weighed { size_of::<f32>() } else { 0 };
            bytes.known += Request::bytes_max(std::mem::take(&mut bags), ids, weighed);
            bytes.planned += WorkingSet::bytes_max(ids, weighed);
            bytes.gathered += ids * (size_of::<Key>() + weight) as u64;
        }
        bytes
    }
}

/// An event between two mini-batches, in order with them.
#[derive(Debug)]
pub(crate) enum Mark {
    /// The training part of an epoch is over.
    EpochTrained {
        /// Whether this is the last epoch, so that all data is trained.
        last: bool,
    },
    /// An evaluation is over.
    Evaluated {
        /// Whether training of the epoch continues after it.
        within_epoch: bool,
    },
    /// The data ends here, with an error.
    Failed {
        /// The error.
        error: Box<Error>,
        /// Whether to save a checkpoint of the training before it.
        keeps: bool,
        /// File and line, if a line is malformed.
        place: Option<(u32, u64)>,
    },
}

/// A batch on its way to the planner, or an event between two.
pub(crate) type Item = stepwell_engine::Item<Examples, Mark>;
