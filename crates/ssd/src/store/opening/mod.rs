//! Making a store: new, from its files, or from snapshots.

pub(in crate::store) mod directories;
pub(in crate::store) mod load;
mod open;
mod ordered_work;
mod reshard;
mod set_aside;
mod verify;

pub(crate) use self::load::{listed_bytes, verify};
pub(crate) use self::ordered_work::held_most;
pub use self::verify::Verify;
