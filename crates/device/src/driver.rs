//! The interface of a driver for devices.
//!
//! Everything is identified by numbers from the driver. Operations of a stream run in the order of
//! submission. [`Operation::keeps`] keeps what an operation uses alive until it is over, and no
//! longer than until an event recorded after it is reported to be over.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use stepwell_kernels::Kernel;

use crate::Result;
use crate::product::Product;

/// Description of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// Kind and number, as in settings and messages: `cuda:0`.
    pub name: String,
    /// The manufacturer's name of the model.
    pub model: String,
    /// Number among the devices of its kind.
    pub number: usize,
    /// Bytes of its memory.
    pub memory_bytes: u64,
    /// Number of multiprocessors: roughly, of blocks that run in parallel.
    pub processors: u32,
}

/// Maximum number of operations that a stream holds; submitting more blocks.
pub const STREAM_OPERATIONS_MAX: usize = 1024;

/// Operations of a device.
pub trait Driver: Debug + Send + Sync {
    /// Describes the device.
    fn about(&self) -> &About;

    /// Allocates memory of the device; returns its address there, aligned to 256 bytes.
    ///
    /// # Errors
    /// If there is none left.
    fn allocate(&self, bytes: usize) -> Result<u64>;

    /// Frees memory from [`Driver::allocate`].
    fn free(&self, address: u64, bytes: usize);

    /// Allocates host memory that the device copies to and from; returns its address.
    ///
    /// # Errors
    /// If the host has none left.
    fn allocate_pinned(&self, bytes: usize) -> Result<u64>;

    /// Frees memory from [`Driver::allocate_pinned`].
    fn free_pinned(&self, address: u64, bytes: usize);

    /// Creates a stream.
    ///
    /// # Errors
    /// If the device refuses.
    fn stream(&self, name: &'static str) -> Result<u64>;

    /// Bytes of memory that a stream needs for products.
    ///
    /// # Errors
    /// If the device doesn't multiply: what is missing.
    fn workspace_bytes(&self) -> Result<usize> {
        Ok(0)
    }

    /// Ends a stream after the operations it holds.
    fn end_stream(&self, stream: u64);

    /// Submits an operation to a stream.
    ///
    /// # Errors
    /// If it cannot be started, or an earlier operation failed.
    fn submit(&self, stream: u64, operation: Operation) -> Result<()>;

    /// Makes a graph of `operations` for `stream`, without running them; returns its number, or
    /// `None` if they must be submitted one by one.
    ///
    /// # Errors
    /// As for [`Driver::submit`].
    fn graph(&self, _stream: u64, _operations: &[What]) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Submits a graph to the stream that it was made for.
    ///
    /// # Errors
    /// As for [`Driver::submit`].
    fn run(&self, _stream: u64, graph: u64, _keeps: Keeps) -> Result<()> {
        panic!("graph {graph} was never created")
    }

    /// Ends a graph that isn't running.
    fn end_graph(&self, _graph: u64) {}

    /// Creates an event that is not recorded.
    ///
    /// # Errors
    /// If the device refuses.
    fn event(&self) -> Result<u64>;

    /// Ends an event.
    fn end_event(&self, event: u64);

    /// Records `event` after all operations that `stream` holds.
    ///
    /// # Errors
    /// As for [`Driver::submit`].
    fn record(&self, stream: u64, event: u64) -> Result<()>;

    /// Makes later operations of `stream` wait for the last recording of `event`.
    ///
    /// # Errors
    /// As for [`Driver::submit`].
    fn wait_in(&self, stream: u64, event: u64) -> Result<()>;

    /// Whether the last recording of `event` is over.
    ///
    /// # Errors
    /// Failures of operations before it.
    fn is_over(&self, event: u64) -> Result<bool>;

    /// Waits until the last recording of `event` is over.
    ///
    /// # Errors
    /// Failures of operations before it.
    fn wait(&self, event: u64) -> Result<()>;
}

/// Data that must stay alive as long as an operation is not over.
pub type Keeps = Vec<Arc<dyn Any + Send + Sync>>;

/// An operation of a stream.
#[derive(Debug)]
pub struct Operation {
    /// The operation.
    pub what: What,
    /// Data that it uses.
    pub keeps: Keeps,
}

/// An operation's kind and arguments: addresses are absolute, ranges were checked.
#[derive(Clone, Debug)]
pub enum What {
    /// Copy from pinned memory to the device.
    Up {
        /// Address on the host.
        from: u64,
        /// Address on the device.
        to: u64,
        /// Number of bytes.
        bytes: usize,
    },
    /// Copy from the device to pinned memory.
    Down {
        /// Address on the device.
        from: u64,
        /// Address on the host.
        to: u64,
        /// Number of bytes.
        bytes: usize,
    },
    /// Copy within a device, or from another device of the same kind to this one.
    Across {
        /// Address on the source device.
        from: u64,
        /// Number of the source device.
        from_device: usize,
        /// Address on this device.
        to: u64,
        /// Number of bytes.
        bytes: usize,
    },
    /// Fill with a byte.
    Fill {
        /// Address on the device.
        to: u64,
        /// Number of bytes.
        bytes: usize,
        /// The byte.
        with: u8,
    },
    /// Matrix products, checked.
    Product {
        /// Shapes and layouts.
        product: Box<Product>,
        /// Address of the first left matrix on the device.
        left: u64,
        /// Address of the first right matrix.
        right: u64,
        /// Address of the first result.
        into: u64,
        /// Address of [`Driver::workspace_bytes`] bytes that only this stream uses.
        workspace: u64,
    },
    /// Launch of a kernel.
    Launch {
        /// The kernel.
        kernel: &'static Kernel,
        /// Number of blocks.
        blocks: u32,
        /// Number of threads per block.
        threads: u32,
        /// Bytes of dynamic shared memory.
        shared_bytes: u32,
        /// One value for each parameter.
        values: Vec<Value>,
    },
}

/// Value of a kernel's parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// An address on the device.
    Address(u64),
    /// A number.
    U32(u32),
    /// A number.
    U64(u64),
    /// A number.
    I32(i32),
    /// A number.
    F32(f32),
    /// A number.
    F64(f64),
}

impl Value {
    /// Bytes of the value in memory, the first byte lowest.
    pub(crate) fn bits(&self) -> u64 {
        match *self {
            Self::Address(value) | Self::U64(value) => value,
            Self::U32(value) => u64::from(value),
            Self::I32(value) => u64::from(value as u32),
            Self::F32(value) => u64::from(value.to_bits()),
            Self::F64(value) => value.to_bits(),
        }
    }
}
