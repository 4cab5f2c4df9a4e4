//! Runs one operation on an emulated device.

#![expect(unsafe_code, reason = "kernels are called by the addresses of their arguments")]

use std::ffi::c_void;
use std::time::Duration;

use stepwell_kernels::host::{self, Launch, Schedule};

use super::{Rate, memory};
use crate::driver::{Value, What};
use crate::product::Products;

/// A failed operation: the kernel, and its message.
pub(super) type Failed = (&'static str, String);

/// Runs an operation; blocks of a launch run according to `schedule`, and `products` multiplies.
pub(super) fn run(what: &What, schedule: Schedule, products: &dyn Products) -> Result<(), Failed> {
    match what {
        What::Up { from, to, bytes }
        | What::Down { from, to, bytes }
        | What::Across { from, to, bytes, .. } => memory::copy(*from, *to, *bytes),
        What::Fill { to, bytes, with } => memory::fill(*to, *bytes, *with),
        What::Product { product, left, right, into, .. } => {
            let [left_len, right_len, into_len] = product.spans();
            let left = memory::numbers(*left, left_len);
            let right = memory::numbers(*right, right_len);
            products.product(product, left, right, memory::numbers_mut(*into, into_len));
        }
        What::Launch { kernel, blocks, threads, shared_bytes, values } => {
            let values: Vec<u64> = values.iter().map(Value::bits).collect();
            let args: Vec<*const c_void> =
                values.iter().map(|value| std::ptr::from_ref(value).cast()).collect();
            let launch = Launch { blocks: *blocks, threads: *threads, shared_bytes: *shared_bytes };
            // SAFETY: one value of the right size for each parameter was checked when the launch
            // was made; addresses are of memory that the operation keeps alive.
            let outcome = unsafe { host::run(kernel, launch, &args, schedule) };
            outcome.map_err(|fault| (kernel.name, fault.to_string()))?;
        }
    }
    Ok(())
}

/// Additional time of an operation.
pub(super) fn duration(what: &What, rate: Option<Rate>) -> Duration {
    match (what, rate) {
        (What::Up { bytes, .. } | What::Down { bytes, .. }, Some(rate)) => {
            rate.latency + Duration::from_secs_f64(*bytes as f64 / rate.bytes_per_second)
        }
        _ => Duration::ZERO,
    }
}
