//! Input rows, and faults in them.

use std::collections::BTreeMap;

use crate::layout::Layout;
use crate::record::Why;
use crate::rows::{Rows, Spelled, Value};

/// Input rows.
pub(super) struct Data<'a> {
    pub(super) rows: &'a Rows,
    pub(super) layout: &'a Layout,
    pub(super) count: usize,
}

/// An invalid value in a row.
pub(super) struct Fault {
    pub(super) source: usize,
    pub(super) why: Why,
    /// The value, or the item of a list.
    pub(super) value: Vec<u8>,
}

/// First fault of each malformed row.
pub(super) type Faults = BTreeMap<usize, Fault>;

/// Text of a value, for a fault.
pub(super) fn spelled(value: Value<'_>) -> Vec<u8> {
    value.spell(&mut Spelled::default()).to_vec()
}
