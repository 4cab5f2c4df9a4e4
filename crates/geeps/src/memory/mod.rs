//! Memory lent to the application, storage of data, and moves between them.
//!
//! ```text
//!   Store (a cache, local data)                       Piece (an access buffer)
//!     Host    memory of the host        ── fetch ──►    Host    memory of the host
//!     Swap    … that a device copies    ◄── save ───    Device  memory of a device, and the
//!     Placed  pinned: a piece itself                            events after which it is used
//!     Lent    pinned, and handed out
//! ```
//!
//! - **How.** With [`Place::Host`] all of it is slices, and moves happen at once. With
//!   [`Place::Device`] operations go to streams (`device.rs`): memory carries the event of its last
//!   operation, and the next user waits for that in its own stream. No call here waits.
//! - **Busy.** Pinned memory comes from a pool, so a call that needs some may have to be repeated
//!   once an event is over.

mod device;
mod host;

use std::sync::Arc;

use stepwell_device::Event;

pub(crate) use self::device::{DeviceMemory, DevicePiece, Staged, Swap};
use crate::Result;
use crate::layout::{Chosen, Index};
use crate::settings::{Place, Settings};

/// An access buffer. // (rows of the access, row_floats)
#[derive(Debug)]
pub(crate) enum Piece {
    Host(Vec<f32>),
    Device(DevicePiece),
}

impl Piece {
    pub(crate) fn floats(&self) -> usize {
        match self {
            Self::Host(values) => values.len(),
            Self::Device(piece) => piece.floats(),
        }
    }

    /// An event of an unfinished operation on it, if there is one.
    pub(crate) fn under_way(&self) -> Result<Option<Arc<Event>>> {
        match self {
            Self::Host(_) => Ok(None),
            Self::Device(piece) => piece.under_way(),
        }
    }
}

/// Storage of data. // (rows, row_floats)
#[derive(Debug)]
pub(crate) enum Store {
    Host(Vec<f32>),
    Swap(Swap),
    Placed(Piece),
    Lent,
}

/// Outcome of a move that may have to wait.
#[derive(Debug)]
pub(crate) enum Moved<T = ()> {
    Now(T),
    /// To be repeated once this is over.
    Busy(Arc<Event>),
}

/// Allocates memory and moves its content.
#[derive(Debug)]
pub(crate) struct Memory {
    device: Option<DeviceMemory>,
    /// Whether rows are moved in one pass.
    batched: bool,
    /// Whether indexes are copied to the device for kernels.
    raises: bool,
    /// Bytes copied to the application's memory, and from it.
    copied: [u64; 2],
}

impl Memory {
    pub(crate) fn new(settings: &Settings) -> Result<Self> {
        let Settings { batched, indexed, rules, .. } = *settings;
        let device = match &settings.place {
            Place::Host => None,
            Place::Device(device) => Some(DeviceMemory::new(device, batched, rules)?),
        };
        Ok(Self { device, batched, raises: batched && indexed, copied: [0, 0] })
    }

    /// Allocates memory of the application's kind.
    pub(crate) fn piece(&self, floats: usize) -> Result<Piece> {
        match &self.device {
            None => Ok(Piece::Host(vec![0.0; floats])),
            Some(device) => Ok(Piece::Device(device.piece(floats)?)),
        }
    }

    /// Allocates zeroed memory for local data that is not pinned.
    pub(crate) fn swap(&self, floats: usize) -> Result<Store> {
        match &self.device {
            None => Ok(Store::Host(vec![0.0; floats])),
            Some(device) => Ok(Store::Swap(device.swap(floats)?)),
        }
    }

    /// Fills `to` with zeros.
    pub(crate) fn clear(&mut self, to: &mut Piece) -> Result<()> {
        match (to, &mut self.device) {
            (Piece::Host(values), _) => values.fill(0.0),
            (Piece::Device(piece), Some(device)) => device.clear(piece)?,
            (Piece::Device(_), None) => unreachable!("a device's piece without a device"),
        }
        Ok(())
    }

    /// Copies rows of `from` to `to`, one after another.
    pub(crate) fn fetch(
        &mut self,
        from: &mut Store,
        chosen: Chosen<'_>,
        to: &mut Piece,
    ) -> Result<Moved> {
        let is_up = !matches!(from, Store::Placed(_));
        let moved = match (from, to, &mut self.device) {
            (Store::Host(from) | Store::Placed(Piece::Host(from)), Piece::Host(to), _) => {
                host::gather(from, chosen, to, self.batched);
                Moved::Now(())
            }
            (Store::Host(from), Piece::Device(to), Some(device)) => {
                device.raise(from, chosen, to)?
            }
            (Store::Swap(from), Piece::Device(to), Some(device)) => {
                Moved::Now(device.swap_in(from, chosen, to)?)
            }
            (Store::Placed(Piece::Device(from)), Piece::Device(to), Some(device)) => {
                Moved::Now(device.gather(from, chosen, to)?)
            }
            (from, to, _) => unreachable!("no fetch from {from:?} to {to:?}"),
        };
        if is_up && matches!(moved, Moved::Now(())) {
            self.copied[0] += 4 * chosen.floats() as u64;
        }
        Ok(moved)
    }

    /// Copies `from` to rows of `to`, the reverse of [`Self::fetch`].
    pub(crate) fn save(
        &mut self,
        from: &mut Piece,
        chosen: Chosen<'_>,
        to: &mut Store,
    ) -> Result<()> {
        if !matches!(to, Store::Placed(_)) {
            self.copied[1] += 4 * chosen.floats() as u64;
        }
        match (from, to, &mut self.device) {
            (Piece::Host(from), Store::Host(to) | Store::Placed(Piece::Host(to)), _) => {
                host::scatter(from, chosen, to, self.batched);
                Ok(())
            }
            (Piece::Device(from), Store::Swap(to), Some(device)) => {
                device.swap_out(from, chosen, to)
            }
            (Piece::Device(from), Store::Placed(Piece::Device(to)), Some(device)) => {
                device.scatter(from, chosen, to)
            }
            (from, to, _) => unreachable!("no save from {from:?} to {to:?}"),
        }
    }

    /// Copies `values` to `to`, from float `at` on.
    pub(crate) fn refresh(&mut self, to: &mut Store, at: usize, values: &[f32]) -> Result<Moved> {
        let is_up = matches!(to, Store::Placed(_));
        let moved = match (to, &mut self.device) {
            (Store::Host(to) | Store::Placed(Piece::Host(to)), _) => {
                to[at..at + values.len()].copy_from_slice(values);
                Moved::Now(())
            }
            (Store::Placed(Piece::Device(to)), Some(device)) => device.refresh(to, at, values)?,
            (to, _) => unreachable!("no refresh of {to:?}"),
        };
        if is_up && matches!(moved, Moved::Now(())) {
            self.copied[0] += 4 * values.len() as u64;
        }
        Ok(moved)
    }

    /// Begins to copy a piece of a device to the host.
    pub(crate) fn lower(&mut self, from: &mut DevicePiece) -> Result<Moved<Staged>> {
        let Some(device) = &mut self.device else {
            unreachable!("a device's piece without a device")
        };
        let staged = device.lower(from)?;
        if matches!(staged, Moved::Now(_)) {
            self.copied[1] += 4 * from.floats() as u64;
        }
        Ok(staged)
    }

    /// Takes back the result of [`Memory::lower`].
    pub(crate) fn give_back(&mut self, staged: Staged) {
        if let Some(device) = &mut self.device {
            device.give_back(staged);
        }
    }

    /// Copies the places of an index to where kernels find them.
    pub(crate) fn raise_index(&mut self, index: &mut Index) -> Result<()> {
        match &mut self.device {
            Some(device) if self.raises => device.raise_index(index),
            _ => Ok(()),
        }
    }

    /// Bytes of the application's memory for an index of `keys` keys.
    pub(crate) fn index_bytes(&self, keys: usize) -> u64 {
        if self.device.is_some() && self.raises { bytes_counted(keys) } else { 0 }
    }

    /// Bytes copied to the application's memory, and from it.
    pub(crate) fn copied(&self) -> [u64; 2] {
        self.copied
    }

    /// An event for a stream of the application; `None` without a device.
    pub(crate) fn event(&self) -> Result<Option<Event>> {
        self.device.as_ref().map(DeviceMemory::event).transpose()
    }

    /// Waits until all operations begun are over.
    pub(crate) fn finish(&self) -> Result<()> {
        self.device.as_ref().map_or(Ok(()), DeviceMemory::finish)
    }
}

/// Bytes that `values` floats, or places, count as.
pub(crate) fn bytes_counted(values: usize) -> u64 {
    stepwell_device::Device::bytes_counted(4 * values as u64)
}
