//! Devices above the host's slabs: how many rows each has room for, and its slots and buffers.
//!
//! - **How.** [`DevicePlan`] sizes everything before a run; [`DeviceTier`] holds it. The rows
//!   themselves are planned, moved and read by [`crate::device`].

pub(crate) mod describe;
pub(crate) mod key_table;
pub(crate) mod lookup;
pub(crate) mod moves;
pub(crate) mod pool_buffers;
pub(crate) mod pool_sizes;
pub(crate) mod sizes;
pub(crate) mod tier;
pub(crate) mod visited;
pub(crate) mod visitor;
pub(crate) mod warm_up;

pub use self::lookup::Lookup;
pub use self::pool_sizes::PoolShape;
pub use self::sizes::{DeviceOptions, DevicePlan, DeviceShare};
pub use self::tier::{DeviceCount, DeviceTier};
