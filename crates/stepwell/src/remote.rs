//! Data behind URLs.

use std::sync::Arc;

use stepwell_remote::{Environment, Limits, Remote};

/// Lets data be read from URLs; nothing is started before one is named.
pub(crate) fn install() {
    stepwell_data::read_objects_with(Arc::new(Remote::new(
        Limits::default(),
        Environment::of_process(),
    )));
}
