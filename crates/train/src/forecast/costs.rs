//! Processor costs of an example by stage and kernel, with one rank and with several.
//!
//! The costs of one rank are from a profile. With R ranks most work is cut into R parts; some of it
//! is done by every rank for all examples ([`repeats`], [`REPEATED_OF_IT`]), and messages between
//! ranks are written and read ([`PerExchange`]).

use serde::Serialize;

use super::profile::Profile;
use super::traffic::Exchanged;
use crate::report::StageReport;

/// The stage of training steps; compute threads are counted separately.
pub(super) const TRAIN: &str = "train";
/// Stages that wait for the disk.
const ON_DISK: [&str; 2] = ["pull", "write"];
/// Kernels of training steps only, not of evaluations.
const TRAINING_KERNELS: [&str; 3] = ["backward", "rows", "dense"];
/// The kernel that every rank partly repeats: each updates the whole dense part, but sums gradients
/// only over its own blocks.
const REPEATED_KERNEL: &str = "dense";
/// Part of [`REPEATED_KERNEL`] that every rank repeats: measured with 2 and 4 ranks relative to
/// one, with mini-batches of 4096 and of 1024 (deepfm, 2026-11-24).
const REPEATED_OF_IT: f64 = 0.45;

/// Whether each of several ranks does the work of stage `name` for all examples: every rank reads
/// all bytes of the files, but parses and cuts only its part; and every rank receives a step's
/// scores and marks.
fn repeats(name: &str) -> bool {
    ["read", TRAIN].contains(&name)
}

/// Seconds of processor time for writing and reading messages.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PerExchange {
    /// Per key: finding its owner, merging requests, finding its row.
    pub key: f64,
    /// Per weight, gradient or dense parameter: written, copied, read, summed.
    pub lane: f64,
    /// Per message to another rank, including waking its receiver.
    pub message: f64,
}

impl PerExchange {
    /// Measured by `bench/predict.py --fit` on 2026-11-24 in runs of 2 and 4 ranks that are
    /// threads, deepfm and lr with mini-batches of 4096 and 1024, on 2 cores of an Intel Xeon with
    /// AVX-512 that were also used by other work.
    pub const MEASURED: Self = Self { key: 101e-9, lane: 3.4e-9, message: 39e-6 };

    fn of(self, exchanged: Exchanged) -> f64 {
        self.key * exchanged.keys + self.lane * exchanged.lanes + self.message * exchanged.messages
    }
}

/// Costs of an example of a mini-batch with one rank, in seconds.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Costs {
    /// Number of cores of the measured machine.
    pub(super) cores: usize,
    pub(super) stages: Vec<StageCost>,
    /// Processor time of compute threads, without the repeated part.
    compute: f64,
    /// The part that every rank repeats.
    repeated: f64,
    /// Measured seconds from one example to the next.
    pub(super) measured: f64,
    /// All other processor time.
    rest: f64,
}

/// Costs of an example in a stage.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StageCost {
    pub(super) name: String,
    processor: f64,
    /// Seconds in which it waits for the disk.
    pub(super) disk: f64,
}

impl StageCost {
    /// Processor time on one of `ranks` ranks.
    pub(super) fn of_rank(&self, ranks: f64) -> f64 {
        if repeats(&self.name) { self.processor } else { self.processor / ranks }
    }
}

impl Costs {
    /// The costs of a run. An evaluated example costs as much as a trained one, except for the
    /// kernels that only training has.
    pub(super) fn of(profile: &Profile) -> Self {
        let trained = profile.examples as f64;
        let evaluated = profile.evaluated() as f64;
        let saved = evaluated / trained * profile.kernels(&TRAINING_KERNELS);
        let of_all = |seconds: f64| seconds / (trained + evaluated);
        let stage = |stage: &StageReport| StageCost {
            name: stage.name.clone(),
            processor: of_all(stage.cpu_seconds),
            disk: match ON_DISK.contains(&stage.name.as_str()) {
                true => of_all((stage.busy_seconds - stage.cpu_seconds).max(0.0)),
                false => 0.0,
            },
        };
        let stages: Vec<StageCost> = profile.stages.iter().map(stage).collect();
        let repeated = REPEATED_OF_IT * profile.kernels(&[REPEATED_KERNEL]) / trained;
        let compute = of_all(profile.compute_seconds + saved);
        let in_stages: f64 = stages.iter().map(|stage| stage.processor).sum();
        let all = of_all(profile.processor.seconds + saved);
        // Evaluations within the measured time, in units of trained examples.
        let within = profile.evaluated_before_last() as f64;
        let within = within * (1.0 - profile.kernels(&TRAINING_KERNELS) / trained / all).max(0.0);
        Self {
            cores: profile.processor.cores,
            stages,
            compute: (compute - repeated).max(0.0),
            repeated,
            measured: profile.train_seconds / (trained + within),
            rest: (all - in_stages - compute).max(0.0),
        }
    }

    /// Processor time of the compute threads of one of `ranks` ranks, including messages.
    pub(super) fn compute_of_rank(&self, ranks: f64, exchanged: Exchanged) -> f64 {
        let messages = PerExchange::MEASURED.of(exchanged);
        (self.compute + messages) / ranks + self.repeated
    }

    /// Processor time of one of `ranks` ranks.
    pub(super) fn of_rank(&self, ranks: f64, exchanged: Exchanged) -> f64 {
        let stages: f64 = self.stages.iter().map(|stage| stage.of_rank(ranks)).sum();
        stages + self.compute_of_rank(ranks, exchanged) + self.rest / ranks
    }
}
