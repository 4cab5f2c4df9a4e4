//! Messages between caches and shards.
//!
//! ```text
//!   push      cache ──► shard   [digest, clock, rows]  touched rows (u32)  values (f32)
//!   snapshot  shard ──► cache   [age, clock of the receiver]  values of the shard's part (f32)
//!   credit    cache ──► shard   nothing: a snapshot was taken, another may come
//!   ended     cache ──► shard   nothing: no push and no credit will follow
//!             shard ──► cache   nothing, after that: no snapshot will follow
//! ```
//!
//! - **Touched rows** are numbered within the part of the shard; if all were touched, none is
//!   listed. `rows` is their number.
//! - **Tags.** Three for each table; the very last one announces a rank's end.

use stepwell_fabric::{Malformed, Message, Tag};

use crate::layout::Layout;

/// Kind of a message between cache and shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum About {
    Push,
    Snapshot,
    Credit,
}

/// The tag of messages about table number `table`.
pub(crate) fn tag(first: u16, table: usize, about: About) -> Tag {
    Tag(first + 3 * table as u16 + about as u16)
}

/// The tag by which ranks announce that no push will follow, and later, that nothing will.
pub(crate) fn ended(first: u16, tables: usize) -> Tag {
    Tag(first + 3 * tables as u16)
}

/// Updates of one worker in one clock for one shard.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Push<'a> {
    pub(crate) digest: u64,
    pub(crate) clock: u64,
    rows: usize,
    /// Empty if all rows were touched.
    touched: &'a [u32],
    values: &'a [f32],
}

impl<'a> Push<'a> {
    /// Puts a push without its values, for the `touched` rows of a part with `rows` rows.
    pub(crate) fn put(
        message: &mut Message,
        digest: u64,
        clock: u64,
        rows: usize,
        touched: &[u32],
    ) {
        message.put(&[digest, clock, touched.len() as u64]);
        message.put(if touched.len() == rows { &[] } else { touched });
    }

    /// Reads a push for a part of `rows` rows of `row_floats` floats.
    pub(crate) fn read(
        message: &'a Message,
        rows: usize,
        row_floats: usize,
    ) -> Result<Self, Malformed> {
        let mut reader = message.reader();
        let head = reader.take_exactly::<u64>(3)?;
        let touched = reader.take::<u32>()?;
        let count = usize::try_from(head[2]).unwrap_or(usize::MAX);
        let is_all = touched.is_empty() && count == rows;
        if !is_all && touched.len() != count {
            return Err(Malformed::Wrong("its number of rows is not the announced one"));
        }
        if touched.iter().any(|row| *row as usize >= rows) {
            return Err(Malformed::Wrong("it updates a row that the shard does not have"));
        }
        let values = reader.take_exactly::<f32>(count * row_floats)?;
        reader.end()?;
        Ok(Self { digest: head[0], clock: head[1], rows, touched, values })
    }

    /// Adds its values to `part`, the shard's rows.
    pub(crate) fn apply(&self, part: &mut [f32], row_floats: usize) {
        let mut add = |row: usize, values: &[f32]| {
            let row = &mut part[row * row_floats..(row + 1) * row_floats];
            row.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
        };
        let values = self.values.chunks_exact(row_floats);
        if self.touched.is_empty() && !self.values.is_empty() {
            (0..self.rows).zip(values).for_each(|(row, values)| add(row, values));
        } else {
            self.touched.iter().zip(values).for_each(|(row, values)| add(*row as usize, values));
        }
    }
}

/// Rows of a shard.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Snapshot<'a> {
    pub(crate) age: u64,
    /// Number of the receiver's clocks whose updates are included.
    pub(crate) own: u64,
    pub(crate) values: &'a [f32],
}

impl<'a> Snapshot<'a> {
    pub(crate) fn put(&self, message: &mut Message) {
        message.put(&[self.age, self.own]);
        message.put(self.values);
    }

    pub(crate) fn read(
        message: &'a Message,
        layout: &Layout,
        shard: usize,
    ) -> Result<Self, Malformed> {
        let mut reader = message.reader();
        let head = reader.take_exactly::<u64>(2)?;
        let floats = layout.parts[shard].len() * layout.rows.row_floats;
        let values = reader.take_exactly::<f32>(floats)?;
        reader.end()?;
        Ok(Self { age: head[0], own: head[1], values })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(all: usize, touched: &[u32], values: &[f32]) -> Message {
        let mut message = Message::new();
        Push::put(&mut message, 7, 3, all, touched);
        message.put(values);
        message
    }

    #[test]
    fn touched_rows_are_added_and_others_left_alone() {
        let mut part = vec![-0.0; 6];
        let some = push(3, &[2, 0], &[1.0, 2.0, 3.0, 4.0]);
        let some = Push::read(&some, 3, 2).unwrap();
        assert_eq!((some.digest, some.clock), (7, 3));
        some.apply(&mut part, 2);
        assert_eq!(part, [3.0, 4.0, 0.0, 0.0, 1.0, 2.0]);
        assert!(part[2].is_sign_negative(), "its bits stay");
        let all = push(3, &[0, 1, 2], &[1.0; 6]);
        assert!(all.bytes() < push(4, &[0, 1, 2], &[1.0; 6]).bytes());
        Push::read(&all, 3, 2).unwrap().apply(&mut part, 2);
        assert_eq!(part, [4.0, 5.0, 1.0, 1.0, 2.0, 3.0]);
        let none = push(3, &[], &[]);
        Push::read(&none, 3, 2).unwrap().apply(&mut part, 2);
        assert_eq!(part, [4.0, 5.0, 1.0, 1.0, 2.0, 3.0]);
        let of_nothing = push(0, &[], &[]);
        Push::read(&of_nothing, 0, 2).unwrap().apply(&mut [], 2);
    }

    #[test]
    fn what_nobody_could_have_sent_is_an_error() {
        let wrong = [
            push(3, &[3], &[1.0, 1.0]),
            push(3, &[1], &[1.0]),
            push(4, &[0, 1, 2, 3], &[1.0; 8]),
            Message::new(),
        ];
        for message in &wrong {
            Push::read(message, 3, 2).unwrap_err();
        }
        let right = push(3, &[0, 2], &[1.0; 4]);
        for length in 0..right.words().len() {
            let cut = Message::from_words(right.words()[..length].to_vec());
            Push::read(&cut, 3, 2).unwrap_err();
        }
    }

    #[test]
    fn tags_of_tables_differ() {
        let abouts = [About::Push, About::Snapshot, About::Credit];
        let mut tags: Vec<u16> =
            (0..4).flat_map(|table| abouts.map(|about| tag(5, table, about).0)).collect();
        tags.push(ended(5, 4).0);
        assert_eq!(tags, (5..18).collect::<Vec<_>>());
    }
}
