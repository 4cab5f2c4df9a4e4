//! RNA compared with the blocking sum, eager SGD and AD-PSGD, with late ranks.
//!
//! ```text
//! seed ─► data, initial values, delays, probes ─► each protocol on the virtual clock ─► seconds
//!         to a loss ─► relative to bsp with the same seed ─► mean, minimum and maximum
//! ```
//!
//! - **How.** Each protocol trains the same model on the virtual clock, with real gradients and the
//!   same settings, for the same number of examples. The loss is smoothed before it is compared
//!   (`curve.rs`). Results are means over seeds, as a single seed is only accurate to a tenth.
//! - **Limit.** If each gradient helps equally regardless of waiting, the speedup to a loss is the
//!   ratio at which ranks compute more gradients: the blocking sum's step divided by the mean time
//!   of a gradient. With delays uniform in 0 to 50 ms and n ranks, that is (c + 50 n / (n + 1)) /
//!   (c + 25): 1.9 if computing takes no time, 1.3 if it takes 50 ms. [`SettingFigures::limit`] is
//!   its value for the drawn delays.
//! - **Rates.** Gradients of ranks that don't wait are late by about a step of all ranks, and help
//!   less than fresh ones if the rate is high. So rates are low, an eighth of what the blocking sum
//!   tolerates; settings with 2, 4 and 8 times the rate show the effect.
//! - **Source.** Yang's thesis, sections 5.5 and 5.6. It doesn't give its machines' computing
//!   times, so they are varied. If ranks differed only by delays, its speedups of 1.7 for ResNet50
//!   and 1.4 for VGG16 would be the limits for 6 ms and 30 ms: its models have these times or more.

mod figures;
mod options;
mod page;
mod paper;
mod response;
mod run;
mod sequences;
mod setting;
mod task;

use std::path::Path;

use stepwell_sync::Counts;

pub use self::figures::{Figures, ModelFigures, ProtocolFigures, SettingFigures, Spread};
pub use self::options::StudyOptions;
pub use self::page::{page, plots};
pub use self::paper::PaperSpeedups;
pub use self::response::Response;
use self::run::{Case, Outcome};
use self::setting::HEADLINE;
pub use self::setting::{Lateness, Setting};
use self::task::{Data, Task};
use crate::{Effort, Result};

/// Runs the study on the MNIST files in a directory; calls `say` with a description of each part.
///
/// # Errors
/// Data that can't be read, or a protocol error.
pub fn run(folder: &Path, options: &StudyOptions, say: &mut dyn FnMut(&str)) -> Result<Figures> {
    let cases = what_is_run(options.effort);
    let ranks = cases.iter().map(|case| case.setting.ranks).max().unwrap_or(1);
    let seeds = (0..options.seeds.max(1)).map(|number| options.seed.wrapping_add(number));
    let seeds: Vec<u64> = seeds.collect();
    let mut outcomes: Vec<Vec<Outcome>> = cases.iter().map(|_| Vec::new()).collect();
    for seed in &seeds {
        let data = Data::new(folder, options, ranks, *seed)?;
        for (case, outcomes) in cases.iter().zip(&mut outcomes) {
            let Setting { ranks, computing_ms, lateness } = case.setting;
            let name = case.task.model.name();
            say(&format!("seed {seed}, {name}: {ranks} ranks, {computing_ms} ms, {lateness:?}"));
            outcomes.push(case.run(&data, &options.costs, *seed)?);
        }
    }
    say("response by probes");
    let response_ms = response::run(options.effort, options.seed)?;
    let figures = |(case, outcomes): (_, &Vec<_>)| SettingFigures::new(case, outcomes);
    let settings: Vec<_> = cases.iter().zip(&outcomes).map(figures).collect();
    let all = settings.iter().flat_map(|setting| setting.protocols.values());
    let lost_gradients = Counts::sum(all.map(|protocol| protocol.counts)).lost();
    let headline = cases.iter().zip(&settings).filter(|(case, _)| case.is_headline());
    let models = headline.map(|(_, of)| ModelFigures::new(of)).collect();
    Ok(Figures {
        quick: options.effort == Effort::Quick,
        part: options.part,
        costs: options.costs,
        seeds,
        models,
        settings,
        response_ms_p50: response_ms.iter().map(|(probes, at)| (*probes, at.p50)).collect(),
        response_ms,
        paper_response_ms_p50: paper::RESPONSE.into_iter().collect(),
        paper: paper::SPEEDUPS.to_vec(),
        lost_gradients,
    })
}

/// All tasks.
const TASKS: [Task; 3] = [Task::FCNN, Task::CONV, Task::LSTM];

impl Case {
    fn is_headline(&self) -> bool {
        self.setting == HEADLINE && TASKS.contains(&self.task)
    }
}

fn what_is_run(effort: Effort) -> Vec<Case> {
    let of = |task: Task| move |setting| Case { task, setting };
    let (fcnn, conv, lstm) = (of(Task::FCNN), of(Task::CONV), of(Task::LSTM));
    let late = |lateness, computing_ms| Setting { computing_ms, lateness, ..HEADLINE };
    let mixed = |computing_ms| late(Lateness::Mixed, computing_ms);
    let mut all = TASKS.map(|task| of(task)(HEADLINE)).to_vec();
    all.push(fcnn(mixed(HEADLINE.computing_ms)));
    if effort == Effort::Quick {
        return all;
    }
    let delays = |computing_ms| late(Lateness::Delays, computing_ms);
    all.extend([1.0, 15.0, 30.0, 50.0, 150.0, 500.0].map(delays).map(fcnn));
    all.extend([1.0, 15.0, 50.0, 150.0].map(mixed).map(fcnn));
    all.extend([4, 8, 32].map(|ranks| fcnn(Setting { ranks, ..HEADLINE })));
    let others = [Lateness::None, Lateness::HeavyTail, Lateness::Straggler];
    all.extend(others.map(|lateness| fcnn(late(lateness, 50.0))));
    all.extend([50.0, 500.0].map(|ms| late(Lateness::Machines, ms)).map(fcnn));
    all.extend([2.0, 4.0, 8.0].map(|factor| of(Task::FCNN.faster(factor))(HEADLINE)));
    all.extend([conv(delays(50.0)), conv(mixed(5.0)), lstm(delays(50.0)), lstm(mixed(5.0))]);
    all.push(lstm(late(Lateness::None, 50.0)));
    all
}
