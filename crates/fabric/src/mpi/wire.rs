//! The form of a parcel in transit: the words of its message and two more at the end.
//!
//! Words at the end can be added and removed without a copy of the message.

use crate::carrier::{Parcel, Tag, WindowNumber};
use crate::message::{Malformed, Message};

/// Number of words added to a message.
pub(super) const TRAILER: usize = 2;

const MESSAGE: u64 = 1;
const PUT: u64 = 2;
const FAILED: u64 = 3;
const ENDED: u64 = 4;
const GONE: u64 = 5;

pub(super) const MALFORMED: Malformed = Malformed::Wrong("its kind is unknown");

/// An arrival from another rank.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Came {
    Parcel(Parcel),
    /// Nothing more arrives, not even signs of life.
    Gone,
}

fn with(message: Message, kind: u64, number: u16, offset: u64) -> Vec<u64> {
    let mut words = message.into_words();
    words.reserve_exact(TRAILER);
    words.push(kind << 16 | u64::from(number));
    words.push(offset);
    words
}

/// Packs `parcel` into words.
pub(super) fn pack(parcel: Parcel) -> Vec<u64> {
    match parcel {
        Parcel::Message(tag, message) => with(message, MESSAGE, tag.0, 0),
        Parcel::Put(window, offset, message) => with(message, PUT, window.0, offset),
        Parcel::Failed(why) => {
            let mut message = Message::new();
            message.put(why.as_bytes());
            with(message, FAILED, 0, 0)
        }
        Parcel::Ended => with(Message::new(), ENDED, 0, 0),
    }
}

/// The last parcel of a rank.
pub(super) fn gone() -> Vec<u64> {
    with(Message::new(), GONE, 0, 0)
}

/// The window, the offset, and the number of bytes after the first word, if `words` are a put;
/// `None` otherwise.
pub(super) fn as_put(words: &[u64]) -> Option<(WindowNumber, u64, usize)> {
    let [bytes, .., kind, offset] = words else { return None };
    let bytes = usize::try_from(*bytes).ok();
    let bytes = bytes.filter(|bytes| bytes.div_ceil(size_of::<u64>()) <= words.len() - 3)?;
    (kind >> 16 == PUT).then_some((WindowNumber(*kind as u16), *offset, bytes))
}

/// Unpacks `words`.
pub(super) fn unpack(mut words: Vec<u64>) -> Result<Came, Malformed> {
    let (offset, kind) = (words.pop(), words.pop());
    let (Some(offset), Some(kind)) = (offset, kind) else { return Err(MALFORMED) };
    let number = kind as u16;
    let message = Message::from_words(words);
    Ok(Came::Parcel(match kind >> 16 {
        MESSAGE => Parcel::Message(Tag(number), message),
        PUT => Parcel::Put(WindowNumber(number), offset, message),
        FAILED => {
            let why = message.reader().take::<u8>()?;
            Parcel::Failed(String::from_utf8_lossy(why).into_owned())
        }
        ENDED => Parcel::Ended,
        GONE => return Ok(Came::Gone),
        _ => return Err(MALFORMED),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parcels_arrive_as_they_were() {
        let mut message = Message::new();
        message.put(&[1u32, 2, 3]);
        for parcel in [
            Parcel::Message(Tag(65_535), message.clone()),
            Parcel::Message(Tag(0), Message::new()),
            Parcel::Put(WindowNumber(9), u64::MAX, message),
            Parcel::Failed("the disk is full".to_owned()),
            Parcel::Ended,
        ] {
            assert_eq!(unpack(pack(parcel.clone())), Ok(Came::Parcel(parcel)));
        }
        assert_eq!(unpack(gone()), Ok(Came::Gone));
    }

    #[test]
    fn puts_are_known_without_taking_them_apart() {
        let mut message = Message::new();
        message.put(&[1u8, 2, 3]);
        let put = pack(Parcel::Put(WindowNumber(9), 5, message.clone()));
        assert_eq!(as_put(&put), Some((WindowNumber(9), 5, 3)));
        let others = [pack(Parcel::Message(Tag(9), message)), gone(), vec![u64::MAX, PUT << 16, 0]];
        assert!(others.iter().all(|words| as_put(words).is_none()));
    }

    #[test]
    fn whatever_comes_is_an_error_and_no_panic() {
        for words in [vec![], vec![1], vec![0, 0], vec![99 << 16, 0], vec![FAILED << 16, 0]] {
            assert!(unpack(words.clone()).is_err(), "{words:?}");
        }
    }
}
