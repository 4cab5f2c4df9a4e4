//! Measures copies within a device, which are its limit, to and from the host, and between two
//! devices.

use serde::Serialize;
use stepwell_device::Device;

use super::bench::{Bench, same};
use crate::Result;

/// Bytes of copies to and from the host: transferred pieces of rows have up to 1 MiB.
const SIZES: [usize; 3] = [64 << 10, 1 << 20, 16 << 20];

/// Rates for one size of copies, in bytes per second.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Way {
    /// Bytes per copy.
    pub bytes: u64,
    /// From pinned memory to the device.
    pub up: f64,
    /// From the device to pinned memory.
    pub down: f64,
}

/// Copies to and from a device.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Ways {
    /// To and from pinned memory.
    pub host: Vec<Way>,
    /// Bytes per second from another device; `None` if there is only one.
    pub across: Option<f64>,
}

/// Bytes per second that copies within the device read and write.
pub(super) fn copy(bench: &Bench) -> Result<f64> {
    let lanes = bench.bytes / 4;
    let values: Vec<u32> = (0..lanes as u32).collect();
    let (from, to) = (bench.filled(&values)?, bench.empty::<u32>(lanes)?);
    let give = || Ok(bench.stream.across(&from, 0..lanes, &to, 0)?);
    give()?;
    same("copy", &bench.contents(&to, lanes)?, &values)?;
    Ok(2.0 * (4 * lanes) as f64 / bench.time(give)?)
}

/// Measures copies to and from the host, and from `other`.
pub(super) fn measure(bench: &Bench, other: Option<&Device>) -> Result<Ways> {
    let mut ways = Ways::default();
    for bytes in SIZES.into_iter().filter(|bytes| *bytes <= bench.bytes) {
        let (host, there) = (bench.pinned::<u8>(bytes)?, bench.empty::<u8>(bytes)?);
        bench.stream.clear(&there, 0..bytes)?;
        let down = bench.time(|| Ok(bench.stream.down(&there, 0..bytes, &host, 0)?))?;
        let up = bench.time(|| Ok(bench.stream.up(&host, 0..bytes, &there, 0)?))?;
        let rate = |seconds: f64| bytes as f64 / seconds;
        ways.host.push(Way { bytes: bytes as u64, up: rate(up), down: rate(down) });
    }
    if let Some(other) = other {
        let (bytes, stream) = (bench.bytes, other.stream("benchmark")?);
        let (from, to) = (other.buffer::<u8>(bytes, "a benchmark")?, bench.empty::<u8>(bytes)?);
        stream.clear(&from, 0..bytes)?;
        stream.finish()?;
        let seconds = bench.time(|| Ok(bench.stream.across(&from, 0..bytes, &to, 0)?))?;
        ways.across = Some(bytes as f64 / seconds);
    }
    Ok(ways)
}
