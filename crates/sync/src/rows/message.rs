//! Messages between ranks and owners of rows. All messages of a rank to an owner have the same tag,
//! so that they are received in order.

use stepwell_base::Key;
use stepwell_fabric::{Error, Fabric, Malformed, Message, Result, Tag};

use crate::number::Number;

/// From a rank to an owner.
pub(super) const ASK: Tag = Tag(0x5350);
/// From an owner to a rank: weights.
pub(super) const ROWS: Tag = Tag(0x5351);

const PULL: u64 = 1;
const PUSH: u64 = 2;
const CLOCK: u64 = 3;
const END: u64 = 4;

/// A message of a rank to an owner.
pub(super) enum Said<'a, T> {
    /// The rank's clock, and the keys of the rows that it needs, distinct and in any order.
    Pull(u64, &'a [u64]),
    /// Gradient of the rows that the rank last asked for.
    Push(&'a [T]),
    /// The rank's clock, while it computes nothing.
    Clock(u64),
    /// The rank asks for no more rows.
    End,
}

impl<'a, T: Number> Said<'a, T> {
    pub(super) fn message(&self, fabric: &Fabric) -> Message {
        let bytes = match self {
            Self::Pull(_, keys) => size_of_val(*keys),
            Self::Push(gradient) => size_of_val(*gradient),
            Self::Clock(_) | Self::End => 0,
        };
        let mut message = fabric.message_of(bytes + 48);
        match self {
            Self::Pull(clock, keys) => {
                message.put(&[PULL, *clock]);
                message.put(keys);
            }
            Self::Push(gradient) => {
                message.put(&[PUSH, 0]);
                message.put(gradient);
            }
            Self::Clock(clock) => message.put(&[CLOCK, *clock]),
            Self::End => message.put(&[END, 0]),
        }
        message
    }

    pub(super) fn read(from: usize, message: &'a Message) -> Result<Self> {
        let read = || {
            let mut reader = message.reader();
            let head = reader.take_exactly::<u64>(2)?;
            let said = match head[0] {
                PULL => Self::Pull(head[1], reader.take::<u64>()?),
                PUSH => Self::Push(reader.take::<T>()?),
                CLOCK => Self::Clock(head[1]),
                END => Self::End,
                _ => return Err(Malformed::Wrong("it is of an unknown kind")),
            };
            reader.end()?;
            Ok(said)
        };
        read().map_err(|why| Error::malformed(from, why))
    }
}

/// An owner's answer to a rank: the clock of the request, and the weights.
pub(super) fn answer<T: Number>(fabric: &Fabric, clock: u64, weights: &[T]) -> Message {
    let mut message = fabric.message_of(size_of_val(weights) + 40);
    message.put(&[clock]);
    message.put(weights);
    message
}

/// The `count` weights in the answer of `from` to a request at `clock`.
pub(super) fn answered<T: Number>(
    from: usize,
    message: &Message,
    clock: u64,
    count: usize,
) -> Result<&[T]> {
    let read = || {
        let mut reader = message.reader();
        if reader.take_exactly::<u64>(1)? != [clock] {
            return Err(Malformed::Wrong("it answers another request"));
        }
        let weights = reader.take_exactly::<T>(count)?;
        reader.end()?;
        Ok(weights)
    };
    read().map_err(|why| Error::malformed(from, why))
}

/// Copies keys in the form of messages.
pub(super) fn numbers(keys: &[Key], numbers: &mut Vec<u64>) {
    numbers.clear();
    numbers.extend(keys.iter().map(|key| key.0));
}
