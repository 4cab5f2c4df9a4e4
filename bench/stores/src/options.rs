//! What people type, typed: no I/O happens here.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use serde::Serialize;

use crate::Result;
use crate::engine::Engine;
use crate::workload::KEY_BYTES;

/// Compares key-value stores, and Stepwell's row store, on one disk
#[derive(Clone, Debug, Parser, Serialize)]
#[command(name = "stores", version)]
pub(crate) struct Options {
    /// Directory on the disk to measure; every engine gets an empty directory in it
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Rows loaded into every engine
    #[arg(long, default_value_t = 10_000_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rows: u32,
    /// Bytes of a row, without its key of 8 bytes
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(8..=65536))]
    pub(crate) row_bytes: u32,
    /// Keys looked up at once
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) batch: u32,
    /// Seconds that each phase of reading lasts
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) seconds: u32,
    /// Engines to measure, in this order
    #[arg(long, value_delimiter = ',', default_value = "rocksdb,fjall")]
    pub(crate) engines: Vec<Choice>,
    /// The stepwell program; it is measured first, by its own `bench ssd`
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) stepwell: Option<PathBuf>,
    /// Measure the disk itself with fio
    #[arg(long)]
    pub(crate) fio: bool,
    /// Load and read alone
    #[arg(long)]
    pub(crate) no_update: bool,
    /// File for all figures
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// An engine by name; `rocksdb` stands for both of its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Choice {
    Rocksdb,
    RocksdbFbgemm,
    RocksdbLevel,
    Fjall,
}

impl Options {
    /// The engines chosen, each once, in the order of their first mention.
    pub(crate) fn engines(&self) -> Vec<Engine> {
        let mut engines = Vec::new();
        for choice in &self.engines {
            let meant: &[Engine] = match choice {
                Choice::Rocksdb => &[Engine::RocksdbFbgemm, Engine::RocksdbLevel],
                Choice::RocksdbFbgemm => &[Engine::RocksdbFbgemm],
                Choice::RocksdbLevel => &[Engine::RocksdbLevel],
                Choice::Fjall => &[Engine::Fjall],
            };
            for engine in meant {
                if !engines.contains(engine) {
                    engines.push(*engine);
                }
            }
        }
        engines
    }

    /// Length of a row as memory has it.
    pub(crate) fn row_bytes(&self) -> usize {
        self.row_bytes as usize
    }

    /// Bytes of `rows` rows with their keys: what amplification is measured against.
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
    fn engines_are_expanded_and_taken_once() {
        let engines = |text| parse(&["--engines", text]).unwrap().engines();
        let rocksdb = [Engine::RocksdbFbgemm, Engine::RocksdbLevel];
        assert_eq!(engines("rocksdb"), rocksdb);
        assert_eq!(engines("rocksdb,rocksdb-level"), rocksdb);
        assert_eq!(engines("fjall,rocksdb-level"), [Engine::Fjall, Engine::RocksdbLevel]);
        assert!(parse(&["--engines", "leveldb"]).is_err());
        assert_eq!(parse(&[]).unwrap().engines().len(), 3);
    }

    #[test]
    fn sizes_that_make_no_sense_are_refused() {
        for arguments in [["--rows", "0"], ["--batch", "0"], ["--row-bytes", "7"]] {
            assert!(parse(&arguments).is_err(), "{arguments:?}");
        }
    }

    #[test]
    fn figures_without_a_folder_are_refused_before_the_run() {
        assert!(parse(&["--json", "/nowhere/at/all.json"]).unwrap().check().is_err());
        assert!(parse(&["--json", "figures.json"]).unwrap().check().is_ok());
        assert!(parse(&[]).unwrap().check().is_ok());
    }
}
