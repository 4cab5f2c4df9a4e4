//! Kernels of devices.

/// How a kernel uses a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Memory that it reads.
    In,
    /// Memory that it writes.
    Out,
    /// Memory that it changes.
    InOut,
    /// Memory that it changes by atomic operations.
    Atomic,
    /// A number.
    Value,
}

/// A parameter.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// Its name.
    pub name: &'static str,
    /// How it is used.
    pub access: Access,
    /// Bytes of an element, or of the number.
    pub bytes: usize,
}

/// A kernel.
#[derive(Debug)]
pub struct Kernel {
    /// Its name.
    pub name: &'static str,
    /// Its file.
    pub file: &'static str,
    /// Its parameters.
    pub params: &'static [Param],
}

/// Options for NVRTC.
pub const NVRTC_OPTIONS: &[&str] =
    &["--std=c++17", "--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true"];

/// All kernels.
pub fn kernels() -> &'static [Kernel] {
    &[]
}

/// The text of a file.
pub fn source(_file: &str) -> Option<&'static str> {
    None
}

/// A kernel by name.
pub fn find(_name: &str) -> Option<&'static Kernel> {
    None
}

/// Kernels on the processor.
pub mod host {
    use std::ffi::c_void;

    /// A launch.
    #[derive(Clone, Copy, Debug)]
    pub struct Launch {
        /// Blocks.
        pub blocks: u32,
        /// Threads of a block.
        pub threads: u32,
        /// Bytes of shared memory.
        pub shared_bytes: u32,
    }

    /// In which order.
    #[derive(Clone, Copy, Debug)]
    pub struct Schedule {
        /// Seed.
        pub seed: u64,
        /// Threads.
        pub workers: usize,
    }

    /// A fault.
    #[derive(Debug)]
    pub struct Fault;

    impl std::fmt::Display for Fault {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "fault")
        }
    }

    /// Runs a kernel.
    ///
    /// # Safety
    /// Arguments fit.
    ///
    /// # Errors
    /// A fault.
    pub unsafe fn run(
        _kernel: &crate::Kernel,
        _launch: Launch,
        _args: &[*const c_void],
        _schedule: Schedule,
    ) -> Result<(), Fault> {
        Ok(())
    }
}
