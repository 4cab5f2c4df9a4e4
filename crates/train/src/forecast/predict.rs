//! Predicts the speed of ranks, and what bounds it.
//!
//! Stages overlap, so the slowest decides: the cores of a machine, if all work there takes them
//! longer; a stage's thread, or the disk that it waits for; a step, in which computing, sending and
//! latencies follow one another; the link that carries all messages.

use serde::Serialize;
use stepwell_fabric::Network;

use super::costs::{Costs, TRAIN};
use super::traffic::{Sent, Step};

/// A predicted speed, and its causes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Predicted {
    /// Examples per second of all ranks together.
    pub examples_per_second: f64,
    /// The part that bounds it; if that is a step, its longest part.
    pub bound: &'static str,
    /// Processor time of all ranks together for an example; 0 if unknown.
    pub processor_seconds: f64,
    /// Factor from processor time to the time that cores and steps take, since stages wait for one
    /// another; measured in the profile's run, so it includes other work on the machine.
    pub slack: f64,
    /// Time of each part for an example.
    pub parts: Vec<Takes>,
}

/// A part, and its time for an example.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Takes {
    /// Name of the part.
    pub name: &'static str,
    /// Seconds for an example of all ranks.
    pub seconds: f64,
    /// Whether it is one of the consecutive parts of a step.
    pub in_step: bool,
}

/// All cores of a machine.
const CORES: &str = "cores";
/// Compute threads.
const COMPUTE: &str = "compute";
/// The link of a rank, with all messages that it carries.
const BANDWIDTH: &str = "network bandwidth";
/// Messages that a step waits for.
const SENDING: &str = "sending in a step";
const LATENCY: &str = "network latency";
const DISK: &str = "disk";

/// Common name for the work of a stage.
fn word(stage: &str) -> &'static str {
    match stage {
        "read" => "reading",
        "parse" => "parsing",
        "batch" => "cutting batches",
        "plan" => "planning",
        "pull" => "rows coming up",
        "write" => "rows going down",
        _ => "another stage",
    }
}

impl Predicted {
    /// Speed that the network alone allows.
    pub(super) fn of_network(step: &Step, network: Network) -> Self {
        Self::of(in_network(step, network), 0.0)
    }

    /// All ranks, with `threads` threads each, on the measured machine.
    pub(super) fn on_one_machine(costs: &Costs, step: &Step, threads: usize) -> Self {
        let slack = slack(costs, threads);
        let ranks = step.ranks as f64;
        let all = ranks * costs.of_rank(ranks, step.exchanged());
        // The ranks share one disk.
        let mut parts = of_rank(costs, step, (threads, slack), 1.0);
        parts.insert(0, within(CORES, slack * all / costs.cores as f64));
        Self { slack, ..Self::of(parts, all) }
    }

    /// Each rank on its own machine, like the measured one.
    pub(super) fn on_machines(
        costs: &Costs,
        step: &Step,
        threads: usize,
        network: Network,
    ) -> Self {
        let slack = slack(costs, threads);
        let ranks = step.ranks as f64;
        let of_machine = costs.of_rank(ranks, step.exchanged());
        let mut parts = of_rank(costs, step, (threads, slack), ranks);
        parts.insert(0, within(CORES, slack * of_machine / costs.cores as f64));
        parts.extend(in_network(step, network));
        Self { slack, ..Self::of(parts, ranks * of_machine) }
    }

    fn of(parts: Vec<Takes>, processor_seconds: f64) -> Self {
        let longest = |parts: &mut dyn Iterator<Item = &Takes>| {
            parts.max_by(|a, b| a.seconds.total_cmp(&b.seconds)).copied()
        };
        let beside = longest(&mut parts.iter().filter(|part| !part.in_step));
        let within = longest(&mut parts.iter().filter(|part| part.in_step));
        let step: f64 = parts.iter().filter(|part| part.in_step).map(|part| part.seconds).sum();
        let (seconds, bound) = match (beside, within) {
            (Some(beside), _) if beside.seconds >= step => (beside.seconds, beside.name),
            (_, Some(within)) => (step, within.name),
            (beside, None) => beside.map_or((0.0, ""), |part| (part.seconds, part.name)),
        };
        let bound = if bound == SENDING { BANDWIDTH } else { bound };
        Self { examples_per_second: 1.0 / seconds, bound, processor_seconds, slack: 1.0, parts }
    }
}

/// The ratio of the profile's measured time to the time that its processor time explains.
fn slack(costs: &Costs, threads: usize) -> f64 {
    let alone = Step { ranks: 1, examples: 1, tables: Vec::new(), subtrees: 1, dense: 0 };
    let all = costs.of_rank(1.0, alone.exchanged());
    let mut parts = of_rank(costs, &alone, (threads, 1.0), 1.0);
    parts.insert(0, within(CORES, all / costs.cores as f64));
    let explained = Predicted::of(parts, all);
    (costs.measured * explained.examples_per_second).max(1.0)
}

fn within(name: &'static str, seconds: f64) -> Takes {
    Takes { name, seconds, in_step: false }
}

/// Stages and computing of one rank, if `disks` disks serve all ranks.
fn of_rank(costs: &Costs, step: &Step, (threads, slack): (usize, f64), disks: f64) -> Vec<Takes> {
    let (ranks, of_threads) = (step.ranks as f64, threads as f64);
    let mut parts = Vec::new();
    let mut bookkeeping = 0.0;
    for stage in &costs.stages {
        let seconds = stage.of_rank(ranks);
        match stage.name.as_str() {
            TRAIN => bookkeeping = seconds,
            "parse" => parts.push(within(word("parse"), seconds / of_threads)),
            name => parts.push(within(word(name), seconds)),
        }
    }
    let disk = costs.stages.iter().map(|stage| stage.disk).fold(0.0, f64::max);
    parts.push(within(DISK, disk / disks));
    let threads = costs.compute_of_rank(ranks, step.exchanged()) / of_threads;
    let seconds = slack * (threads + bookkeeping);
    parts.push(Takes { name: COMPUTE, seconds, in_step: true });
    parts
}

/// The link of a rank, and the part of its traffic that steps wait for.
fn in_network(step: &Step, network: Network) -> Vec<Takes> {
    let sent = step.sent_per_example();
    let rate = network.bytes_per_second;
    let latencies = Sent::IN_STEP as f64 * network.latency_seconds / step.examples.max(1) as f64;
    let in_step = |name, seconds| Takes { name, seconds, in_step: true };
    vec![
        within(BANDWIDTH, sent.sum() / rate),
        in_step(SENDING, sent.in_step() / rate),
        in_step(LATENCY, latencies),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Profile;
    use super::super::traffic::Touched;
    use super::*;

    /// A run of 1000 examples on two cores, without evaluation.
    fn profile(change: &[(&str, serde_json::Value)]) -> Profile {
        let stage = |name: &str, busy: f64, cpu: f64| {
            let wait = 0.0;
            json!({ "name": name, "busy_seconds": busy, "wait_seconds": wait, "cpu_seconds": cpu })
        };
        let kernel = |name: &str, seconds: f64| json!({ "name": name, "seconds": seconds });
        let mut report = json!({
            "interrupted": false, "examples": 1000, "steps": 20, "eval_by_epoch": [], "config": {},
            "processor": { "cores": 2, "seconds": 20.0 }, "compute_seconds": 10.0,
            "train_seconds": 11.0,
            "stages": [
                stage("read", 1.0, 1.0), stage("parse", 2.0, 2.0), stage("batch", 1.0, 1.0),
                stage("pull", 4.0, 1.0), stage(TRAIN, 12.0, 1.0),
            ],
            "profile": [kernel("forward", 4.0), kernel("backward", 4.0), kernel("dense", 2.0)],
        });
        for (field, value) in change {
            report[*field] = value.clone();
        }
        serde_json::from_value(report).unwrap()
    }

    /// Steps of 100 examples, for which each of `ranks` asks for `keys` keys.
    fn step(ranks: usize, keys: f64) -> Step {
        let tables = vec![Touched { keys, weights: 1, counts: false, seen: false }];
        Step { ranks, examples: 100, tables, subtrees: 1, dense: 0 }
    }

    fn seconds(predicted: &Predicted, name: &str) -> f64 {
        let part = predicted.parts.iter().find(|part| part.name == name);
        part.unwrap_or_else(|| panic!("no {name} in {predicted:?}")).seconds
    }

    fn near(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 1e-6, "{found} is not {expected}");
    }

    #[test]
    fn one_rank_is_as_it_was() {
        let costs = Costs::of(&profile(&[]));
        let one = Predicted::on_one_machine(&costs, &step(1, 50.0), 1);
        near(one.processor_seconds, 20e-3);
        near(seconds(&one, CORES), 10e-3);
        // A thread's computing after a second of bookkeeping.
        near(seconds(&one, COMPUTE), 11e-3);
        near(one.examples_per_second, 1.0 / 11e-3);
        assert_eq!(one.bound, COMPUTE);
        // A run that took half as long again: cores and steps take half as long again.
        let costs = Costs::of(&profile(&[("train_seconds", json!(16.5))]));
        let one = Predicted::on_one_machine(&costs, &step(1, 50.0), 1);
        near(one.slack, 1.5);
        near(one.examples_per_second, 1.0 / 16.5e-3);
        near(seconds(&one, CORES), 15e-3);
        near(seconds(&one, "parsing"), 2e-3);
        near(seconds(&one, DISK), 3e-3);
    }

    #[test]
    fn several_ranks_repeat_some_work_and_divide_the_rest() {
        let costs = Costs::of(&profile(&[]));
        let four = Predicted::on_one_machine(&costs, &step(4, 0.0), 1);
        // From 4 ranks to 3 others, 4 messages per step.
        let woken = super::super::PerExchange::MEASURED.message * 48.0 / 100.0;
        // Reading, bookkeeping and 0.45 of the dense part's 2 s are repeated four times.
        near(four.processor_seconds, 20e-3 + 3.0 * (1.0 + 1.0 + 0.9) * 1e-3 + woken);
        near(four.examples_per_second, 2.0 / four.processor_seconds);
        assert_eq!(four.bound, CORES);
        near(seconds(&four, "reading"), 1e-3);
        near(seconds(&four, "parsing"), 0.5e-3);
        near(seconds(&four, DISK), 3e-3);
    }

    #[test]
    fn messages_cost_by_key_lane_and_step() {
        let costs = Costs::of(&profile(&[]));
        let without = Predicted::on_one_machine(&costs, &step(2, 0.0), 1).processor_seconds;
        let with = Predicted::on_one_machine(&costs, &step(2, 1e6), 1).processor_seconds;
        let per = super::super::PerExchange::MEASURED;
        // One weight in an answer, and one in a gradient.
        near(with - without, 2.0 * 1e4 * (per.key + 2.0 * per.lane));
    }

    #[test]
    fn evaluations_cost_what_training_does_without_its_own_kernels() {
        // 500 more examples without 6 s per 1000 take 14 s of processors, and 4 s of computing.
        let change = [
            ("eval_by_epoch", json!([{ "examples": 300 }, { "examples": 200 }])),
            ("processor", json!({ "cores": 2, "seconds": 20.0 + 0.5 * 14.0 })),
            ("compute_seconds", json!(12.0)),
            // 300 of them precede the last step.
            ("train_seconds", json!(1.5 * (11.0 + 0.3 * 11.0 * 0.7))),
        ];
        let costs = Costs::of(&profile(&change));
        let one = Predicted::on_one_machine(&costs, &step(1, 50.0), 1);
        near(one.processor_seconds, 20e-3);
        // Evaluations cost 14 of 20 in processors, and the same ratio is assumed for time.
        near(costs.measured, 1.5 * 11e-3);
    }

    #[test]
    fn on_machines_sending_and_latency_are_added_to_a_step() {
        let costs = Costs::of(&profile(&[]));
        let shared = step(2, 100.0);
        let sent = shared.sent_per_example();
        let network = Network { bytes_per_second: 1e6, latency_seconds: 0.01 };
        let two = Predicted::on_machines(&costs, &shared, 1, network);
        near(seconds(&two, LATENCY), 0.03 / 100.0);
        near(seconds(&two, SENDING), sent.in_step() / 1e6);
        near(seconds(&two, BANDWIDTH), sent.sum() / 1e6);
        near(seconds(&two, DISK), 1.5e-3);
        let in_step = [COMPUTE, SENDING, LATENCY].map(|name| seconds(&two, name));
        near(two.examples_per_second, 1.0 / in_step.iter().sum::<f64>());
        assert_eq!(two.bound, COMPUTE);
        let slow = |bytes_per_second, latency_seconds| {
            let network = Network { bytes_per_second, latency_seconds };
            [
                Predicted::on_machines(&costs, &shared, 1, network).bound,
                Predicted::of_network(&shared, network).bound,
            ]
        };
        assert_eq!(slow(100.0, 0.0), [BANDWIDTH; 2]);
        assert_eq!(slow(1e9, 10.0), [LATENCY; 2]);
    }

    #[test]
    fn who_waits_for_a_disk_is_bound_by_it() {
        let mut change = [("stages", json!([]))];
        change[0].1 = json!([
            { "name": "pull", "busy_seconds": 30.0, "wait_seconds": 0.0, "cpu_seconds": 1.0 },
        ]);
        let costs = Costs::of(&profile(&change));
        assert_eq!(Predicted::on_one_machine(&costs, &step(4, 1.0), 1).bound, DISK);
        let network = Network { bytes_per_second: 1e12, latency_seconds: 0.0 };
        let four = Predicted::on_machines(&costs, &step(4, 1.0), 1, network);
        near(seconds(&four, DISK), 29e-3 / 4.0);
    }
}
