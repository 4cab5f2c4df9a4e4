//! A scheduler that owns the order in which parcels arrive, ranks are polled, and learners end.

use std::sync::Arc;

use stepwell_base::random::Stream;
use stepwell_fabric::{Fabric, Post};
use stepwell_sync::{Counts, Kind, Learner, Options, Protocol};

/// Events after which a run that has not ended never will.
const EVENTS_MAX: usize = 2_000_000;

/// One rank of a simulated run.
struct Rank<'a> {
    fabric: Fabric,
    protocol: Box<dyn Protocol<f64>>,
    learner: Box<dyn Learner<f64> + 'a>,
    /// The gradient being computed, if any.
    computing: Option<Vec<f64>>,
}

/// Result of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The mean over the ranks whose parameters are the model.
    pub model: Vec<f64>,
    pub counts: Counts,
}

/// Differences between learners in a run: one in `slow` ends as rarely as one in `rarely`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    pub slow: u64,
    pub rarely: u64,
    /// One event in `deliver` delivers; the others poll, begin and end.
    pub deliver: u64,
}

impl Style {
    pub(crate) fn drawn(stream: &mut Stream) -> Self {
        let mut draw = |from: u64, to: u64| from + stream.next_u64() % (to - from);
        Self { slow: draw(1, 5), rarely: draw(1, 40), deliver: draw(2, 9) }
    }
}

/// Runs `kind` on `ranks` ranks from these parameters in an order drawn from `seed`.
///
/// # Errors
/// A deadlock, or an error of the fabric.
pub(crate) fn run<'a>(
    (kind, ranks, options): (Kind, usize, &Options),
    parameters: &[f64],
    learner: impl FnMut(usize) -> Box<dyn Learner<f64> + 'a>,
    seed: u64,
) -> Result<Outcome, String> {
    let begin = |fabric: &Fabric| kind.begin(fabric, parameters.to_vec(), options).unwrap();
    run_ends((kind, ranks), begin, learner, seed)
}

/// Runs these ends in an order drawn from `seed`.
pub(crate) fn run_ends<'a>(
    (kind, ranks): (Kind, usize),
    mut end: impl FnMut(&Fabric) -> Box<dyn Protocol<f64>>,
    mut learner: impl FnMut(usize) -> Box<dyn Learner<f64> + 'a>,
    seed: u64,
) -> Result<Outcome, String> {
    let mut stream = Stream::named(seed, b"schedule");
    let style = Style::drawn(&mut stream);
    let (post, ends) = Post::new(ranks);
    let begin = |fabric: Fabric| {
        let protocol = end(&fabric);
        let learner = learner(fabric.rank());
        Rank { fabric, protocol, learner, computing: None }
    };
    let mut all: Vec<Rank<'_>> = ends.into_iter().map(begin).collect();
    for _ in 0..EVENTS_MAX {
        if all.iter().all(|rank| rank.protocol.ended()) {
            let ends: Vec<_> = all.iter().map(|rank| &*rank.protocol).collect();
            return Ok(outcome(kind, &ends));
        }
        if stream.next_u64().is_multiple_of(style.deliver) {
            post.deliver(|ways| (stream.next_u64() % ways as u64) as usize);
            continue;
        }
        let number = (stream.next_u64() % ranks as u64) as usize;
        let ends = !(number as u64).is_multiple_of(style.slow)
            || stream.next_u64().is_multiple_of(style.rarely);
        turn(&mut all[number], &mut stream, ends)?;
        if stream.next_u64().is_multiple_of(4096) && is_dead(&mut all, &post)? {
            return Err("deadlock: no rank computes, nothing is in flight".to_owned());
        }
    }
    Err(format!("no end after {EVENTS_MAX} events"))
}

/// A rank is polled, begins a gradient, or ends one.
fn turn(rank: &mut Rank<'_>, stream: &mut Stream, ends: bool) -> Result<(), String> {
    if rank.protocol.ended() {
        return Ok(());
    }
    match stream.next_u64() % 3 {
        0 => drop(rank.protocol.poll(&rank.fabric).map_err(|error| error.to_string())?),
        1 => drop(begins(rank)),
        _ if ends => {
            if let Some(mut gradient) = rank.computing.take() {
                rank.protocol.give(&mut gradient);
            }
        }
        _ => {}
    }
    Ok(())
}

/// Begins the next gradient, if it may.
fn begins(rank: &mut Rank<'_>) -> bool {
    if rank.computing.is_some() || rank.protocol.ended() {
        return false;
    }
    let Some(step) = rank.protocol.begin() else { return false };
    let parameters = rank.protocol.parameters();
    let mut gradient = vec![f64::NAN; parameters.len()];
    rank.learner.gradient(step, parameters, &mut gradient);
    rank.computing = Some(gradient);
    true
}

/// Whether nothing can happen any more, after every rank has advanced as far as it can without a
/// learner that ends.
fn is_dead(all: &mut [Rank<'_>], post: &Arc<Post>) -> Result<bool, String> {
    let quiet = post.under_way() == 0 && all.iter().all(|rank| rank.computing.is_none());
    if !quiet {
        return Ok(false);
    }
    for rank in &mut *all {
        if rank.protocol.ended() {
            continue;
        }
        let work = rank.protocol.poll(&rank.fabric).map_err(|error| error.to_string())?;
        if work.progressed || begins(rank) {
            return Ok(false);
        }
    }
    Ok(post.under_way() == 0 && !all.iter().all(|rank| rank.protocol.ended()))
}

/// The result of a run with these ends, which have ended.
pub(crate) fn outcome(kind: Kind, ends: &[&dyn Protocol<f64>]) -> Outcome {
    let of = kind.model_of(ends.len());
    let mut model = vec![0.0; ends[0].model().len()];
    for end in &ends[of.clone()] {
        let lanes = model.iter_mut().zip(end.model());
        lanes.for_each(|(sum, value)| *sum += value / of.len() as f64);
    }
    Outcome { model, counts: Counts::sum(ends.iter().map(|end| end.counts())) }
}
