//! All kernels and their sources, in tables that the build generates.

use crate::kernel::{Access, Arguments, Kernel, Kind, Param, ScalarType};

include!(concat!(env!("OUT_DIR"), "/table.rs"));

/// All kernels, by file and in the order of their sources.
pub fn kernels() -> &'static [Kernel] {
    &KERNELS
}

/// The kernel `name`.
pub fn find(name: &str) -> Option<&'static Kernel> {
    kernels().iter().find(|kernel| kernel.name == name)
}

/// The kernel `name`, which must exist.
///
/// # Panics
/// If there is no such kernel.
pub fn named(name: &str) -> &'static Kernel {
    find(name).unwrap_or_else(|| panic!("there is no kernel '{name}'"))
}

/// The text of a file of kernels with all of its includes, for NVRTC.
pub fn source(file: &str) -> Option<&'static str> {
    let of = SOURCES.iter().find(|(name, _)| *name == file);
    of.map(|(_, text)| *text)
}
