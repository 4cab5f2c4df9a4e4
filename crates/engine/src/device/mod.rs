//! Rows on devices: the tier above the host's slabs.
//!
//! ```text
//!   store ──► host slab ──► lift ──► device slab ──► visit: weights ──► the step
//!                  ▲                     │    ▲                            │
//!                  └────── lower ◄───────┘    └──── gradients, optimizer ◄─┘
//! ```
//!
//! - **Why.** A row in a device's slot needs no transfer: its weights are read in place, and its
//!   optimizer state stays there.
//! - **How.** The host's planner works as without devices. Above it, each device has a planner of
//!   the same kind for the keys that it owns by a published function ([`stepwell_base::owner`]). A
//!   row with a slot on a device keeps its slot on the host, which stays pinned: so a look-up has
//!   no third outcome, and a row that leaves the device has a place at once. This costs the host as
//!   many slots as the devices have, at most half of its own.
//! - **Lift and lower.** Lifting copies a row up; an event orders the copy before the steps that
//!   use the row. A row is lowered before the rows of its unit are pulled, so that its host slot is
//!   up to date before anyone can need it.
//! - **Visits.** If the dense part runs on the host, the weights of a mini-batch's distinct rows
//!   visit the host, and the sums of their gradients return to the device, which applies the
//!   optimizer. This minimizes transfers: distinct rows are fewer than occurrences.
//! - **Two ways to find a row.** The planner knows its slot. A step sends the slots of its rows, or
//!   their keys, which a hash table on the device maps to slots ([`Lookup`](crate::Lookup)).
//! - **Bounds.** See [`DevicePlan`](crate::DevicePlan).

mod planning;
mod pool_asked;
mod pooling;
mod transfers;
mod visits;

pub(crate) use self::planning::Above;
pub(crate) use self::pool_asked::PoolAsked;
pub use self::pool_asked::PooledAt;
pub(crate) use self::transfers::{Lifter, Lowerer};
pub(crate) use self::visits::{LanesRead, RowsSent};
