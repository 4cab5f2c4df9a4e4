//! Tables that the build generates from the sources.

use crate::kernel::{Access, Arguments, Kernel, Kind, Param, ScalarType};

include!(concat!(env!("OUT_DIR"), "/table.rs"));

pub(crate) fn kernels() -> &'static [Kernel] {
    &KERNELS
}

pub(crate) fn sources() -> &'static [(&'static str, &'static str)] {
    &SOURCES
}
