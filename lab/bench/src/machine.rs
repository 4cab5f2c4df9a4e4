//! Properties of the machine and of this process.

use std::fs;
use std::time::Duration;

use serde::Serialize;

/// Unit of the times in `/proc`, fixed by the kernel's interface (`man 5 proc`, USER_HZ).
const TICKS_PER_SECOND: u64 = 100;
/// Number of `utime` among the fields after the process's name in `/proc/self/stat`.
const UTIME: usize = 11;

/// The machine that produced a result.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    cpu: String,
    cores: usize,
    kernel: String,
    io_engine: String,
}

impl Machine {
    pub(crate) fn here(io_engine: &str) -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Self {
            cpu: stepwell_base::processor(),
            cores: stepwell_base::cores(),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            io_engine: io_engine.to_owned(),
        }
    }
}

/// User and kernel processor time of this process; zero if unknown.
pub(crate) fn cpu_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    let ticks = fields.split(' ').skip(UTIME).take(2).filter_map(|field| field.parse::<u64>().ok());
    Duration::from_millis(ticks.sum::<u64>() * 1000 / TICKS_PER_SECOND)
}
