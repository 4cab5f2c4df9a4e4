//! The seam: who takes parcels from one rank to another.

use std::fmt::Debug;

use crate::{Message, Result};

/// What a message is about; the order of messages counts within one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u16);

/// Names a window, the same on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WindowNumber(pub u16);

/// Something on its way from one rank to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parcel {
    /// To be received under this tag.
    Message(Tag, Message),
    /// Bytes for a window: the first section of the message, from this offset on.
    Put(WindowNumber, u64, Message),
    /// The sender failed, for this reason.
    Failed(String),
    /// The sender has sent all that it will ever send.
    Ended,
}

impl Parcel {
    /// Bytes of its message; none where there is none.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Message(_, message) | Self::Put(_, _, message) => message.bytes(),
            Self::Failed(_) | Self::Ended => 0,
        }
    }
}

/// Takes parcels to other ranks.
pub trait Carrier: Send + Sync + Debug {
    /// Takes `parcel` on its way to rank `to`, another one. Parcels to a rank arrive in its
    /// [`crate::Inbox`] in this order. Memory of a message that was copied is given back.
    ///
    /// # Errors
    /// When it will not arrive.
    fn carry(&self, to: usize, parcel: Parcel) -> Result<Option<Message>>;

    /// This rank has opened a window of so many bytes. A carrier that can have others put into it
    /// without this rank's help does so from the time on when all ranks have opened theirs.
    fn opened(&self, _window: WindowNumber, _bytes: usize) {}

    /// A rank that is not heard of for so many seconds is lost; as long as not `all_know` it, the
    /// others may still be as patient as before. Where no rank can go without a word, there is
    /// nothing to do.
    fn be_patient(&self, _seconds: f64, _all_know: bool) {}

    /// Whether parcels take time of their own: what is sent before it is needed travels while ranks
    /// compute. Not where carrying one is a copy that the sender makes.
    fn takes_time(&self) -> bool {
        true
    }
}
