//! Number of processors available to this process.

use std::sync::LazyLock;
use std::thread::available_parallelism;

/// Number of processors available to this process, at least one. Determined once, as this reads
/// files of the kernel.
pub fn cores() -> usize {
    static CORES: LazyLock<usize> =
        LazyLock::new(|| available_parallelism().map_or(1, usize::from));
    *CORES
}
