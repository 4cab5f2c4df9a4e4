//! What an example costs processors, by what does the work, with one rank and with several.
//!
//! One rank's costs are those of a profile. With R ranks most work is cut into R parts; some of it
//! every rank does for all examples ([`repeats`], [`REPEATED_OF_IT`]), and what ranks exchange is
//! made and read ([`PerExchange`]).

use serde::Serialize;

use super::profile::Profile;
use super::traffic::Exchanged;

/// The stage in which steps are; what threads compute is beside it.
pub(super) const TRAIN: &str = "train";
/// Stages that wait for the disk.
const ON_DISK: [&str; 2] = ["pull", "write"];
/// Kernels of training steps alone: an evaluation has none of them.
const TRAINING_KERNELS: [&str; 3] = ["backward", "rows", "dense"];
/// The kernel that every rank repeats in part: the update of the dense part, which each has. What
/// is left is to sum gradients over blocks, of which a rank has its own.
const REPEATED_KERNEL: &str = "dense";
/// So much of it: what one rank of 2 or 4 took of one alone, with mini-batches of 4096 and of 1024
/// (deepfm, 2026-11-24).
const REPEATED_OF_IT: f64 = 0.45;

/// Whether each of several ranks does the work of stage `name` for the examples of all: the bytes
/// of shared files are read by every rank, which parses and cuts its part of them; and a step's
/// scores and marks are heard by every rank.
fn repeats(name: &str) -> bool {
    ["read", TRAIN].contains(&name)
}

/// Seconds of processor time that making and reading messages takes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PerExchange {
    /// For a key: finding its owner, uniting what is asked, finding its row.
    pub key: f64,
    /// For a weight, a gradient or a dense parameter: written, copied, read, summed.
    pub lane: f64,
    /// For a message to another rank: whoever waits for it is woken.
    pub message: f64,
}

impl PerExchange {
    /// As `bench/predict.py --fit` found it on 2026-11-24 from runs of 2 and 4 ranks that are
    /// threads, deepfm and lr with mini-batches of 4096 and 1024, on 2 cores of an Intel Xeon with
    /// AVX-512 that other work had its part of.
    pub const MEASURED: Self = Self { key: 101e-9, lane: 3.4e-9, message: 39e-6 };

    fn of(self, exchanged: Exchanged) -> f64 {
        self.key * exchanged.keys + self.lane * exchanged.lanes + self.message * exchanged.messages
    }
}

/// What one rank takes for an example of a mini-batch, in seconds.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Costs {
    /// Of the machine that was measured.
    pub(super) cores: usize,
    pub(super) stages: Vec<StageCost>,
    /// Processor time of threads that compute, but for what is repeated.
    compute: f64,
    /// What every rank repeats of it.
    repeated: f64,
    /// Seconds from one example to the next, as they were.
    pub(super) measured: f64,
    /// Processor time of whatever is none of these.
    rest: f64,
}

/// What a stage takes for an example.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StageCost {
    pub(super) name: String,
    processor: f64,
    /// In which it waits for the disk.
    pub(super) disk: f64,
}

impl StageCost {
    /// Processor time of one of several ranks.
    pub(super) fn of_rank(&self, ranks: f64) -> f64 {
        if repeats(&self.name) { self.processor } else { self.processor / ranks }
    }
}

impl Costs {
    /// Those of a run. An evaluated example costs what a trained one does but for the kernels that
    /// only training has.
    pub(super) fn of(profile: &Profile) -> Self {
        let trained = profile.examples as f64;
        let evaluated = profile.evaluated() as f64;
        let saved = evaluated / trained * profile.kernels(&TRAINING_KERNELS);
        let of_all = |seconds: f64| seconds / (trained + evaluated);
        let stage = |stage: &crate::StageReport| StageCost {
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
        // Evaluations within the time that was taken, as examples that were trained on.
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

    /// Processor time of the threads of one of several ranks that compute, messages included.
    pub(super) fn compute_of_rank(&self, ranks: f64, exchanged: Exchanged) -> f64 {
        let messages = PerExchange::MEASURED.of(exchanged);
        (self.compute + messages) / ranks + self.repeated
    }

    /// Processor time of one of several ranks.
    pub(super) fn of_rank(&self, ranks: f64, exchanged: Exchanged) -> f64 {
        let stages: f64 = self.stages.iter().map(|stage| stage.of_rank(ranks)).sum();
        stages + self.compute_of_rank(ranks, exchanged) + self.rest / ranks
    }
}
