//! Bounds of a server's answers.

use std::io::ErrorKind;

use crate::fault::Fault;

/// The most names of a listing: more are probably a mistake.
const NAMES_MAX: usize = 1 << 20;

/// Refuses a listing of too many names.
pub(crate) fn check_names(names: usize) -> Result<(), Fault> {
    if names <= NAMES_MAX {
        return Ok(());
    }
    let why = format!("more than {NAMES_MAX} objects are there: name fewer of them");
    Err(Fault::lasting(ErrorKind::InvalidInput, why))
}

/// Appends a piece of an answer, which must not exceed the requested bytes.
pub(crate) fn take(piece: &[u8], room: &mut u64, bytes: &mut Vec<u8>) -> Result<(), Fault> {
    let Some(left) = room.checked_sub(piece.len() as u64) else {
        let why = "the server sends more than was requested: it cannot be read in parts";
        return Err(Fault::lasting(ErrorKind::Other, why));
    };
    *room = left;
    bytes.extend_from_slice(piece);
    Ok(())
}
