//! Measures the raw disk below a store with random reads of the store's files.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use stepwell_base::random::Stream;
use stepwell_disk::{BLOCK_BYTES, Disk, File, FileDisk, QueueOptions, Wait};

use crate::measure::over;
use crate::ssd::scaled;
use crate::{Error, Result};

/// Seconds per measurement.
const SECONDS: f64 = 2.0;
/// Reads of one page.
const SMALL: Reads = Reads { bytes: BLOCK_BYTES, depth: 128 };
/// Reads of many pages.
const LARGE: Reads = Reads { bytes: 256 << 10, depth: 32 };
/// Fewest blocks of a file to read from.
const BLOCKS_MIN: u64 = 256;

/// Bytes of each read, and number of reads in flight.
#[derive(Clone, Copy, Debug)]
struct Reads {
    bytes: usize,
    depth: usize,
}

/// Rates of the disk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Raw {
    /// Random reads of a page each per second.
    pub(super) iops: f64,
    /// Bytes per second of random reads of [`LARGE`] bytes.
    pub(super) bytes_per_second: f64,
}

impl Raw {
    /// Measures the disk on the segments in `directory`.
    pub(super) fn measure(directory: &Path, seed: u64) -> Result<Self> {
        let disk = FileDisk::open(directory)?;
        let mut files = Vec::new();
        for name in disk.list()? {
            let file = disk.open_direct(&name)?;
            let blocks = file.len()? / BLOCK_BYTES as u64;
            if blocks > BLOCKS_MIN {
                files.push((file, blocks));
            }
        }
        if files.is_empty() {
            return Err(Error::Arguments("--rows: too few to read pages; give more".to_owned()));
        }
        let mut dice = Stream::from_state(seed);
        let iops = reads_per_second(&disk, &files, SMALL, &mut dice)?;
        let large = reads_per_second(&disk, &files, LARGE, &mut dice)?;
        Ok(Self { iops, bytes_per_second: large * LARGE.bytes as f64 })
    }

    /// The mean of two measurements.
    pub(super) fn mean(self, other: Self) -> Self {
        let mean = |a: f64, b: f64| 0.5 * (a + b);
        Self {
            iops: mean(self.iops, other.iops),
            bytes_per_second: mean(self.bytes_per_second, other.bytes_per_second),
        }
    }

    /// Seconds for a number of reads with this many bytes in total; either may be the limit.
    pub(super) fn seconds(&self, reads: f64, bytes: f64) -> f64 {
        over(reads, self.iops).max(over(bytes, self.bytes_per_second))
    }
}

/// Random reads per second.
fn reads_per_second(
    disk: &FileDisk,
    files: &[(Arc<dyn File>, u64)],
    Reads { bytes, depth }: Reads,
    dice: &mut Stream,
) -> Result<f64> {
    let mut queue = disk.queue(QueueOptions { depth, read_bytes: depth * bytes })?;
    let (mut done, mut outcome) = (0usize, Ok(()));
    let begin = Instant::now();
    while begin.elapsed().as_secs_f64() < SECONDS {
        loop {
            let (file, blocks) = &files[scaled(dice.next_u64(), files.len() as u64) as usize];
            let places = blocks + 1 - (bytes / BLOCK_BYTES) as u64;
            let offset = scaled(dice.next_u64(), places) * BLOCK_BYTES as u64;
            if !queue.read(0, file, offset, bytes)? {
                break;
            }
        }
        done += queue.complete(Wait::ForOne, &mut |read| outcome = read.outcome.map(drop))?;
        std::mem::replace(&mut outcome, Ok(()))?;
    }
    let rate = done as f64 / begin.elapsed().as_secs_f64();
    while queue.in_flight() > 0 {
        queue.complete(Wait::ForOne, &mut |_| {})?;
    }
    Ok(rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_reads_bounds_it_or_their_bytes() {
        let raw = Raw { iops: 1000.0, bytes_per_second: 1e7 };
        assert!((raw.seconds(500.0, 500.0 * 4096.0) - 0.5).abs() < 1e-9);
        assert!((raw.seconds(500.0, 2e7) - 2.0).abs() < 1e-9);
        let mean = raw.mean(Raw { iops: 3000.0, bytes_per_second: 3e7 });
        assert!((mean.seconds(2000.0, 0.0) - 1.0).abs() < 1e-9);
    }
}
