//! Copies of the rows of others: what a rank pools for the mini-batch at hand.

use stepwell_base::SlotIndex;
use stepwell_base::slab::Slab;
use stepwell_fabric::{Error, Message};

use super::{Borrowed, Routes};
use crate::{Part, TableSpec};

/// The weights of all rows that a rank's part of a mini-batch needs, by table. A row lies in the
/// slot of its number in the request.
#[derive(Debug)]
pub struct Guests {
    slabs: Vec<Slab>,
}

impl Guests {
    /// Room for `rows` rows of each of `tables`.
    ///
    /// # Errors
    /// When the system has no memory for them.
    pub fn new(tables: &[TableSpec], rows: &[usize]) -> std::io::Result<Self> {
        let slab = |(table, rows): (&TableSpec, &usize)| Slab::new(*rows, table.weight_count());
        let slabs = tables.iter().zip(rows).map(slab).collect::<std::io::Result<_>>()?;
        Ok(Self { slabs })
    }

    /// The most bytes of one.
    pub fn bytes_max(tables: &[TableSpec], rows: &[usize]) -> u64 {
        let bytes = |(table, rows): (&TableSpec, &usize)| {
            Slab::bytes_for(*rows as u64, table.weight_count())
        };
        tables.iter().zip(rows).map(bytes).sum()
    }

    pub(crate) fn slab(&self, table: usize) -> &Slab {
        &self.slabs[table]
    }

    /// Takes what the owners answered, one message of each, for what `parts` ask for; and what they
    /// lend, where rows of `tables` may be borrowed.
    ///
    /// # Errors
    /// Names the rank whose message makes no sense.
    pub fn take(
        &mut self,
        messages: &[Message],
        parts: &mut [Part],
        routes: &[Routes],
        mut borrowed: Option<(&mut Borrowed, &[TableSpec])>,
    ) -> Result<(), Error> {
        let mut readers: Vec<_> = messages.iter().map(Message::reader).collect();
        borrowed.iter_mut().for_each(|(borrowed, _)| borrowed.begin());
        let of_tables = parts.iter_mut().zip(routes).zip(&mut self.slabs).enumerate();
        for (number, ((part, routes), slab)) in of_tables {
            let (rows, width) = (part.request.distinct.len(), slab.row_lanes());
            part.rows.slots.clear();
            part.rows.slots.extend((0..rows as u32).map(SlotIndex));
            let mut held = slab.hold(&part.rows.slots);
            let mut of_rows = held.rows_mut();
            for (owner, reader) in readers.iter_mut().enumerate() {
                let wrong = |why| Error::malformed(owner, why);
                if let Some((borrowed, tables)) = &mut borrowed {
                    let asked = (routes.of(owner), &part.request);
                    borrowed.take((number, &tables[number]), reader, asked).map_err(wrong)?;
                }
                let here = borrowed.as_ref().map(|(borrowed, _)| borrowed.table(number));
                let asked = routes.kept_by(owner, here);
                let weights = reader.take_exactly::<f32>(asked.len() * width).map_err(wrong)?;
                for (row, weights) in asked.iter().zip(weights.chunks_exact(width)) {
                    of_rows.row(*row as usize).copy_from_slice(weights);
                }
            }
            if let Some((borrowed, tables)) = &borrowed {
                borrowed.table(number).show(&tables[number], &mut of_rows);
            }
        }
        for (owner, reader) in readers.into_iter().enumerate() {
            reader.end().map_err(|why| Error::malformed(owner, why))?;
        }
        Ok(())
    }
}
