//! What can go wrong between ranks; every error names the rank.

use crate::Malformed;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why ranks cannot go on together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A rank ended and said why.
    #[error("rank {rank} failed: {why}")]
    Failed {
        /// The rank.
        rank: usize,
        /// Its own words.
        why: String,
    },
    /// A rank ended in good order, and something was still expected of it.
    #[error("rank {rank} has ended, and other ranks still need it")]
    Ended {
        /// The rank.
        rank: usize,
    },
    /// A rank went without a word.
    #[error("rank {rank} is lost: {why}")]
    Lost {
        /// The rank.
        rank: usize,
        /// How that shows.
        why: String,
    },
    /// A message that nobody could have sent.
    #[error("a message of rank {rank} makes no sense: {source}; do all ranks run the same build?")]
    Malformed {
        /// Who sent it.
        rank: usize,
        /// What is wrong with it.
        source: Malformed,
    },
    /// A rank sends more than it may before others take it.
    #[error("rank {rank} has {count} messages of tag {tag} waiting: this is a bug in stepwell")]
    Flooded {
        /// Who sends.
        rank: usize,
        /// Under which tag.
        tag: u16,
        /// Messages that wait.
        count: usize,
    },
    /// What joins the ranks does not work.
    #[error("the ranks are not joined: {why}")]
    Carrier {
        /// The carrier's reason.
        why: String,
    },
    /// A parcel cannot be sent.
    #[error("cannot send to rank {rank}: {why}")]
    Refused {
        /// Whom it was for.
        rank: usize,
        /// The carrier's reason.
        why: String,
    },
}

impl Error {
    /// `source` about a message of rank `rank`.
    pub fn malformed(rank: usize, source: Malformed) -> Self {
        Self::Malformed { rank, source }
    }
}
