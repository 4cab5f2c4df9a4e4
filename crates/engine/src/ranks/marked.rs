//! Marks some of the rows that a rank requested: one bit per row, or their numbers if that is
//! shorter.

use stepwell_fabric::{Malformed, Message, Reader};

const WRONG: Malformed = Malformed::Wrong("its marks of rows are invalid");

/// Marks in `message` the rows of `count` rows with the numbers `marked`, which ascend.
pub(crate) fn put(message: &mut Message, count: usize, marked: &[u32]) {
    if size_of_val(marked) < count.div_ceil(8) {
        return message.put(marked);
    }
    let bits: &mut [u8] = message.room(count.div_ceil(8));
    marked.iter().for_each(|row| bits[*row as usize / 8] |= 1 << (row % 8));
}

/// Reads marks that [`put`] wrote: one for each of `count` rows, or none if no row is marked.
pub(crate) fn read(reader: &mut Reader<'_>, count: usize) -> Result<Vec<bool>, Malformed> {
    let bytes: &[u8] = reader.take()?;
    if bytes.len() == count.div_ceil(8) {
        let bit = |row: usize| bytes[row / 8] >> (row % 8) & 1 == 1;
        return Ok((0..count).map(bit).collect());
    }
    let numbers: &[u32] = bytemuck::try_cast_slice(bytes).map_err(|_| WRONG)?;
    if numbers.is_empty() {
        return Ok(Vec::new());
    }
    let mut marked = vec![false; count];
    for number in numbers {
        *marked.get_mut(*number as usize).ok_or(WRONG)? = true;
    }
    Ok(marked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_is_read() {
        for count in [0, 1, 7, 8, 9, 33, 64, 1000] {
            for every in [1, 3, 50, 400, usize::MAX] {
                let changed: Vec<u32> = (0..count as u32).step_by(every).skip(1).collect();
                let mut message = Message::new();
                put(&mut message, count, &changed);
                assert!(message.bytes() <= 8 + count.div_ceil(64) * 8, "{count}, {every}");
                let mut reader = message.reader();
                let read = read(&mut reader, count).unwrap();
                assert_eq!(reader.end(), Ok(()));
                let read: Vec<u32> =
                    (0..).zip(read).filter(|(_, changes)| *changes).map(|(row, _)| row).collect();
                assert_eq!(read, changed, "{count}, {every}");
            }
        }
    }

    #[test]
    fn what_says_nothing_of_these_rows_is_refused() {
        let of = |words: &[u32]| {
            let mut message = Message::new();
            message.put(words);
            read(&mut message.reader(), 1000).map(|_| ())
        };
        assert_eq!(of(&[0, 999]), Ok(()));
        assert_eq!(of(&[1000]), Err(WRONG));
        let mut odd = Message::new();
        odd.put(&[1u8, 2, 3]);
        assert_eq!(read(&mut odd.reader(), 1000), Err(WRONG));
        assert!(read(&mut Message::new().reader(), 1000).is_err());
    }
}
