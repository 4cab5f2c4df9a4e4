//! Launches on this processor, in the order of a schedule.

use std::ffi::c_void;

use stepwell_kernels::host::{self, Launch, Schedule};
use stepwell_kernels::{Kernel, Kind};

use super::support::Arg;

/// Launches `kernel` over `items` items; arguments have the types of its parameters.
pub(super) fn launch(
    kernel: &'static Kernel,
    items: u64,
    schedule: Schedule,
    args: &mut [Arg<'_>],
) {
    // Few blocks, so that threads process more than one item.
    let launch = match kernel.kind {
        Kind::Lanes => Launch::of_items(items, 7),
        Kind::Block { threads } => Launch { blocks: items.max(1) as u32, threads, shared_bytes: 0 },
    };
    let values: Vec<u64> = args.iter_mut().map(value).collect();
    let pointers: Vec<*const c_void> =
        values.iter().map(|value| (&raw const *value).cast()).collect();
    // SAFETY: kinds and types of the arguments were compared to the parameters; each test ensures
    // that buffers are as large as the kernel assumes.
    #[expect(unsafe_code, reason = "a launch")]
    let ended = unsafe { host::run(kernel, launch, &pointers, schedule) };
    ended.unwrap_or_else(|fault| panic!("{fault}"));
}

/// The value of an argument for a launch.
fn value(arg: &mut Arg<'_>) -> u64 {
    match arg {
        Arg::F(of) => of.as_ptr() as u64,
        Arg::FMut(of) => of.as_mut_ptr() as u64,
        Arg::D(of) => of.as_ptr() as u64,
        Arg::DMut(of) => of.as_mut_ptr() as u64,
        Arg::W(of) => of.as_ptr() as u64,
        Arg::WMut(of) => of.as_mut_ptr() as u64,
        Arg::L(of) => of.as_ptr() as u64,
        Arg::LMut(of) => of.as_mut_ptr() as u64,
        Arg::Pool(of) => of.as_ptr() as u64,
        Arg::Update(of) => of.as_ptr() as u64,
        Arg::U32(value) => u64::from(*value),
        Arg::U64(value) => *value,
        Arg::F64(value) => value.to_bits(),
        Arg::F32(value) => u64::from(value.to_bits()),
    }
}
