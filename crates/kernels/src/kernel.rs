//! What is known of a kernel without running it.

use std::ffi::c_void;

/// Options for NVRTC without which a device's bits would not be this processor's.
pub const NVRTC_OPTIONS: &[&str] =
    &["--std=c++17", "--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true"];

/// Pointers to the value of every parameter, in order, as `cuLaunchKernel` takes them.
pub(crate) type Arguments = *const *const c_void;

/// A kernel, as its source declares it.
#[derive(Debug)]
pub struct Kernel {
    /// Its name, also in what NVRTC makes of its file.
    pub name: &'static str,
    /// The file that has it, for [`source`].
    pub file: &'static str,
    /// How its threads are to each other.
    pub kind: Kind,
    /// What it takes, in order.
    pub params: &'static [Param],
    pub(crate) entry: unsafe extern "C" fn(Arguments),
}

/// How the threads of a block are to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// They never meet; a block has any number of them up to [`Kind::LANES_THREADS_MAX`], and any
    /// number of blocks shares out all items.
    Lanes,
    /// They meet; every block has exactly so many.
    Block {
        /// Threads of a block.
        threads: u32,
    },
}

impl Kind {
    /// Threads of a block of lanes, at most.
    pub const LANES_THREADS_MAX: u32 = 256;
}

/// A parameter of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param {
    /// Its name.
    pub name: &'static str,
    /// What the kernel does with what it points at.
    pub access: Access,
    /// What it is, or points at.
    pub ty: ScalarType,
    /// Bytes of one such.
    pub element_bytes: usize,
}

/// What a kernel does with the memory behind a parameter; no two parameters may overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It reads.
    In,
    /// It writes, some or all of it, and reads nothing.
    Out,
    /// It reads and writes.
    InOut,
    /// Threads read and write the same places, by atomic operations.
    Atomic,
    /// There is none: the parameter is a number.
    Value,
}

/// What a parameter is, or points at.
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
    /// Bytes of a number; of a descriptor, 0: its parameter knows.
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

/// All kernels, by file and in the order of their sources.
pub fn kernels() -> &'static [Kernel] {
    crate::tables::kernels()
}

/// The kernel `name`.
pub fn find(name: &str) -> Option<&'static Kernel> {
    kernels().iter().find(|kernel| kernel.name == name)
}

/// The kernel `name`, which is one of those that there are.
///
/// # Panics
/// When there is none.
pub fn named(name: &str) -> &'static Kernel {
    find(name).unwrap_or_else(|| panic!("there is no kernel '{name}'"))
}

/// The text of a file of kernels with all that it includes, as NVRTC takes it.
pub fn source(file: &str) -> Option<&'static str> {
    let of = crate::tables::sources().iter().find(|(name, _)| *name == file);
    of.map(|(_, text)| *text)
}
