use std::collections::{BTreeMap, HashMap, VecDeque};

use stepwell_base::random::Stream;

use super::trace::Trace;
use super::*;

/// A trace with a hot set and a long tail.
fn trace(seed: u64, accesses: usize, keys: u64) -> Trace {
    let mut random = Stream::from_state(seed);
    let mut key = || {
        let part = random.next_f64();
        (part * part * part * keys as f64) as u64 * 7919
    };
    Trace { keys: (0..accesses).map(|_| key()).collect(), positive: Vec::new() }
}

fn options(horizon: usize, reads: Option<ReadOptions>) -> Options {
    let (policies, sizes) = (Vec::new(), Vec::new());
    Options { format: None, policies, sizes, mini_batch: 1, horizon, reads }
}

fn hits(sequence: &Sequence, slots: usize, kind: Candidate, horizon: usize) -> usize {
    Contender::Policy(kind).run(sequence, slots, &options(horizon, None)).unwrap().hits
}

#[test]
fn lru_agrees_with_a_plain_model() {
    for (seed, slots) in [(1, 1), (2, 7), (3, 50), (4, 1000)] {
        let trace = trace(seed, 5000, 300);
        let mut recent: VecDeque<u64> = VecDeque::new();
        let mut hits = 0;
        for key in &trace.keys {
            match recent.iter().position(|recent| recent == key) {
                Some(at) => {
                    recent.remove(at);
                    hits += 1;
                }
                None if recent.len() == slots => drop(recent.pop_front()),
                None => {}
            }
            recent.push_back(*key);
        }
        let sequence = Sequence::new(&trace, 1);
        assert_eq!(slab::hits(&sequence, slots, Candidate::Lru), hits);
    }
}

/// The most hits, by an exhaustive search with memoization.
fn best(keys: &[u64], at: usize, held: &[u64], slots: usize, bypass: bool) -> usize {
    fn go(
        keys: &[u64],
        at: usize,
        held: Vec<u64>,
        slots: usize,
        bypass: bool,
        known: &mut HashMap<(usize, Vec<u64>), usize>,
    ) -> usize {
        let Some(key) = keys.get(at) else { return 0 };
        if let Some(hits) = known.get(&(at, held.clone())) {
            return *hits;
        }
        let mut with = |held: Vec<u64>| go(keys, at + 1, held, slots, bypass, known);
        let hits = if held.contains(key) {
            1 + with(held.clone())
        } else {
            let mut choices = Vec::new();
            let added = |mut held: Vec<u64>| {
                held.push(*key);
                held.sort_unstable();
                held
            };
            if held.len() < slots {
                choices.push(added(held.clone()));
            } else {
                for out in 0..held.len() {
                    let mut rest = held.clone();
                    rest.remove(out);
                    choices.push(added(rest));
                }
            }
            if bypass {
                choices.push(held.clone());
            }
            choices.into_iter().map(&mut with).max().unwrap_or(0)
        };
        known.insert((at, held), hits);
        hits
    }
    go(keys, at, held.to_vec(), slots, bypass, &mut HashMap::new())
}

#[test]
fn the_optimum_is_what_trying_everything_finds() {
    for seed in 0..40 {
        let trace = trace(seed, 25, 9);
        let sequence = Sequence::new(&trace, 1);
        for slots in 1..5 {
            for bypass in [false, true] {
                let found = optimum::hits(&sequence, slots, bypass);
                assert_eq!(found, best(&trace.keys, 0, &[], slots, bypass), "seed {seed}");
            }
        }
    }
}

#[test]
fn the_optimum_is_above_every_policy_and_the_whole_fits_the_whole() {
    for (seed, mini_batch, horizon) in [(1, 1, 0), (2, 1, 5), (3, 20, 0), (4, 20, 3)] {
        let trace = trace(seed, 4000, 400);
        let sequence = Sequence::new(&trace, mini_batch);
        for slots in [25, 60, 200] {
            let optimum = optimum::hits(&sequence, slots, false);
            for kind in Candidate::ALL {
                let hits = hits(&sequence, slots, kind, horizon);
                assert!(hits <= optimum, "{kind} in {slots} slots: {hits} over {optimum}");
            }
        }
        let every = sequence.look_ups() - sequence.keys();
        for kind in Candidate::ALL {
            assert_eq!(hits(&sequence, sequence.keys(), kind, horizon), every);
        }
        assert_eq!(optimum::hits(&sequence, sequence.keys(), false), every);
    }
}

#[test]
fn the_cache_without_a_horizon_is_the_bare_policy() {
    for (seed, mini_batch) in [(1, 1), (2, 13)] {
        let sequence = Sequence::new(&trace(seed, 6000, 500), mini_batch);
        for kind in Candidate::ALL {
            for slots in [20, 100] {
                let bare = slab::hits(&sequence, slots, kind);
                let known = known::run(&sequence, slots, kind, 0, None).unwrap();
                assert_eq!(known.hits, bare, "{kind}");
            }
        }
    }
}

#[test]
fn a_horizon_over_everything_makes_every_policy_optimal() {
    let sequence = Sequence::new(&trace(5, 3000, 300), 1);
    for kind in Candidate::ALL {
        assert_eq!(hits(&sequence, 40, kind, 3000), optimum::hits(&sequence, 40, false));
    }
}

#[test]
fn mini_batches_count_a_key_once_and_how_often_it_occurred() {
    let trace = Trace {
        keys: vec![5, 6, 5, 5, 7, 7],
        positive: vec![true, false, true, false, false, true],
    };
    let sequence = Sequence::new(&trace, 4);
    let batch = sequence.batch(0);
    assert_eq!((batch.ids, sequence.look_ups()), (&[0u32, 1][..], 3));
    assert_eq!((batch.occurrences[0].examples, batch.occurrences[0].positives), (3, 2));
    assert_eq!(sequence.batch(1).occurrences[0].positives, 1);
    assert_eq!(sequence.keys_of_a_batch_max(), 2);
}

#[test]
fn next_uses_are_all_different() {
    let sequence = Sequence::new(&trace(9, 500, 60), 7);
    let next = sequence.next_uses();
    let counts = next.iter().fold(BTreeMap::new(), |mut counts: BTreeMap<u32, u32>, next| {
        *counts.entry(*next).or_default() += 1;
        counts
    });
    assert!(counts.values().all(|count| *count == 1));
}
