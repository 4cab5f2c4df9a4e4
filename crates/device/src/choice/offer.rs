//! Devices that can be used.

/// Bytes of memory of an emulated device.
const EMULATED_BYTES: u64 = 1 << 30;

/// Devices that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Names of the devices.
    pub names: Vec<String>,
    /// Bytes of memory that each offers: the minimum over all.
    pub memory_bytes: u64,
    /// Whether this is memory of the host.
    pub emulated: bool,
    pub(super) numbers: Vec<usize>,
    /// Bytes of memory that each offers.
    pub(super) free: Vec<u64>,
}

/// Resources wanted from each device of an offer.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Bytes of memory of each device.
    pub memory_bytes: u64,
    /// Bytes of host memory that each copies to and from.
    pub pinned_bytes: u64,
    /// Number of threads that run kernels of emulated devices.
    pub workers: usize,
}

/// Names of devices for messages: one by one, or the first and last of many.
pub fn said(names: &[String]) -> String {
    /// Maximum number listed one by one.
    const LISTED_MAX: usize = 8;
    match names {
        [first, .., last] if names.len() > LISTED_MAX => {
            format!("{} devices from {first} to {last}", names.len())
        }
        names => names.join(", "),
    }
}

impl Offer {
    /// An offer of `count` emulated devices.
    pub fn emulated(count: usize) -> Self {
        Self {
            names: (0..count).map(|number| format!("emulated:{number}")).collect(),
            memory_bytes: EMULATED_BYTES,
            emulated: true,
            numbers: (0..count).collect(),
            free: vec![EMULATED_BYTES; count],
        }
    }

    /// Bytes of memory that each device offers, in order.
    pub fn free(&self) -> &[u64] {
        &self.free
    }

    /// Only the devices at these positions.
    pub fn only(&self, places: impl IntoIterator<Item = usize>) -> Self {
        let places: Vec<usize> = places.into_iter().collect();
        let free: Vec<u64> = places.iter().map(|place| self.free[*place]).collect();
        Self {
            names: places.iter().map(|place| self.names[*place].clone()).collect(),
            memory_bytes: free.iter().min().copied().unwrap_or(0),
            emulated: self.emulated,
            numbers: places.iter().map(|place| self.numbers[*place]).collect(),
            free,
        }
    }

    /// Number of devices.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Names of the devices for messages.
    pub fn said(&self) -> String {
        said(&self.names)
    }

    /// Name of the device that offers least memory; emulated devices are equal, so all of them.
    pub fn least(&self) -> String {
        let is_least = |(_, free): &(_, &u64)| **free == self.memory_bytes;
        let least = self.names.iter().zip(&self.free).find(is_least).filter(|_| !self.emulated);
        least.map_or_else(|| self.said(), |(name, _)| name.clone())
    }

    /// Whether there are no devices.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Part `part` of `parts`, for ranks that are threads of one process: each rank gets the same
    /// number of emulated devices; others are divided in order.
    ///
    /// # Errors
    /// If there are fewer devices than parts, or they can't be divided evenly.
    pub fn part(self, part: usize, parts: usize) -> Result<Self, String> {
        if self.emulated || parts == 1 {
            return Ok(self);
        }
        let each = self.len() / parts;
        if each == 0 || !self.len().is_multiple_of(parts) {
            let (count, names) = (self.len(), self.said());
            return Err(format!(
                "{parts} ranks cannot share {count} devices evenly ({names}): give a number \
                 of ranks that divides them, or choose device = \"host\""
            ));
        }
        Ok(self.only(part * each..(part + 1) * each))
    }
}
