//! Makes room if both buckets of a key are full: others move to their other bucket.
//!
//! - **How.** A breadth-first search from the two buckets: each slot of a bucket leads to the other
//!   bucket of its key. It ends at the first bucket with a vacancy; the keys on the path to it move
//!   one by one, from the far end, each into the slot just vacated.
//! - **Invariants.**
//!   - SSD-I12: a shortest path visits no bucket twice, so no move undoes another.
//! - **Bounds.** The keys of [`STEPS_MAX`] buckets are followed; the steps are on the stack.
//! - **Failure.** No path within the bound: nothing has moved, and the shard must grow.
//! - **Cost.** At a load of 0.94, two of five new keys come here and search three buckets; at 0.97,
//!   three of five, seven buckets.

use super::bits::Probe;
use super::shard::{At, Shard};

/// The most buckets whose keys a search follows.
const STEPS_MAX: usize = 128;

/// A bucket on a path, and the slot that leads to it.
#[derive(Clone, Copy)]
struct Step {
    bucket: u32,
    /// Index of the step with the slot that leads here; a root's own.
    from: u16,
    slot: u16,
}

impl Shard {
    /// A vacant slot for a key, after moving others if needed; `None` if the shard must grow.
    pub(super) fn room(&mut self, probes: &[Probe; 2]) -> Option<At> {
        if let Some(at) = self.vacancy(probes) {
            return Some(at);
        }
        if self.must_grow() {
            return None;
        }
        open(self, probes.map(|probe| probe.bucket))
    }
}

/// Makes a vacancy in one of `roots`, which are both full, and returns it.
fn open(shard: &mut Shard, roots: [usize; 2]) -> Option<At> {
    let root = |bucket, step| Step { bucket, from: step, slot: 0 };
    let mut steps = [root(0, 0); STEPS_MAX];
    steps[0] = root(roots[0] as u32, 0);
    steps[1] = root(roots[1] as u32, 1);
    let mut known = if roots[0] == roots[1] { 1 } else { 2 };
    let mut next = 0;
    while next < known {
        let step = steps[next];
        let bucket = step.bucket as usize;
        let others = shard.others(bucket);
        others.iter().for_each(|other| shard.prefetch_bucket(other.bucket));
        let back = steps[usize::from(step.from)].bucket as usize;
        for (slot, other) in others.iter().enumerate() {
            let at = At { bucket, slot };
            if let Some(vacant) = shard.vacant_slot(other.bucket) {
                let vacancy = At { bucket: other.bucket, slot: vacant };
                shard.transfer(at, other.tag, vacancy);
                return Some(pull(shard, &steps, next, at));
            }
            if known < STEPS_MAX && other.bucket != back && other.bucket != bucket {
                steps[known] =
                    Step { bucket: other.bucket as u32, from: next as u16, slot: slot as u16 };
                known += 1;
            }
        }
        next += 1;
    }
    None
}

/// Moves the keys on the path to step `last`, whose slot `hole` was just vacated; returns the
/// vacancy in the root.
fn pull(shard: &mut Shard, steps: &[Step; STEPS_MAX], last: usize, hole: At) -> At {
    let (mut current, mut hole) = (last, hole);
    loop {
        let step = steps[current];
        let from = usize::from(step.from);
        if from == current {
            return hole;
        }
        let at = At { bucket: steps[from].bucket as usize, slot: usize::from(step.slot) };
        let other = shard.other(at);
        assert!(other.bucket == hole.bucket, "SSD-I12: a step of the path has changed");
        shard.transfer(at, other.tag, hole);
        (current, hole) = (from, at);
    }
}
