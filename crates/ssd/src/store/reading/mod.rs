//! Look-ups and scans.

mod get;
mod pin;
mod reader;
mod scan;

pub use self::reader::{Lookup, Reader, Ticket};
pub use self::scan::{Cursor, Scan, Visit};
