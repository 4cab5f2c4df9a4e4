//! A device that runs everywhere, on the same kernels, and is stricter than hardware.
//!
//! - **Why.** Running three tiers, or detecting a missing wait, must not need a GPU.
//! - **How.** Its memory is separate, and unwritten memory is poisoned with bytes of 0xFF, which
//!   are NaN. Kernels are the sources that GPUs run, compiled for the processor. Each stream has a
//!   thread that processes its queue, with delays drawn from a seed; or there are no threads, and
//!   waiting or querying callers make steps in an order drawn from the seed ([`Time::Stepped`]), so
//!   that simulations repeat. Copies take as long as a given rate requires. The order of all
//!   accesses is checked at submission.
//! - **Faults.** A [`Machine`] loses a device, or makes a launch fail, when a test requests it.

mod events;
mod machine;
mod memory;
mod run;
mod stream;
mod work;

use std::sync::Arc;
use std::time::Duration;

pub use self::machine::Machine;
use crate::product::{PlainProducts, Products};

/// Executor of the operations of streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Time {
    /// A thread for each stream.
    #[default]
    Threads,
    /// Callers that wait for an event, or query one, step by step.
    Stepped,
}

/// Speed of copies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Bytes per second, in each direction.
    pub bytes_per_second: f64,
    /// Additional time of each copy.
    pub latency: Duration,
}

/// Settings of a machine of emulated devices.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Number of devices.
    pub devices: usize,
    /// Bytes of memory of each device.
    pub memory_bytes: u64,
    /// Maximum bytes of host memory that each device copies to and from.
    pub pinned_bytes: u64,
    /// Seed of delays, steps and the order of blocks.
    pub seed: u64,
    /// Number of threads that run the blocks of a launch.
    pub workers: usize,
    /// Executor of the operations of streams.
    pub time: Time,
    /// Maximum delay of an operation, if streams have threads.
    pub delay_max: Duration,
    /// Speed of copies; `None` for no delay.
    pub rate: Option<Rate>,
    /// Implementation of products.
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
