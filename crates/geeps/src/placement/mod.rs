//! Choice of data that stays in the application's memory: the paper's policy, to the letter.
//!
//! - **Why.** A limited budget costs copies between host and device. Pinned local data is lent in
//!   place and takes no access buffer; parameter data is copied to one even if pinned, since
//!   refreshes may change the cache during the access. So local data comes first, starting with
//!   what is used at the peak, which also makes the buffers smaller.
//! - **How.** The sequence of operations determines moments: which data has access buffers at once.
//!   The moment with the most bytes is the peak, and buffers are twice that, so that the next ones
//!   are filled while these are used. Source: Cui et al., GeePS (2016), section 4.4, algorithm 2.
//! - **Order.** Where the paper says "any data", it is the first in the order of the set-up.
//! - **Invariants.** Pinned data and access buffers take exactly the bytes of the budget.

/// Whether data is shared by workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Parameter data: is copied to a buffer even if it is pinned.
    Parameters,
    /// Local data: needs no buffer if it is pinned and accessed whole.
    Local,
}

/// An entry of data, which is pinned whole or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data {
    /// Whether it is shared.
    pub kind: Kind,
    /// Size in bytes.
    pub bytes: u64,
}

/// An access buffer in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Used {
    /// The entry that it is for.
    pub data: usize,
    /// Size in bytes.
    pub bytes: u64,
    /// Whether all of the entry is accessed: local data then needs no buffer once it is pinned.
    pub is_whole: bool,
}

/// Everything that the application accesses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Entries, parameter data and local data.
    pub data: Vec<Data>,
    /// Buffers in use at each moment of an iteration.
    pub moments: Vec<Vec<Used>>,
}

/// The pinned data, and the bytes of access buffers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// By entry. // (data)
    pub pinned: Vec<bool>,
    /// The most bytes of access buffers in use at once.
    pub peak_bytes: u64,
    /// Bytes of access buffers, at least twice the peak.
    pub buffer_bytes: u64,
}

impl Usage {
    /// Bytes of access buffers at a moment, with these entries pinned.
    fn bytes(&self, moment: &[Used], pinned: &[bool]) -> u64 {
        let needs = |used: &&Used| {
            let is_local = self.data[used.data].kind == Kind::Local;
            !(is_local && used.is_whole && pinned[used.data])
        };
        moment.iter().filter(needs).map(|used| used.bytes).sum()
    }

    /// Whether any moment has a buffer for an entry: only accessed entries are placed.
    fn is_accessed(&self, entry: usize) -> bool {
        self.moments.iter().flatten().any(|used| used.data == entry)
    }

    /// The first moment with the most bytes, and these bytes.
    fn peak(&self, pinned: &[bool]) -> (usize, u64) {
        let mut peak = (0, 0);
        for (number, moment) in self.moments.iter().enumerate() {
            let bytes = self.bytes(moment, pinned);
            if bytes > peak.1 {
                peak = (number, bytes);
            }
        }
        peak
    }

    /// The number of the first moment with the most bytes when nothing is pinned, and these bytes.
    pub fn peak_unpinned(&self) -> (usize, u64) {
        self.peak(&vec![false; self.data.len()])
    }
}

/// Places data in `total_bytes` bytes; `None` if that is less than twice the peak.
pub fn place(usage: &Usage, total_bytes: u64) -> Option<Placement> {
    let Usage { data, .. } = usage;
    let mut pinned = vec![false; data.len()];
    let (_, mut peak) = usage.peak(&pinned);
    let mut available = total_bytes.checked_sub(peak.checked_mul(2)?)?;

    // First, local data that is used at the peak, as long as there is room.
    while let Some((entry, peak_then)) = local_at_peak(usage, &pinned) {
        let freed = 2 * (peak - peak_then);
        if available + freed < data[entry].bytes {
            break;
        }
        pinned[entry] = true;
        available = available + freed - data[entry].bytes;
        peak = peak_then;
    }
    // Then other local data, and parameter data.
    for kind in [Kind::Local, Kind::Parameters] {
        for (entry, data) in data.iter().enumerate().filter(|(_, data)| data.kind == kind) {
            if !pinned[entry] && usage.is_accessed(entry) && available >= data.bytes {
                pinned[entry] = true;
                available -= data.bytes;
            }
        }
    }
    Some(Placement { pinned, peak_bytes: peak, buffer_bytes: 2 * peak + available })
}

/// A placement that pins nothing, for comparison: all bytes are access buffers.
pub fn pin_none(usage: &Usage, total_bytes: u64) -> Option<Placement> {
    let (_, peak_bytes) = usage.peak_unpinned();
    let pinned = vec![false; usage.data.len()];
    let fits = total_bytes >= peak_bytes.checked_mul(2)?;
    fits.then_some(Placement { pinned, peak_bytes, buffer_bytes: total_bytes })
}

/// Unpinned local data that takes a buffer at the peak, and the peak once it is pinned.
fn local_at_peak(usage: &Usage, pinned: &[bool]) -> Option<(usize, u64)> {
    let (number, _) = usage.peak(pinned);
    let moment = usage.moments.get(number)?;
    let at_peak = |entry: &usize| moment.iter().any(|used| used.data == *entry && used.is_whole);
    let is_wanted = |entry: &usize| usage.data[*entry].kind == Kind::Local && !pinned[*entry];
    let entry = (0..usage.data.len()).filter(is_wanted).find(at_peak)?;
    let mut then = pinned.to_vec();
    then[entry] = true;
    Some((entry, usage.peak(&then).1))
}

#[cfg(test)]
mod tests;
