//! Formats examples as lines of a Criteo log.

use std::io::Write;

use super::model::{Example, MISSING};

/// Hexadecimal digits of an id: 40 bits.
pub(super) const ID_DIGITS: usize = 10;

/// The ten hexadecimal digits of a 40-bit id.
#[inline]
pub(super) fn of_id(id: u64) -> [u8; ID_DIGITS] {
    let mut text = [0; ID_DIGITS];
    text[..2].copy_from_slice(&eight_digits((id >> 32) as u32).to_be_bytes()[6..]);
    text[2..].copy_from_slice(&eight_digits(id as u32).to_be_bytes());
    text
}

/// Eight hexadecimal digits, the first in the highest byte.
#[inline]
fn eight_digits(value: u32) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    // Each nibble moves into a separate byte.
    let halves = u64::from(value & 0xFFFF) | (u64::from(value >> 16) << 32);
    let bytes = (halves | (halves << 8)) & 0x00FF_00FF_00FF_00FF;
    let nibbles = (bytes | (bytes << 4)) & 0x0F0F_0F0F_0F0F_0F0F;
    // Adding 6 carries into the high nibble for ten and more, which become letters.
    let letters = ((nibbles + 6 * ONES) >> 4) & ONES;
    nibbles + ONES * u64::from(b'0') + letters * u64::from(b'a' - b'0' - 10)
}

/// Appends `example` as a line.
pub(super) fn append(example: &Example, text: &mut Vec<u8>) {
    text.push(b'0' + u8::from(example.click));
    for value in &example.dense {
        text.push(b'\t');
        if let Some(value) = value {
            append_number(*value, text);
        }
    }
    for id in &example.ids {
        text.push(b'\t');
        if *id != MISSING {
            text.extend_from_slice(&of_id(*id));
        }
    }
    text.push(b'\n');
}

fn append_number(value: u32, text: &mut Vec<u8>) {
    if value < 10 {
        text.push(b'0' + value as u8);
    } else {
        // Writing to a vector can't fail.
        let _ = write!(text, "{value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_ten_digits() {
        for id in [0, 1, 9, 10, 15, 16, 0x12_3456_789a, 0xfe_dcba_9876, 0xff_ffff_ffff] {
            assert_eq!(of_id(id), *format!("{id:010x}").as_bytes());
        }
    }
}
