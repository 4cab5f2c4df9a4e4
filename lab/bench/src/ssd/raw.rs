//! Measures the raw disk: one file, the same queues, nothing in between.

use std::sync::Arc;
use std::time::Instant;

use stepwell_base::random::Stream;
use stepwell_disk::{BLOCK_BYTES, Buffer, Disk, Queue, QueueOptions, Wait};

use super::bench::Bench;
use super::rows::scaled;
use crate::Result;
use crate::measure::Stopwatch;

/// Name of the raw file.
pub(super) const NAME: &str = "raw";
/// Bytes per write.
const CHUNK_BYTES: u64 = 1 << 20;
/// Writes in flight.
const WRITES: usize = 8;

impl Bench<'_> {
    /// Bytes of the raw file, about as many as the rows take in the store.
    fn raw_bytes(&self) -> u64 {
        let bytes = self.options.rows * (self.options.row_bytes as u64 + 25);
        bytes.next_multiple_of(CHUNK_BYTES)
    }

    /// Writes a new raw file and syncs it; returns bytes per second.
    pub(super) fn raw_write(&self) -> Result<f64> {
        if self.disk.exists(NAME)? {
            self.disk.remove(NAME)?;
        }
        let mut dice = Stream::from_state(2);
        let mut buffer = Buffer::new(CHUNK_BYTES as usize);
        let (words, _) = buffer.as_chunks_mut::<8>();
        words.iter_mut().for_each(|word| *word = dice.next_u64().to_le_bytes());
        let buffer = Arc::new(buffer);
        let bytes = self.raw_bytes();
        let options = QueueOptions { depth: WRITES, read_bytes: BLOCK_BYTES };
        let mut queue = self.disk.queue(options)?;
        let watch = Stopwatch::start();
        let file = self.disk.create_direct(NAME, bytes)?;
        for offset in (0..bytes).step_by(CHUNK_BYTES as usize) {
            while !queue.write(offset, &file, offset, &buffer, buffer.len())? {
                drain(&mut *queue)?;
            }
        }
        while queue.in_flight() > 0 {
            drain(&mut *queue)?;
        }
        file.sync()?;
        Ok(bytes as f64 / watch.seconds())
    }

    /// Random reads of a block each, with the store's number in flight; returns reads per second
    /// and processor microseconds per read.
    pub(super) fn raw_reads(&self, seed: u64) -> Result<(f64, f64)> {
        let file = self.disk.open_direct(NAME)?;
        let depth = self.options.depth;
        let mut queue = self.disk.queue(QueueOptions { depth, read_bytes: depth * BLOCK_BYTES })?;
        let blocks = self.raw_bytes() / BLOCK_BYTES as u64;
        let mut dice = Stream::from_state(seed + 3);
        let watch = Stopwatch::start();
        let until = Instant::now() + std::time::Duration::from_secs_f64(self.options.seconds);
        let mut done = 0;
        while Instant::now() < until {
            loop {
                let offset = scaled(dice.next_u64(), blocks) * BLOCK_BYTES as u64;
                if !queue.read(0, &file, offset, BLOCK_BYTES)? {
                    break;
                }
            }
            done += drain(&mut *queue)?;
        }
        let rate = done as f64 / watch.seconds();
        let cpu = watch.cpu_seconds() * 1e6 / done as f64;
        while queue.in_flight() > 0 {
            drain(&mut *queue)?;
        }
        Ok((rate, cpu))
    }
}

fn drain(queue: &mut dyn Queue) -> Result<usize> {
    let mut outcome = Ok(());
    let finished = queue.complete(Wait::ForOne, &mut |done| {
        if let Err(error) = done.outcome {
            outcome = Err(error);
        }
    })?;
    outcome?;
    Ok(finished)
}
