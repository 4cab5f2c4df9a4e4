//! Processors that this process may use.

use std::sync::LazyLock;
use std::thread::available_parallelism;

/// Processors that this process may use, at least one. Counted once: it reads files of the kernel.
pub fn cores() -> usize {
    static CORES: LazyLock<usize> =
        LazyLock::new(|| available_parallelism().map_or(1, usize::from));
    *CORES
}
