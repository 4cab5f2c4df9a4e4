use clap::Parser;

use super::*;
use crate::options::Options;
use crate::workload::{SHARDS, present};

fn small() -> Options {
    Options::parse_from([
        "caches",
        "--rows",
        "4000",
        "--keys",
        "20000",
        "--lookups",
        "8000",
        "--batch",
        "500",
    ])
}

#[test]
fn the_middle_value_is_taken() {
    assert_eq!(median(vec![3.0]), 3.0);
    assert_eq!(median(vec![9.0, 1.0, 5.0]), 5.0);
    assert_eq!(median(vec![1.0, 2.0]), 2.0);
}

#[test]
fn threads_read_what_one_thread_reads() {
    let tasks = || -> Vec<Task<'static>> {
        (1..=5).map(|rows| Box::new(move || Read { rows, sum: 7 }) as Task<'static>).collect()
    };
    let (seconds, read) = timed(1, tasks());
    assert!(seconds >= 0.0);
    assert_eq!(read, Read { rows: 15, sum: 35 });
    assert_eq!(timed(2, tasks()).1, read);
}

#[test]
fn ours_the_limit_and_roomy_peers_read_the_same_rows() {
    let options = small();
    let mut shards = Shard::all(&options).unwrap();
    let sequences = Sequence::all(&options, &shards);
    let [stepwell, counted] = ours(&mut shards, &sequences, 2).unwrap();
    assert_eq!(stepwell.found, counted.found);
    for engine in Engine::ALL {
        let cache = engine.empty(2 * options.rows as usize);
        (0..SHARDS).for_each(|shard| cache.fill(&present(&options, shard)));
        let measured = peer(engine, &*cache, &mut shards, &sequences, 1).unwrap();
        assert_eq!(measured.found, stepwell.found, "{engine:?}");
        assert!(measured.rates.iter().chain(&measured.limit).all(|rate| *rate > 0.0));
    }
}

#[test]
fn other_rows_than_those_of_the_limit_are_refused() {
    let options = small();
    let mut shards = Shard::all(&options).unwrap();
    let sequences = Sequence::all(&options, &shards);
    let wrong = |shards: &mut [Shard], threads| {
        let (seconds, read) = timed(threads, bare(shards, &sequences));
        (seconds, Read { sum: read.sum.wrapping_add(1), ..read })
    };
    let [limit, _, third] = in_turns(&mut shards, &sequences, 1, wrong).unwrap().read;
    let refusal = same("third", third, limit).unwrap_err();
    assert!(refusal.starts_with("third read"), "{refusal}");
}

#[test]
fn ratios_are_taken_round_by_round() {
    let rounds = vec![[8.0, 6.0, 2.0], [4.0, 4.0, 2.0], [9.0, 6.0, 3.0]];
    let turns = Turns { rates: [rounds.clone(), rounds], read: [Read::default(); 3] };
    let measured = turns.measured("cache", 2, Read { rows: 30, sum: 1 });
    assert_eq!((measured.rates, measured.limit), ([2.0; 2], [8.0; 2]));
    assert_eq!((measured.over_limit, measured.stepwell_over), ([1.0 / 3.0; 2], [2.0; 2]));
    let figures = measured.figures(Some(Memory { bytes: 3000, huge_bytes: 1500 }), 10, 60);
    assert_eq!((figures.hit_share, figures.bytes_per_row), (0.5, Some(300.0)));
    assert_eq!(figures.huge_share, Some(0.5));
    let of_ours = turns.measured("ours", 1, Read::default());
    assert_eq!((of_ours.over_limit, of_ours.stepwell_over), ([0.75; 2], [1.0; 2]));
}
