//! Copies of the rows of others: what a rank pools for the mini-batch at hand.

use stepwell_base::SlotIndex;
use stepwell_base::slab::Slab;
use stepwell_fabric::{Error, Message};

use super::Routes;
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

    /// Takes what the owners answered, one message of each, for what `parts` ask for.
    ///
    /// # Errors
    /// Names the rank whose message makes no sense.
    pub fn take(
        &mut self,
        messages: &[Message],
        parts: &mut [Part],
        routes: &[Routes],
    ) -> Result<(), Error> {
        let mut readers: Vec<_> = messages.iter().map(Message::reader).collect();
        for ((part, routes), slab) in parts.iter_mut().zip(routes).zip(&mut self.slabs) {
            let (rows, width) = (part.request.distinct.len(), slab.row_lanes());
            part.rows.slots.clear();
            part.rows.slots.extend((0..rows as u32).map(SlotIndex));
            let mut held = slab.hold(&part.rows.slots);
            let mut of_rows = held.rows_mut();
            for (owner, reader) in readers.iter_mut().enumerate() {
                let asked = routes.of(owner);
                let weights: &[f32] = reader
                    .take_exactly(asked.len() * width)
                    .map_err(|why| Error::malformed(owner, why))?;
                for (row, weights) in asked.iter().zip(weights.chunks_exact(width)) {
                    of_rows.row(*row as usize).copy_from_slice(weights);
                }
            }
        }
        for (owner, reader) in readers.into_iter().enumerate() {
            reader.end().map_err(|why| Error::malformed(owner, why))?;
        }
        Ok(())
    }
}
