//! Copies of other ranks' rows, which a rank pools for the current mini-batch.

use std::borrow::Cow;

use stepwell_base::SlotIndex;
use stepwell_base::slab::Slab;
use stepwell_fabric::{Error, Malformed, Message, Reader};

use super::borrowed::Borrowed;
use super::marked;
use super::routes::Routes;
use crate::table_spec::TableSpec;
use crate::working_set::Part;

/// The weights of all rows that a rank's part of a mini-batch needs, by table. A row's slot is its
/// number in the request.
#[derive(Debug)]
pub struct Guests {
    slabs: Vec<Slab>,
}

impl Guests {
    /// Room for `rows` rows of each of `tables`.
    ///
    /// # Errors
    /// If the system has no memory for them.
    pub fn new(tables: &[TableSpec], rows: &[usize]) -> std::io::Result<Self> {
        let slab = |(table, rows): (&TableSpec, &usize)| Slab::new(*rows, table.weight_count());
        let slabs = tables.iter().zip(rows).map(slab).collect::<std::io::Result<_>>()?;
        Ok(Self { slabs })
    }

    /// Maximum bytes.
    pub fn bytes_max(tables: &[TableSpec], rows: &[usize]) -> u64 {
        let bytes = |(table, rows): (&TableSpec, &usize)| {
            Slab::bytes_for(*rows as u64, table.weight_count())
        };
        tables.iter().zip(rows).map(bytes).sum()
    }

    pub(crate) fn slab(&self, table: usize) -> &Slab {
        &self.slabs[table]
    }

    /// Takes the rows that `parts` requested: from the owners' answers (one message each), from
    /// rows sent early, and from rows lent to this rank, if rows of `tables` may be borrowed.
    ///
    /// # Errors
    /// Names the rank that sent an invalid message.
    pub fn take(
        &mut self,
        (messages, early): (&[Message], &[Option<Message>]),
        parts: &mut [Part],
        routes: &[Routes],
        mut borrowed: Option<(&mut Borrowed, &[TableSpec])>,
    ) -> Result<(), Error> {
        let mut readers: Vec<_> = messages.iter().map(Message::reader).collect();
        let mut sooner: Vec<_> =
            early.iter().map(|early| early.as_ref().map(Message::reader)).collect();
        sooner.resize_with(messages.len(), || None);
        borrowed.iter_mut().for_each(|(borrowed, _)| borrowed.begin());
        let of_tables = parts.iter_mut().zip(routes).zip(&mut self.slabs).enumerate();
        for (number, ((part, routes), slab)) in of_tables {
            let (rows, width) = (part.request.distinct.len(), slab.row_lanes());
            part.rows.slots.clear();
            part.rows.slots.extend((0..rows as u32).map(SlotIndex));
            let mut held = slab.hold(&part.rows.slots);
            let mut of_rows = held.rows_mut();
            for (owner, (reader, sooner)) in readers.iter_mut().zip(&mut sooner).enumerate() {
                let wrong = |why| Error::malformed(owner, why);
                let asked = routes.of(owner);
                if let Some((borrowed, tables)) = &mut borrowed {
                    let table = &tables[number];
                    borrowed.take(number, table, reader, asked, &part.request).map_err(wrong)?;
                }
                let here = borrowed.as_ref().map(|(borrowed, _)| borrowed.table(number));
                let kept = routes.kept_by(owner, here);
                let mut show = |rows: &[u32], weights: &[f32]| {
                    for (row, weights) in rows.iter().zip(weights.chunks_exact(width)) {
                        of_rows.row(*row as usize).copy_from_slice(weights);
                    }
                };
                let kept = match sooner {
                    None => kept,
                    Some(sooner) => {
                        let early = Early::read(sooner, asked, width).map_err(wrong)?;
                        show(&early.rows, early.weights);
                        early.others(kept).map_err(wrong)?
                    }
                };
                show(&kept, reader.take_exactly(kept.len() * width).map_err(wrong)?);
            }
            if let Some((borrowed, tables)) = &borrowed {
                borrowed.table(number).show(&tables[number], &mut of_rows);
            }
        }
        let sooner = sooner.into_iter().map(Option::unwrap_or_default);
        for (owner, (reader, sooner)) in readers.into_iter().zip(sooner).enumerate() {
            reader.end().and(sooner.end()).map_err(|why| Error::malformed(owner, why))?;
        }
        Ok(())
    }
}

/// Rows of a table that an owner sent before the step that needs them.
struct Early<'a> {
    /// By number in the request, ascending.
    rows: Vec<u32>,
    weights: &'a [f32],
}

impl<'a> Early<'a> {
    /// Reads the rows of `asked` that were sent early, with `width` weights each.
    fn read(reader: &mut Reader<'a>, asked: &[u32], width: usize) -> Result<Self, Malformed> {
        let early = marked::read(reader, asked.len())?;
        let rows = asked.iter().zip(early).filter(|(_, early)| *early).map(|(row, _)| *row);
        let rows: Vec<u32> = rows.collect();
        let weights = reader.take_exactly(rows.len() * width)?;
        Ok(Self { rows, weights })
    }

    /// The owner's rows among `kept` that were not sent early.
    fn others<'k>(&self, kept: Cow<'k, [u32]>) -> Result<Cow<'k, [u32]>, Malformed> {
        if self.rows.is_empty() {
            return Ok(kept);
        }
        let mut early = self.rows.iter().copied().peekable();
        let others: Vec<u32> =
            kept.iter().copied().filter(|row| early.next_if_eq(row).is_none()).collect();
        match early.next() {
            None => Ok(others.into()),
            Some(_) => Err(Malformed::Wrong("it lends a row that it already sent")),
        }
    }
}

#[cfg(test)]
mod tests {
    use stepwell_base::Key;
    use stepwell_base::owner::owner;
    use stepwell_optim::{RowOptimizer, Rule};

    use super::*;

    /// Message of the only other rank: the numbers of early rows, and their weights.
    fn early(count: usize, numbers: &[u32], weights: &[f32]) -> Message {
        let mut message = Message::new();
        marked::put(&mut message, count, numbers);
        message.put(weights);
        message
    }

    fn weights(weights: &[f32]) -> Message {
        let mut message = Message::new();
        message.put(weights);
        message
    }

    /// The weights that a rank reads after it requested three rows from the other one.
    fn take(early: Option<Message>, answer: Message) -> Result<Vec<f32>, Error> {
        let table = TableSpec::new(0, "t", 1, RowOptimizer::new(Rule::sgd(0.1)).unwrap());
        let mut part = Part::default();
        let keys = (0..).map(Key).filter(|key| owner(*key, 2) == 1);
        part.request.distinct = keys.take(3).collect();
        let mut routes = Routes::default();
        routes.find(&table, &part.request, 2);
        let mut guests = Guests::new(std::slice::from_ref(&table), &[3]).unwrap();
        let (answers, early) = ([weights(&[]), answer], [None, early]);
        let mut parts = [part];
        guests.take((&answers, &early), &mut parts, &[routes], None)?;
        let held = guests.slab(0).hold(&parts[0].rows.slots);
        Ok((0..held.len()).map(|row| held.row(row)[0]).collect())
    }

    #[test]
    fn what_came_early_is_read_beside_the_rest() {
        assert_eq!(take(None, weights(&[1.0, 2.0, 3.0])).unwrap(), [1.0, 2.0, 3.0]);
        let some = early(3, &[0, 2], &[4.0, 6.0]);
        assert_eq!(take(Some(some), weights(&[2.0])).unwrap(), [4.0, 2.0, 6.0]);
        let all = early(3, &[0, 1, 2], &[4.0, 5.0, 6.0]);
        assert_eq!(take(Some(all), weights(&[])).unwrap(), [4.0, 5.0, 6.0]);
        let nothing = early(3, &[], &[]);
        assert_eq!(take(Some(nothing), weights(&[1.0, 2.0, 3.0])).unwrap(), [1.0, 2.0, 3.0]);
    }

    #[test]
    fn what_came_early_and_makes_no_sense_names_its_rank() {
        let right = early(3, &[0, 2], &[4.0, 6.0]);
        let words = right.words();
        let mut longer = words.to_vec();
        longer.push(0);
        let cut = (0..words.len()).map(|length| words[..length].to_vec());
        let wrong = [early(3, &[0, 2], &[4.0]), early(3, &[0], &[4.0]), early(30, &[0], &[4.0])];
        let wrong = cut.chain([longer]).map(Message::from_words).chain(wrong);
        for wrong in wrong {
            let error = take(Some(wrong), weights(&[2.0])).unwrap_err();
            assert!(matches!(error, Error::Malformed { rank: 1, .. }), "{error}");
        }
        // The answer must have each remaining row exactly once.
        for answer in [&[][..], &[1.0, 2.0], &[1.0, 2.0, 3.0]] {
            assert!(take(Some(right.clone()), weights(answer)).is_err(), "{answer:?}");
        }
    }
}
