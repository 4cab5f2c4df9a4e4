//! Data behind URLs.

use std::sync::Arc;

use stepwell_remote::{Environment, Limits, Remote};

/// Enables reading data from URLs. Nothing is started until one is used.
pub(crate) fn install() {
    stepwell_data::read_objects_with(Arc::new(Remote::new(
        Limits::default(),
        Environment::of_process(),
    )));
}
