//! Messages of RNA.

use stepwell_fabric::{Error, Fabric, Message, Result, Tag};

pub(super) const REDUCE: [Tag; 2] = [Tag(0x5340), Tag(0x5341)];
pub(super) const PROBE: Tag = Tag(0x5342);
pub(super) const READY: Tag = Tag(0x5343);
pub(super) const GO: Tag = Tag(0x5344);
/// A group's changes for the server, and the parameters that it returns.
pub(super) const PUSH: Tag = Tag(0x5345);
pub(super) const PULL: Tag = Tag(0x5346);
/// From a group's initiator to its members.
pub(super) const SPREAD: Tag = Tag(0x5347);
/// The rank with the server.
pub(super) const SERVER: usize = 0;

pub(super) fn send_numbers(fabric: &Fabric, to: usize, tag: Tag, numbers: &[u64]) -> Result<()> {
    let mut message = fabric.message();
    message.put(numbers);
    fabric.send(to, tag, message)
}

/// Reads a message of [`send_numbers`].
pub(super) fn number<const COUNT: usize>(from: usize, message: &Message) -> Result<[u64; COUNT]> {
    let read = message.reader().take_exactly::<u64>(COUNT);
    let numbers = read.map_err(|why| Error::malformed(from, why))?;
    let Ok(numbers) = numbers.try_into() else { unreachable!("COUNT numbers were taken") };
    Ok(numbers)
}
