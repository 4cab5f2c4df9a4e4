//! The measured device: its buffers, the time of its work, and a check of its results.

use std::time::Instant;

use bytemuck::Pod;
use stepwell_device::{Buffer, Device, Pinned, Stream};

use crate::measure::median;
use crate::{Error, Result};

/// Duration of a round in seconds, if a launch takes less.
const ROUND_SECONDS: f64 = 0.1;

/// The measured device.
pub(super) struct Bench {
    pub(super) device: Device,
    pub(super) stream: Stream,
    pub(super) bytes: usize,
    pub(super) rounds: usize,
    pub(super) launches: usize,
}

impl Bench {
    /// Median seconds of the work that `give` enqueues.
    pub(super) fn time(&self, mut give: impl FnMut() -> Result<()>) -> Result<f64> {
        let mut round = |launches: usize| {
            let begin = Instant::now();
            for _ in 0..launches {
                give()?;
            }
            self.stream.finish()?;
            Ok::<f64, Error>(begin.elapsed().as_secs_f64() / launches as f64)
        };
        // Slow work needs few launches to hide the overhead of a round.
        let launches = (ROUND_SECONDS / round(1)?).clamp(1.0, self.launches as f64) as usize;
        let rounds = (0..self.rounds).map(|_| round(launches)).collect::<Result<Vec<f64>>>()?;
        Ok(median(rounds))
    }

    pub(super) fn empty<T: Pod>(&self, len: usize) -> Result<Buffer<T>> {
        Ok(self.device.buffer(len.max(1), "a benchmark")?)
    }

    pub(super) fn pinned<T: Pod>(&self, len: usize) -> Result<Pinned<T>> {
        Ok(self.device.pinned(len.max(1), "a benchmark")?)
    }

    /// Copies `values` to the device.
    pub(super) fn filled<T: Pod>(&self, values: &[T]) -> Result<Buffer<T>> {
        let (mut host, there) = (self.pinned(values.len())?, self.empty(values.len())?);
        host.write(values.len())?.copy_from_slice(values);
        self.stream.up(&host, 0..values.len(), &there, 0)?;
        self.stream.finish()?;
        Ok(there)
    }

    /// Copies the first `len` elements of a buffer from the device.
    pub(super) fn contents<T: Pod>(&self, there: &Buffer<T>, len: usize) -> Result<Vec<T>> {
        let mut host = self.pinned(len)?;
        self.stream.down(there, 0..len, &host, 0)?;
        self.stream.finish()?;
        Ok(host.read(len)?.to_vec())
    }
}

/// Compares the result of `kernel` with that of plain loops.
pub(super) fn same<T: PartialEq>(kernel: &str, came: &[T], wanted: &[T]) -> Result<()> {
    let wrong = came.iter().zip(wanted).position(|(came, wanted)| came != wanted);
    match (wrong, came.len() == wanted.len()) {
        (None, true) => Ok(()),
        (at, _) => Err(Error::WrongKernel { kernel: kernel.to_owned(), at: at.unwrap_or(0) }),
    }
}
