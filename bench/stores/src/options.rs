//! What people type, typed: no I/O happens here.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use serde::Serialize;

use crate::Result;
use crate::engine::{Engine, Setup};
use crate::workload::KEY_BYTES;

/// Compares Stepwell's row store and other key-value stores on one disk
#[derive(Clone, Debug, Parser, Serialize)]
#[command(name = "stores", version)]
pub(crate) struct Options {
    /// Directory on the disk to measure; every engine gets an empty directory in it
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Rows loaded into every engine
    #[arg(long, default_value_t = 17_000_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rows: u32,
    /// Bytes of a row, without its key of 8 bytes
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(8..=65536))]
    pub(crate) row_bytes: u32,
    /// Memory of every engine in MiB, for all that it caches, buffers and indexes
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u32).range(64..=65536))]
    pub(crate) memory_mib: u32,
    /// Rows written between two moments at which all of them must be durable
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) commit_rows: u32,
    /// Keys looked up at once
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) batch: u32,
    /// Seconds that each way of reading is measured
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) seconds: u32,
    /// Seconds of the same reads before that, which do not count
    #[arg(long, default_value_t = 2)]
    pub(crate) warm_up: u32,
    /// Engines to measure, in this order; all of them unless given
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub(crate) engines: Vec<Engine>,
    /// Measure the disk itself with fio, before the engines and after them
    #[arg(long)]
    pub(crate) fio: bool,
    /// Load and read alone
    #[arg(long)]
    pub(crate) no_update: bool,
    /// File for all figures
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Measure this engine in this process, and print its figures as JSON
    #[arg(long, hide = true, value_name = "ENGINE")]
    pub(crate) alone: Option<Engine>,
}

impl Options {
    /// The engines chosen, each once, in the order of their first mention.
    pub(crate) fn engines(&self) -> Vec<Engine> {
        let mut engines = Vec::new();
        let chosen = if self.engines.is_empty() { Engine::value_variants() } else { &self.engines };
        for engine in chosen {
            if !engines.contains(engine) {
                engines.push(*engine);
            }
        }
        engines
    }

    /// Length of a row as memory has it.
    pub(crate) fn row_bytes(&self) -> usize {
        self.row_bytes as usize
    }

    /// What an engine is told when it is opened.
    pub(crate) fn setup(&self) -> Setup {
        Setup {
            rows: u64::from(self.rows),
            row_bytes: self.row_bytes(),
            memory_bytes: (self.memory_mib as usize) << 20,
        }
    }

    /// Bytes of `rows` rows with their keys: what every engine's amplification is measured against.
    pub(crate) fn payload_bytes(&self, rows: u64) -> u64 {
        rows * (u64::from(self.row_bytes) + KEY_BYTES as u64)
    }

    /// Refuses a place for figures that could not be written after a long run.
    pub(crate) fn check(&self) -> Result<()> {
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
        Options::try_parse_from([&["stores", "--dir", "d"], arguments].concat())
    }

    #[test]
    fn engines_are_taken_once_and_all_unless_chosen() {
        let engines = |text| parse(&["--engines", text]).unwrap().engines();
        assert_eq!(engines("fjall,rocksdb-level,fjall"), [Engine::Fjall, Engine::RocksdbLevel]);
        assert!(parse(&["--engines", "leveldb"]).is_err());
        assert_eq!(parse(&[]).unwrap().engines(), Engine::value_variants());
    }

    #[test]
    fn sizes_that_make_no_sense_are_refused() {
        for arguments in [
            ["--rows", "0"],
            ["--batch", "0"],
            ["--row-bytes", "7"],
            ["--memory-mib", "1"],
            ["--commit-rows", "0"],
        ] {
            assert!(parse(&arguments).is_err(), "{arguments:?}");
        }
    }

    #[test]
    fn all_divide_by_payload_and_key() {
        assert_eq!(parse(&["--row-bytes", "256"]).unwrap().payload_bytes(10), 2640);
    }

    #[test]
    fn figures_without_a_folder_are_refused_before_the_run() {
        assert!(parse(&["--json", "/nowhere/at/all.json"]).unwrap().check().is_err());
        assert!(parse(&["--json", "figures.json"]).unwrap().check().is_ok());
        assert!(parse(&[]).unwrap().check().is_ok());
    }
}
