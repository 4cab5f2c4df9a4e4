//! What people type, typed: no I/O happens here.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use serde::Serialize;

use crate::Result;
use crate::engine::Engine;
use crate::workload::SHARDS;

/// Compares look-ups of rows in memory: Stepwell's and those of caches for general use
#[derive(Clone, Debug, Parser, Serialize)]
#[command(name = "caches", version)]
pub(crate) struct Options {
    /// Keys that are asked for
    #[arg(long, default_value_t = 80_000_000, value_name = "N")]
    pub(crate) keys: u64,
    /// Rows of 256 bytes that there is room for
    #[arg(long, default_value_t = 1 << 24, value_name = "N")]
    pub(crate) rows: u64,
    /// Exponent of the keys' frequencies
    #[arg(long, default_value_t = 1.05, value_name = "X")]
    pub(crate) skew: f64,
    /// Keys of a look-up of ours, before repetitions are left out
    #[arg(long, default_value_t = 16_384, value_name = "N")]
    pub(crate) batch: u64,
    /// Keys drawn in all
    #[arg(long, default_value_t = 16_000_000, value_name = "N")]
    pub(crate) lookups: u64,
    /// Rounds, of which the median counts
    #[arg(long, default_value_t = 5, value_name = "N")]
    pub(crate) rounds: usize,
    /// Engines to measure beside ours, in this order
    #[arg(long, value_delimiter = ',', default_value = "best", value_name = "NAMES")]
    pub(crate) engines: Vec<Choice>,
    /// Pages of the memory that is not a slab, ours and theirs; slabs always ask for huge ones
    #[arg(long, value_enum, default_value_t = Pages::Huge)]
    pub(crate) pages: Pages,
    /// Write all figures to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// What is asked of the system for memory that the allocator hands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Pages {
    /// Huge pages.
    Huge,
    /// What the system does by itself.
    Plain,
}

/// An engine by name, or several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Choice {
    /// Each cache as it was fastest
    Best,
    /// Every cache in every way
    All,
    /// Rows behind an `Arc`
    QuickCacheArc,
    /// Rows in the cache, copied out by each look-up
    QuickCacheInline,
    /// S3-FIFO
    FoyerS3Fifo,
    /// SIEVE
    FoyerSieve,
    /// Rows behind an `Arc`
    MokaArc,
    /// Rows in the cache, copied out by each look-up
    MokaInline,
    /// Rows behind an `Arc`, LRU instead of TinyLFU
    MokaLru,
}

impl Options {
    /// The engines chosen, each once, in the order of their first mention.
    pub(crate) fn engines(&self) -> Vec<Engine> {
        let mut engines = Vec::new();
        for choice in &self.engines {
            let meant: &[Engine] = match choice {
                Choice::Best => &Engine::BEST,
                Choice::All => &Engine::ALL,
                Choice::QuickCacheArc => &[Engine::QuickCacheArc],
                Choice::QuickCacheInline => &[Engine::QuickCacheInline],
                Choice::FoyerS3Fifo => &[Engine::FoyerS3Fifo],
                Choice::FoyerSieve => &[Engine::FoyerSieve],
                Choice::MokaArc => &[Engine::MokaArc],
                Choice::MokaInline => &[Engine::MokaInline],
                Choice::MokaLru => &[Engine::MokaLru],
            };
            for engine in meant {
                if !engines.contains(engine) {
                    engines.push(*engine);
                }
            }
        }
        engines
    }

    /// Refuses what cannot be, and a place for figures that could not be written after a long run.
    pub(crate) fn check(&self) -> Result<()> {
        /// Look-ups at most: their keys are drawn before the clock starts.
        const LOOKUPS_MAX: u64 = 1 << 30;
        let Self { keys, rows, skew, batch, lookups, rounds, .. } = *self;
        let room = SHARDS * 512..=u64::from(u32::MAX) / 2;
        if !room.contains(&rows) || !rows.is_multiple_of(SHARDS) {
            return Err(format!("--rows {rows}: give an even number, 1024 to 2^31 - 1"));
        }
        if !(rows..=1 << 36).contains(&keys) {
            return Err(format!("--keys {keys}: give at least as many as rows, and at most 2^36"));
        }
        if !(0.01..=10.0).contains(&skew) {
            return Err(format!("--skew {skew}: give 0.01 to 10"));
        }
        if batch == 0 || lookups / SHARDS < batch || lookups > LOOKUPS_MAX {
            return Err(format!(
                "--lookups {lookups} --batch {batch}: give at least two batches, of one key or \
                 more, and at most 2^30 look-ups"
            ));
        }
        if !(1..=1000).contains(&rounds) {
            return Err(format!("--rounds {rounds}: give 1 to 1000"));
        }
        let Some(path) = &self.json else { return Ok(()) };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        match folder {
            Some(folder) if !folder.is_dir() => {
                Err(format!("--json {}: make its folder first", path.display()))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> std::result::Result<Options, clap::Error> {
        Options::try_parse_from([&["caches"], arguments].concat())
    }

    #[test]
    fn engines_are_expanded_and_taken_once() {
        let engines = |text| parse(&["--engines", text]).unwrap().engines();
        assert_eq!(engines("all"), Engine::ALL);
        assert_eq!(engines("best,best"), Engine::BEST);
        let sieve_first = engines("foyer-sieve,all");
        assert_eq!(sieve_first[0], Engine::FoyerSieve);
        assert_eq!(sieve_first.len(), Engine::ALL.len());
        assert_eq!(parse(&[]).unwrap().engines(), Engine::BEST);
        assert!(parse(&["--engines", "memcached"]).is_err());
    }

    #[test]
    fn the_array_has_four_gibibytes_unless_told_otherwise() {
        let options = parse(&[]).unwrap();
        assert!(options.check().is_ok());
        assert_eq!(options.rows * size_of::<crate::workload::Row>() as u64, 4 << 30);
    }

    #[test]
    fn sizes_that_make_no_sense_are_refused_by_name() {
        let wrong = [
            ("--rows", "3001"),
            ("--rows", "0"),
            ("--keys", "1000"),
            ("--skew", "0"),
            ("--skew", "NaN"),
            ("--batch", "0"),
            ("--batch", "9000000"),
            ("--lookups", "2000000000"),
            ("--rounds", "0"),
            ("--json", "/nowhere/at/all.json"),
        ];
        for (name, value) in wrong {
            let refusal = parse(&[name, value]).unwrap().check().unwrap_err();
            assert!(refusal.contains(name), "{refusal}");
        }
        assert!(parse(&["--json", "figures.json"]).unwrap().check().is_ok());
    }
}
