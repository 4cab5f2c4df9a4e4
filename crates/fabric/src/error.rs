//! Errors between ranks; every one names the rank.

use crate::message::Malformed;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why ranks cannot continue together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A rank failed and sent its reason.
    #[error("rank {rank} failed: {why}")]
    Failed {
        /// The rank.
        rank: usize,
        /// Reason that the rank sent.
        why: String,
    },
    /// A rank ended normally, but something was still expected of it.
    #[error("rank {rank} has ended, but other ranks still need it")]
    Ended {
        /// The rank.
        rank: usize,
    },
    /// A rank vanished.
    #[error("rank {rank} is lost: {why}")]
    Lost {
        /// The rank.
        rank: usize,
        /// The evidence.
        why: String,
    },
    /// A message that no correct rank sends.
    #[error(
        "a message from rank {rank} makes no sense: {source}; do all ranks run the same build?"
    )]
    Malformed {
        /// The sender.
        rank: usize,
        /// What is wrong with it.
        source: Malformed,
    },
    /// A rank sends more messages than may wait to be taken.
    #[error("rank {rank} has {count} messages of tag {tag} waiting: this is a bug in stepwell")]
    Flooded {
        /// The sender.
        rank: usize,
        /// The messages' tag.
        tag: u16,
        /// Number of waiting messages.
        count: usize,
    },
    /// The connection between ranks does not work.
    #[error("the ranks are not connected: {why}")]
    Carrier {
        /// The carrier's reason.
        why: String,
    },
    /// A parcel cannot be sent.
    #[error("cannot send to rank {rank}: {why}")]
    Refused {
        /// The receiver.
        rank: usize,
        /// The carrier's reason.
        why: String,
    },
}

impl Error {
    /// `source` in a message of rank `rank`.
    pub fn malformed(rank: usize, source: Malformed) -> Self {
        Self::Malformed { rank, source }
    }
}
