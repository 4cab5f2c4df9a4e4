//! Look-ups and scans.

mod get;
mod pin;
mod reader;
mod scan;

pub(crate) use self::pin::SCAN_BYTES;
pub use self::reader::{Lookup, Reader, Ticket};
pub use self::scan::{Cursor, Scan, Visit};
