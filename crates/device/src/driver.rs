//! The seam to a device: what a driver does, and nothing else.
//!
//! Everything is named by numbers that the driver gave. Operations of a stream happen in the order
//! in which they were submitted. What an operation uses is kept alive by [`Operation::keeps`] until
//! it is over, and no longer than until an event that was recorded after it is said to be over.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use stepwell_kernels::Kernel;

use crate::{About, Product, Result};

/// Operations that a stream holds; whoever submits more waits.
pub const STREAM_OPERATIONS_MAX: usize = 1024;

/// What a device does.
pub trait Driver: Debug + Send + Sync {
    /// What it is.
    fn about(&self) -> &About;

    /// Memory of the device: its address there, aligned to 256 bytes.
    ///
    /// # Errors
    /// When it has none.
    fn allocate(&self, bytes: usize) -> Result<u64>;

    /// Gives back what [`Driver::allocate`] gave.
    fn free(&self, address: u64, bytes: usize);

    /// Memory of the host that the device copies to and from: its address.
    ///
    /// # Errors
    /// When the host has none.
    fn allocate_pinned(&self, bytes: usize) -> Result<u64>;

    /// Gives back what [`Driver::allocate_pinned`] gave.
    fn free_pinned(&self, address: u64, bytes: usize);

    /// A new stream.
    ///
    /// # Errors
    /// When the device refuses.
    fn stream(&self, name: &'static str) -> Result<u64>;

    /// Bytes of memory that a stream has for itself as soon as it multiplies.
    ///
    /// # Errors
    /// When it does not multiply: what it lacks.
    fn workspace_bytes(&self) -> Result<usize> {
        Ok(0)
    }

    /// Ends a stream once what it holds is over.
    fn end_stream(&self, stream: u64);

    /// Gives a stream something to do.
    ///
    /// # Errors
    /// When it cannot be started, or something before it failed.
    fn submit(&self, stream: u64, operation: Operation) -> Result<()>;

    /// Makes one piece of `operations` for `stream`, which are not done yet; its number, or none
    /// where they are to be submitted one by one.
    ///
    /// # Errors
    /// As for [`Driver::submit`].
    fn graph(&self, _stream: u64, _operations: &[What]) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Gives a stream the piece `graph`, which was made for it.
    ///
    /// # Errors
    /// As for [`Driver::submit`].
    fn run(&self, _stream: u64, graph: u64, _keeps: Keeps) -> Result<()> {
        panic!("graph {graph} was never made")
    }

    /// Ends a piece, no run of which is under way.
    fn end_graph(&self, _graph: u64) {}

    /// A new event, which nobody has recorded.
    ///
    /// # Errors
    /// When the device refuses.
    fn event(&self) -> Result<u64>;

    /// Ends an event.
    fn end_event(&self, event: u64);

    /// Lets `event` be over when all is over that `stream` holds now.
    ///
    /// # Errors
    /// As for [`Driver::submit`].
    fn record(&self, stream: u64, event: u64) -> Result<()>;

    /// Lets `stream` go on only after what `event` stands for now.
    ///
    /// # Errors
    /// As for [`Driver::submit`].
    fn wait_in(&self, stream: u64, event: u64) -> Result<()>;

    /// Whether what `event` stands for is over.
    ///
    /// # Errors
    /// What failed on the way.
    fn is_over(&self, event: u64) -> Result<bool>;

    /// Waits until it is.
    ///
    /// # Errors
    /// What failed on the way.
    fn wait(&self, event: u64) -> Result<()>;
}

/// What must live as long as an operation is not over.
pub type Keeps = Vec<Arc<dyn Any + Send + Sync>>;

/// Something for a stream to do.
#[derive(Debug)]
pub struct Operation {
    /// What.
    pub what: What,
    /// What it uses.
    pub keeps: Keeps,
}

/// Addresses are absolute, ranges were checked.
#[derive(Clone, Debug)]
pub enum What {
    /// From pinned memory to the device.
    Up {
        /// Address on the host.
        from: u64,
        /// Address on the device.
        to: u64,
        /// How much.
        bytes: usize,
    },
    /// From the device to pinned memory.
    Down {
        /// Address on the device.
        from: u64,
        /// Address on the host.
        to: u64,
        /// How much.
        bytes: usize,
    },
    /// Within a device, or from another device of the same kind to this one.
    Across {
        /// Address on the device it comes from.
        from: u64,
        /// Number of that device.
        from_device: usize,
        /// Address on this device.
        to: u64,
        /// How much.
        bytes: usize,
    },
    /// The same byte everywhere.
    Fill {
        /// Address on the device.
        to: u64,
        /// How much.
        bytes: usize,
        /// With what.
        with: u8,
    },
    /// Products of matrices, checked.
    Product {
        /// Which.
        product: Box<Product>,
        /// Address of the first left matrix on the device.
        left: u64,
        /// Address of the first right one.
        right: u64,
        /// Address of the first result.
        into: u64,
        /// Address of memory of [`Driver::workspace_bytes`] that only this stream uses.
        workspace: u64,
    },
    /// A kernel.
    Launch {
        /// Which.
        kernel: &'static Kernel,
        /// Blocks of threads.
        blocks: u32,
        /// Threads of a block.
        threads: u32,
        /// Bytes of shared memory that the launch asks for.
        shared_bytes: u32,
        /// One value for each parameter.
        values: Vec<Value>,
    },
}

/// What a kernel's parameter is given.
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
    /// Its bytes as they lie in memory, the first byte first.
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
