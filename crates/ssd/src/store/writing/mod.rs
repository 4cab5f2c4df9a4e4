//! Changes of a store, up to the commits and snapshots that make them durable.

mod commit;
mod delete;
pub(in crate::store) mod open_segment;
mod put;
mod snapshot;

pub(crate) use self::put::Batch;
