//! Rows on devices: the tier above the host's slabs.
//!
//! ```text
//!   store ──► host slab ──► lift ──► device slab ──► visit: weights ──► the step
//!                  ▲                     │    ▲                            │
//!                  └────── lower ◄───────┘    └──── gradients, optimizer ◄─┘
//! ```
//!
//! - **Why.** A row in a device's slot needs no way to it: its weights are read where they lie, and
//!   its optimizer state never leaves.
//! - **How.** The host's planner is as it is without devices. Above it every device has a planner
//!   of its own, of the same kind, for the keys that are its own by a published function
//!   ([`stepwell_base::owner`]). A row that gets a slot on a device keeps its slot on the host,
//!   which is pinned as long: so where a row is looked for has no third answer, and a row that
//!   leaves the device has a place at once. That costs the host as many slots as the devices have,
//!   at most half of them.
//! - **Lift and lower.** A row is lifted by a copy up, ordered before the steps that use it by an
//!   event; it is lowered before the rows of its unit are pulled, so that the host's slot is as it
//!   should be before anybody can want it.
//! - **Visits.** Where the dense part is computed on the host, the weights of a mini-batch's
//!   distinct rows come to the host, and the sums of their gradients go to the device, which
//!   applies the optimizer. That is the least that can travel: distinct rows are fewer than
//!   occurrences.
//! - **Two ways to find a row.** The planner knows its slot. A step sends the slots of its rows, or
//!   their keys, which a hash table on the device finds ([`Lookup`]).
//! - **Bounds.** See [`DevicePlan`].

mod beside;
mod describe;
mod lifting;
mod lookup;
mod lowering;
mod pieces;
mod places;
mod planning;
mod pooling;
mod sizes;
mod table;
mod tier;
mod visit;
mod warm_up;

pub(crate) use self::lifting::Lifter;
pub use self::lookup::Lookup;
pub(crate) use self::lowering::Lowerer;
pub(crate) use self::places::{OnDevice, Places};
pub(crate) use self::planning::{Above, AboveMoves};
pub(crate) use self::pooling::PoolAsked;
pub use self::pooling::{PoolShape, PooledAt};
pub use self::sizes::{DeviceOptions, DevicePlan, DeviceShare};
pub use self::tier::{DeviceCount, DeviceTier};
pub(crate) use self::visit::{RowsSent, Visited};
