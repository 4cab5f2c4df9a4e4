//! `stepwell-lab bench hbm`: row kernels on a device, compared with copies on that device.
//!
//! ```text
//!  limit    copies within the device: bytes read and written per second
//!  rows     up, down, read, pooled, updated; bytes as in docs/devices.md
//!  look-up  hash tables by load; finding a step's rows by slot and by key
//!  ways     to and from pinned memory, and from device to device
//! ```
//!
//! Times are measured on the host, from the first of several launches to the end of the last; the
//! median of the rounds counts. Before timing, each kernel's result is compared with plain loops
//! once.

mod bench;
mod lookup;
mod order;
mod rows;
mod ways;

use std::sync::Arc;

use serde::Serialize;
use stepwell_base::ByteCount;
use stepwell_device::{Choice, PlainProducts, Wanted};

use self::bench::Bench;
pub use self::lookup::{LookupFigures, TableFigures};
pub use self::rows::{KernelFigures, RowFigures};
pub use self::ways::{Way, Ways};
use crate::{Error, Result};

/// Options of the benchmark.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The devices.
    pub choice: Choice,
    /// Bytes of the rows; `None` for a default that suits the device.
    pub bytes: Option<ByteCount>,
    /// Number of rounds; the median counts.
    pub rounds: usize,
}

/// Default bytes of the rows on a GPU, several times its L2 cache.
const BYTES: ByteCount = ByteCount(1 << 30);
/// Default bytes on an emulated device, which checks every access.
const BYTES_EMULATED: ByteCount = ByteCount(256 << 10);
/// Fewest bytes: one whole example of the largest rows.
const BYTES_MIN: u64 = 16 << 10;
/// Device memory that a benchmark uses, as a multiple of the bytes of its rows.
const MEMORY_OF_BYTES: u64 = 8;
/// Additional bytes of device memory.
const BESIDE: u64 = 64 << 20;
/// Hint for machines without a GPU.
const EMULATED: &str =
    "choose one, such as --device emulated:1 (whose figures say nothing about a GPU)";
/// Most launches per round.
const LAUNCHES: usize = 20;

/// Results of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Figures {
    /// Names of the devices, the first of which is measured.
    pub devices: Vec<String>,
    /// Whether they are emulated, in which case the results say nothing about a GPU.
    pub emulated: bool,
    /// Bytes of the rows.
    pub bytes: u64,
    /// Number of rounds.
    pub rounds: usize,
    /// Bytes per second that copies within the device read and write.
    pub copy_bytes_per_second: f64,
    /// Row kernels, by the bytes of a row.
    pub rows: Vec<RowFigures>,
    /// Methods of finding a row.
    pub lookup: LookupFigures,
    /// Copies to and from the device.
    pub ways: Ways,
}

/// Runs the benchmark; calls `say` with a description of each part and, after each part, `keep`
/// with the results so far.
///
/// # Errors
/// No device, a device error, too little memory, or a wrong result of a kernel.
pub fn run(
    options: &Options,
    say: &mut dyn FnMut(&str),
    keep: &mut dyn FnMut(&Figures),
) -> Result<Figures> {
    let notes = std::cell::RefCell::new(Vec::new());
    let offer = options.choice.offer(&|note| notes.borrow_mut().push(note));
    notes.into_inner().iter().for_each(|note| say(note));
    let offer = offer.map_err(|why| {
        Error::Arguments(format!("device = {}: {why}; {EMULATED}", options.choice))
    })?;
    let Some(offer) = offer else {
        return Err(Error::Arguments(format!("there is no device to measure; {EMULATED}")));
    };
    let bytes = options.bytes.unwrap_or(if offer.emulated { BYTES_EMULATED } else { BYTES });
    let (least, most) = (BYTES_MIN, offer.memory_bytes.saturating_sub(BESIDE) / MEMORY_OF_BYTES);
    let said = offer.said();
    if most < least {
        let (least, free) = (MEMORY_OF_BYTES * least + BESIDE, offer.memory_bytes);
        let (least, free) = (ByteCount(least), ByteCount(free));
        let why = format!("no room for a benchmark on {said}: {free} are free, {least} are needed");
        return Err(Error::Arguments(why));
    }
    if !(least..=most).contains(&bytes.0) {
        let (least, most) = (ByteCount(least), ByteCount(most));
        let why = format!("--bytes {bytes}: give {least} to {most} for {said}");
        return Err(Error::Arguments(why));
    }
    let memory_bytes = MEMORY_OF_BYTES * bytes.0 + BESIDE;
    let wanted = Wanted { memory_bytes, pinned_bytes: memory_bytes, workers: 1 };
    let devices = offer.open(wanted, Arc::new(PlainProducts));
    let devices = devices.map_err(Error::Arguments)?;
    let bench = Bench {
        stream: devices[0].stream("benchmark")?,
        device: devices[0].clone(),
        bytes: bytes.0 as usize,
        rounds: options.rounds,
        launches: if offer.emulated { 1 } else { LAUNCHES },
    };
    say(&format!("copies within {}", offer.names[0]));
    let copy = ways::copy(&bench)?;
    let mut figures = Figures {
        devices: offer.names.clone(),
        emulated: offer.emulated,
        bytes: bytes.0,
        rounds: options.rounds,
        copy_bytes_per_second: copy,
        ..Figures::default()
    };
    for row_bytes in rows::BYTES {
        say(&format!("rows of {row_bytes} bytes"));
        figures.rows.push(rows::measure(&bench, row_bytes, copy)?);
        keep(&figures);
    }
    say("hash tables");
    figures.lookup = lookup::measure(&bench)?;
    keep(&figures);
    say("ways to the device");
    figures.ways = ways::measure(&bench, devices.get(1))?;
    Ok(figures)
}
