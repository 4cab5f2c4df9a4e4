//! A carrier that fails on demand, around another one.
//!
//! Fault model: the faults of [`Faults`] and no others; parcels are counted from 1, over all
//! receivers:
//! - *refused*: the n-th parcel is refused with an error and does not arrive.
//! - *damaged*: the n-th parcel, if it is a message, arrives without its last word.
//! - *silent*: from the n-th parcel on nothing arrives, without an error.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::carrier::{Carrier, KnownBy, Parcel, WindowNumber};
use crate::message::Message;
use crate::{Error, Result};

/// The faults to produce.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// The parcel that is refused.
    pub refused: Option<u64>,
    /// The message that is damaged.
    pub damaged: Option<u64>,
    /// The first parcel that never arrives.
    pub silent: Option<u64>,
}

/// A carrier that fails on demand.
#[derive(Debug)]
pub struct FaultyCarrier {
    inner: Arc<dyn Carrier>,
    faults: Faults,
    carried: AtomicU64,
}

impl FaultyCarrier {
    /// The carrier `inner` with faults.
    pub fn new(inner: Arc<dyn Carrier>, faults: Faults) -> Self {
        Self { inner, faults, carried: AtomicU64::new(0) }
    }
}

impl Carrier for FaultyCarrier {
    fn carry(&self, to: usize, parcel: Parcel) -> Result<Option<Message>> {
        let number = self.carried.fetch_add(1, Ordering::Relaxed) + 1;
        let Faults { refused, damaged, silent } = self.faults;
        if refused == Some(number) {
            return Err(Error::Refused { rank: to, why: "as it was told to".to_owned() });
        }
        if silent.is_some_and(|first| number >= first) {
            return Ok(None);
        }
        match parcel {
            Parcel::Message(tag, message) if damaged == Some(number) => {
                let mut words = message.words().to_vec();
                words.pop();
                self.inner.carry(to, Parcel::Message(tag, Message::from_words(words)))
            }
            parcel => self.inner.carry(to, parcel),
        }
    }

    fn opened(&self, window: WindowNumber, bytes: usize) {
        self.inner.opened(window, bytes);
    }

    fn be_patient(&self, seconds: f64, known_by: KnownBy) {
        self.inner.be_patient(seconds, known_by);
    }

    fn takes_time(&self) -> bool {
        self.inner.takes_time()
    }
}
