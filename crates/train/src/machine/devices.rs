//! Accelerators: what a machine offers, and how they are taken.

use std::sync::Arc;

use stepwell_device::{Choice, Device, Offer, Wanted};

use crate::dense::HostProducts;

/// Accelerators of a machine.
pub trait Devices: Send + Sync {
    /// Offers the devices of `choice`; `None` for the host alone. `note` receives why existing
    /// devices cannot be used if none were requested.
    ///
    /// # Errors
    /// A line that says what is missing.
    fn offer(&self, choice: &Choice, note: &dyn Fn(String)) -> Result<Option<Offer>, String> {
        choice.offer(note)
    }

    /// Takes the offered devices.
    ///
    /// # Errors
    /// A line that says what is missing.
    fn open(&self, offer: &Offer, wanted: Wanted) -> Result<Vec<Device>, String> {
        offer.open(wanted, Arc::new(HostProducts::default()))
    }
}

/// The accelerators of this machine, and emulated ones whose streams are threads.
#[derive(Clone, Copy, Debug, Default)]
pub struct Accelerators;

impl Devices for Accelerators {}
