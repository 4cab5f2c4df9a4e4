//! Protocols that learn the number of gradients while running, end, and begin again, in orders
//! drawn from seeds: every gradient is used once or dropped, none is left, and all ranks find the
//! end.

use stepwell_base::random::Stream;
use stepwell_fabric::{Fabric, Post};
use stepwell_sync::{Counts, Descent, Kind, OpenEnded, Protocol};

use crate::ledger::{Job, PER_RANK};
use crate::schedule::{self, Outcome, Style};

/// Number of segments of a run.
const SEGMENTS: usize = 3;
/// Events after which a segment that has not ended never will.
const EVENTS_MAX: usize = 400_000;

struct Rank {
    fabric: Fabric,
    protocol: Box<dyn OpenEnded<f64>>,
    computing: Option<u64>,
    begun: u64,
    /// Whether the rank was given the number of gradients of this segment.
    told: bool,
    given: u64,
}

/// Number of schedules, over all protocols.
fn schedules() -> u64 {
    if std::env::var_os("STEPWELL_LONG").is_some() { 6_000 } else { 600 }
}

#[test]
fn every_segment_uses_all_its_gradients_and_ends_on_all_ranks() {
    let each = schedules() / Kind::ALL.len() as u64;
    for kind in Kind::ALL {
        let mut all = Vec::new();
        for seed in 0..each {
            let job = Job::drawn(kind, seed);
            let counts = check(&job, seed).unwrap_or_else(|why| panic!("{seed}: {why}: {job:?}"));
            all.push(counts);
        }
        println!("{kind}: {each} runs of {SEGMENTS} segments, {:?}", Counts::sum(all));
    }
}

fn check(job: &Job, seed: u64) -> Result<Counts, String> {
    let mut stream = Stream::named(seed, b"segments");
    let (post, ends) = Post::new(job.ranks);
    let mut model = vec![0.0; job.ranks * PER_RANK];
    let begin = |fabric: Fabric| {
        let optimizer = Box::new(Descent::new(job.options.rate.clone(), 0.0, 0.0, model.len()));
        let protocol =
            job.kind.begin_open(&fabric, model.clone(), optimizer, &job.options).unwrap();
        Rank { fabric, protocol, computing: None, begun: 0, told: false, given: 0 }
    };
    let mut all: Vec<Rank> = ends.into_iter().map(begin).collect();
    let mut last = 0;
    for segment in 0..SEGMENTS {
        last += stream.next_u64() % 30;
        let style = Style::drawn(&mut stream);
        // Some learn of the end only when all have given all.
        let (late, ahead_max) = (stream.next_u64().is_multiple_of(2), 1 + stream.next_u64() % 12);
        let is_over = |all: &[Rank]| all.iter().all(|rank| rank.protocol.ended());
        let mut events = 0;
        while !is_over(&all) {
            events += 1;
            if events > EVENTS_MAX {
                return Err(format!("segment {segment} of {last} does not end"));
            }
            if stream.next_u64().is_multiple_of(style.deliver) {
                post.deliver(|ways| (stream.next_u64() % ways as u64) as usize);
                continue;
            }
            let number = (stream.next_u64() % all.len() as u64) as usize;
            let ends = !(number as u64).is_multiple_of(style.slow)
                || stream.next_u64().is_multiple_of(style.rarely);
            let scale = job.kind.workers(job.ranks) as f64;
            let workers = all.iter().filter(|rank| computes(job, rank));
            let least = workers.map(|rank| rank.given).min().unwrap_or(0);
            // No rank goes further ahead of the slowest than that.
            let at_hand = last.min(least + ahead_max);
            let knows = !late || least == last;
            let bounds = Bounds { last, at_hand, knows, scale };
            turn(&mut all[number], &bounds, &mut stream, ends)?;
        }
        model = outcome(job.kind, &all).model;
        for rank in &mut all {
            rank.protocol.resume(&model);
            rank.told = false;
        }
    }
    let outcome = outcome(job.kind, &all);
    job.judge(&outcome)?;
    let counts = outcome.counts;
    let workers = job.kind.workers(job.ranks) as u64;
    if counts.given != workers * last || counts.left > 0 && !job.kind.has_server() {
        return Err(format!("{workers} ranks give {last} each: {counts:?}"));
    }
    Ok(counts)
}

/// Limits of a rank.
struct Bounds {
    /// Number of gradients of the segments up to this one.
    last: u64,
    /// Number of gradients that it may begin now.
    at_hand: u64,
    /// Whether it may learn of the end.
    knows: bool,
    scale: f64,
}

fn computes(job: &Job, rank: &Rank) -> bool {
    rank.fabric.rank() >= job.ranks - job.kind.workers(job.ranks)
}

/// A rank is polled, learns the end, begins a gradient, or ends one.
fn turn(rank: &mut Rank, bounds: &Bounds, stream: &mut Stream, ends: bool) -> Result<(), String> {
    if rank.protocol.ended() {
        return Ok(());
    }
    let Bounds { last, at_hand, knows, scale } = *bounds;
    match stream.next_u64() % 4 {
        0 => drop(rank.protocol.poll(&rank.fabric).map_err(|error| error.to_string())?),
        1 if knows && !rank.told && (rank.begun == last || stream.next_u64().is_multiple_of(8)) => {
            rank.protocol.end_after(last);
            rank.told = true;
        }
        2 if rank.computing.is_none() && rank.begun < at_hand => {
            rank.computing = rank.protocol.begin();
            rank.begun += u64::from(rank.computing.is_some());
        }
        3 if ends => {
            if let Some(step) = rank.computing.take() {
                let mut gradient = vec![0.0; rank.protocol.model().len()];
                gradient[rank.fabric.rank() * PER_RANK + step as usize] = scale;
                rank.protocol.give(&mut gradient);
                rank.given += 1;
            }
        }
        _ => {}
    }
    Ok(())
}

fn outcome(kind: Kind, all: &[Rank]) -> Outcome {
    let ends: Vec<&dyn Protocol<f64>> = all.iter().map(|rank| &*rank.protocol as _).collect();
    schedule::outcome(kind, &ends)
}
