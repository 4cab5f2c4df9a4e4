//! The interface of carriers, which take parcels from one rank to another.

use std::fmt::Debug;

use crate::Result;
use crate::message::Message;

/// Subject of a message; messages are ordered within a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u16);

/// Identifies a window, the same on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WindowNumber(pub u16);

/// Something on its way from one rank to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parcel {
    /// A message to be received under this tag.
    Message(Tag, Message),
    /// Bytes for a window: the first section of the message, at this offset.
    Put(WindowNumber, u64, Message),
    /// The sender failed, for this reason.
    Failed(String),
    /// The sender has sent everything.
    Ended,
}

impl Parcel {
    /// Bytes of its message; 0 without one.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Message(_, message) | Self::Put(_, _, message) => message.bytes(),
            Self::Failed(_) | Self::Ended => 0,
        }
    }
}

/// Ranks that know a new patience.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownBy {
    /// This one; others may still use the previous patience.
    ThisRank,
    /// All ranks.
    AllRanks,
}

/// Takes parcels to other ranks.
pub trait Carrier: Send + Sync + Debug {
    /// Takes `parcel` to rank `to`, another rank. Parcels to a rank arrive in its [`crate::Inbox`]
    /// in this order. Returns the message if it was copied, so that its buffer can be reused.
    ///
    /// # Errors
    /// If it will not arrive.
    fn carry(&self, to: usize, parcel: Parcel) -> Result<Option<Message>>;

    /// Notes that this rank has opened a window of `_bytes` bytes. A carrier that lets others put
    /// into it without this rank's help does so once all ranks have opened theirs.
    fn opened(&self, _window: WindowNumber, _bytes: usize) {}

    /// Changes the number of seconds after which a silent rank is lost. Does nothing if ranks
    /// cannot vanish.
    fn be_patient(&self, _seconds: f64, _known_by: KnownBy) {}

    /// Whether parcels take time in flight, so that sending early overlaps with computing; false if
    /// carrying a parcel is a copy made by the sender.
    fn takes_time(&self) -> bool {
        true
    }
}
