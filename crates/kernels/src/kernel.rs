//! Metadata of kernels.

use std::ffi::c_void;

/// Options for NVRTC that are required for a device to have this processor's bits.
pub const NVRTC_OPTIONS: &[&str] =
    &["--std=c++17", "--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true"];

/// Pointers to the value of every parameter, in order, as for `cuLaunchKernel`.
pub(crate) type Arguments = *const *const c_void;

/// A kernel, as declared in its source.
#[derive(Debug)]
pub struct Kernel {
    /// Name, also in NVRTC's output.
    pub name: &'static str,
    /// Source file, for [`source`](crate::source).
    pub file: &'static str,
    /// Whether its threads synchronize.
    pub kind: Kind,
    /// Parameters in order.
    pub params: &'static [Param],
    pub(crate) entry: unsafe extern "C" fn(Arguments),
}

/// Whether the threads of a block synchronize.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Threads don't synchronize; a block has any number of them up to
    /// [`Kind::LANES_THREADS_MAX`], and any number of blocks divides all items.
    Lanes,
    /// Threads synchronize; every block has exactly this number of them.
    Block {
        /// Threads of a block.
        threads: u32,
    },
}

impl Kind {
    /// Maximum number of threads of a block of lanes.
    pub const LANES_THREADS_MAX: u32 = 256;
}

/// A parameter of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param {
    /// Name of the parameter.
    pub name: &'static str,
    /// How the kernel accesses the memory that it points to.
    pub access: Access,
    /// Type of the number, or of the elements it points to.
    pub ty: ScalarType,
    /// Bytes of one number or element.
    pub element_bytes: usize,
}

/// How a kernel accesses the memory behind a parameter; no two parameters may overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads only.
    In,
    /// Writes some or all of it, and reads nothing.
    Out,
    /// Reads and writes.
    InOut,
    /// Threads read and write the same elements by atomic operations.
    Atomic,
    /// No memory: the parameter is a number.
    Value,
}

/// Type of a parameter, or of the elements that it points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScalarType {
    /// `u8`.
    U8,
    /// `u16`.
    U16,
    /// `u32`.
    U32,
    /// `u64`.
    U64,
    /// `i32`.
    I32,
    /// `f32`.
    F32,
    /// `f64`.
    F64,
    /// A descriptor of this crate with this name.
    Struct(&'static str),
}

impl ScalarType {
    /// Bytes of a number; 0 for a descriptor, whose parameter has its size.
    pub const fn bytes(self) -> usize {
        match self {
            Self::U8 => 1,
            Self::U16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::F64 => 8,
            Self::Struct(_) => 0,
        }
    }
}
