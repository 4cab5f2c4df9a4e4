//! State of a device.

use std::sync::Arc;

use crate::check::Checker;
use crate::driver::Driver;
use crate::pool::Pool;

/// State shared by everything that belongs to a device.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) driver: Arc<dyn Driver>,
    pub(crate) checker: Option<Arc<Checker>>,
    pub(crate) memory: Pool,
    pub(crate) pinned: Pool,
}

impl Shared {
    pub(crate) fn name(&self) -> &str {
        &self.driver.about().name
    }
}
