//! The processors of this machine.

use std::sync::LazyLock;
use std::thread::available_parallelism;

/// Number of processors available to this process, at least one. Determined once, as this reads
/// files of the kernel.
pub fn cores() -> usize {
    static CORES: LazyLock<usize> =
        LazyLock::new(|| available_parallelism().map_or(1, usize::from));
    *CORES
}

/// Name of this machine's processor; empty if the system does not say.
pub fn processor() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find(|line| line.starts_with("model name"));
    let name = model.and_then(|line| line.split_once(':')).map_or("", |(_, name)| name.trim());
    name.to_owned()
}
