//! A device that runs everywhere, on the same kernels, and is stricter than hardware.
//!
//! - **Why.** Nobody needs a GPU to see three tiers at work, or to find out that a wait is missing.
//! - **How.** Its memory is its own, and poisoned where nobody wrote: bytes of 0xFF, which are no
//!   numbers. Kernels are the sources that GPUs run, compiled for the processor. Each stream has a
//!   thread that works its queue off, as early or as late as a seed says; or nobody has one, and
//!   whoever waits or asks makes steps in an order that the seed says ([`Time::Stepped`]), so that
//!   a simulation repeats. Copies take as long as a stated rate wants. The order of all accesses is
//!   checked when operations are submitted.
//! - **Faults.** A [`Machine`] loses a device, or lets a launch fail, when a test says so.

mod events;
mod machine;
mod memory;
mod run;
mod stream;
mod work;

use std::sync::Arc;
use std::time::Duration;

pub use self::machine::Machine;
use crate::{PlainProducts, Products};

/// Who works the streams off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Time {
    /// A thread for each stream.
    #[default]
    Threads,
    /// Whoever waits for an event, or asks for one, by steps.
    Stepped,
}

/// How long copies take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Bytes a second, in each direction.
    pub bytes_per_second: f64,
    /// What each copy takes beside that.
    pub latency: Duration,
}

/// What a machine of emulated devices is like.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How many devices.
    pub devices: usize,
    /// Bytes of memory of each.
    pub memory_bytes: u64,
    /// Bytes of the host's memory that each copies to and from, at most.
    pub pinned_bytes: u64,
    /// What delays, steps and the order of blocks are drawn from.
    pub seed: u64,
    /// Threads that the blocks of a launch run on.
    pub workers: usize,
    /// Who works the streams off.
    pub time: Time,
    /// The longest that an operation is delayed, where streams have threads.
    pub delay_max: Duration,
    /// How long copies take, where that counts.
    pub rate: Option<Rate>,
    /// Who multiplies.
    pub products: Arc<dyn Products>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            devices: 1,
            memory_bytes: 1 << 30,
            pinned_bytes: 1 << 30,
            seed: 0,
            workers: 1,
            time: Time::Threads,
            delay_max: Duration::ZERO,
            rate: None,
            products: Arc::new(PlainProducts),
        }
    }
}
