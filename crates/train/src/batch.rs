//! What flows through the pipeline: mini-batches, the batches they are planned in, and marks.

use stepwell_engine::{Bags, GroupUnit, Lookup};
use stepwell_mem::Occurrence;

/// A place in the training data, between two examples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Position {
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
    /// Those that were skipped in the passes before this one.
    #[serde(default)]
    pub skipped_earlier: u64,
}

/// What is done with a mini-batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Scored, then trained on.
    Train,
    /// Only scored; no row comes to exist.
    Evaluate,
}

/// One table group's share of a mini-batch.
#[derive(Debug, Default)]
pub(crate) struct GroupPart {
    /// Keys in example order.
    pub(crate) bags: Bags,
    /// The same by row.
    pub(crate) lookup: Lookup,
    /// How each row occurred; filled by training, read at retire.
    pub(crate) occurrences: Vec<Occurrence>,
    /// Weights as they were when the unit was pulled, by row: empty, but where a rule is switched
    /// off.
    pub(crate) early: Vec<f32>,
}

/// The examples of one step.
#[derive(Debug)]
pub(crate) struct MiniBatch {
    /// Count of mini-batches read before it, evaluated ones included.
    pub(crate) number: u32,
    /// Where the training data goes on once it is trained, and how many steps that makes.
    pub(crate) after: Position,
    /// What is done with it.
    pub(crate) purpose: Purpose,
    /// Labels, 0 or 1. // (examples)
    pub(crate) labels: Vec<f32>,
    /// Dense features. // (examples, dense)
    pub(crate) dense: Vec<f32>,
    /// True click probabilities, where they are known. // (examples) or empty
    /// No number for single examples of which nobody knows it.
    pub(crate) truth: Vec<f32>,
    /// Ids by table group.
    pub(crate) groups: Vec<GroupPart>,
}

impl MiniBatch {
    /// Number of examples.
    pub(crate) fn examples(&self) -> usize {
        self.labels.len()
    }

    /// Forgets everything and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.labels.clear();
        self.dense.clear();
        self.truth.clear();
        for part in &mut self.groups {
            part.bags.clear();
            part.lookup.clear();
            part.occurrences.clear();
            part.early.clear();
        }
    }

    /// The most bytes of a mini-batch of `examples` examples.
    pub(crate) fn bytes_max(examples: u64, dense: u64, slots: u64) -> u64 {
        let ids = examples * slots;
        let bags = ids * (size_of::<stepwell_base::Key>() + size_of::<u32>()) as u64;
        let occurrences = ids * size_of::<Occurrence>() as u64;
        examples * (dense + 2) * 4 + bags + Lookup::bytes_max(ids) + occurrences
    }
}

/// Something that happens between two mini-batches, in order with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// The model as of now is to be written.
    Checkpoint,
    /// An epoch's training part is over.
    EpochTrained,
    /// An epoch's evaluation is over.
    Evaluated,
}

/// A batch on its way to the planner, or a mark between two.
#[derive(Debug)]
pub(crate) enum Item {
    /// Mini-batches to be planned and pulled together.
    Batch(Vec<MiniBatch>),
    /// A mark.
    Mark(Mark),
}

/// What was planned together, or a mark.
#[derive(Debug, Default)]
pub(crate) struct Unit {
    /// Mini-batches with their slots.
    pub(crate) minis: Vec<MiniBatch>,
    /// What moves, by table group.
    pub(crate) groups: Vec<GroupUnit>,
    /// Whether one of the mini-batches was trained: none is, once the run is to stop.
    pub(crate) trained: bool,
    /// A mark; then there are no mini-batches, and a checkpoint's victims stay where they are.
    pub(crate) mark: Option<Mark>,
}
