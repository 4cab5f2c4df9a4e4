//! Decides which rows an owner lends, to which rank, and for how long.
//!
//! A row that only one rank requests in several consecutive mini-batches need not be sent in each:
//! it is lent to that rank whole, which updates it until another rank needs it, or none does in the
//! rest of the batch, and then returns it. All other rows stay with their owner. So every row is
//! sent in the way that costs fewer bytes, and after a batch every owner has all of its rows.
//!
//! ```text
//! mini-batches of a batch     0        1        2        3        4        5
//! requested by rank           2        2                 2        1, 2     2
//! loan                        begins   runs              ends
//! travels                     row ──►                    row ◄──  weights there, gradients back
//! ```
//!
//! Only the owner knows all requests of a batch, and it decides alone: its answers list the rows
//! that change hands.
//!
//! - **Source.** Working sets of HPS, Algorithm 1, whose ranks fetch all rows of a batch and
//!   exchange the gradients of those that several have. Here the owner sums such rows and sends
//!   them to the ranks that need them again: for two ranks the bytes are equal, for more they are
//!   fewer.

use hashbrown::HashMap;
use stepwell_base::Key;

use crate::table_spec::TableSpec;
use crate::working_set::{Loan, Part};

/// Whether lending a row costs fewer bytes than sending its weights and returning its gradient
/// `uses` times.
fn pays(table: &TableSpec, uses: u32) -> bool {
    uses > 1 && uses as usize * table.weight_count() > table.row_lanes()
}

/// Whether rows of `table` are lent: not if they have a life, as their owner then checks them in
/// every mini-batch.
fn lends(table: &TableSpec) -> bool {
    table.life.is_none()
}

/// One rank's consecutive uses of a row.
#[derive(Clone, Copy, Debug)]
struct UseSpan {
    /// The rank; `None` if it is the owner, or there are several, or it has no room.
    by: Option<u16>,
    /// Number of mini-batches, from the current one on.
    uses: u32,
}

/// Decides which rows of its rank are lent.
#[derive(Clone, Debug)]
pub struct Lender {
    rank: usize,
    /// Rows of each table that each other rank may borrow from this one at once.
    room: Vec<usize>,
    /// By key of the current table: while spans are counted, the span that begins here; then the
    /// rest of a loan.
    spans: HashMap<Key, UseSpan>,
    /// The span that begins with each row of each mini-batch of the table. // (mini-batches) of
    /// (rows)
    from: Vec<Vec<UseSpan>>,
}

impl Lender {
    /// The lender of rank `rank`, which lends each other rank at most `room` rows of each table.
    pub fn new(rank: usize, room: Vec<usize>) -> Self {
        Self { rank, room, spans: HashMap::new(), from: Vec::new() }
    }

    /// Maximum bytes if a batch requests `keys` rows of a table.
    pub fn bytes_max(keys: u64) -> u64 {
        // Tables of keys grow by doubling, and are at most seven eighths full.
        let entry = (2 * (size_of::<(Key, UseSpan)>() + 1) * 8).div_ceil(7);
        keys * (entry + size_of::<UseSpan>()) as u64
    }

    /// Decides the loans of a batch: `batch` has the requests of all ranks to this one, by
    /// mini-batch and table, as [`unite`](super::unite) makes them.
    pub fn lend(&mut self, tables: &[TableSpec], batch: &mut [&mut [Part]]) {
        self.from.resize_with(batch.len(), Vec::new);
        for (number, table) in tables.iter().enumerate().filter(|(_, table)| lends(table)) {
            self.spans.clear();
            for (place, parts) in batch.iter().enumerate().rev() {
                self.count(place, &parts[number]);
            }
            self.spans.clear();
            let ranks = batch.first().map_or(0, |parts| parts[number].askers.ends.len());
            let mut room = vec![self.room[number]; ranks];
            for (place, parts) in batch.iter_mut().enumerate() {
                self.lend_in(table, place, &mut parts[number], &mut room);
            }
        }
    }

    /// Counts the spans that begin with mini-batch `place`, after the later ones were counted.
    fn count(&mut self, place: usize, part: &Part) {
        let from = &mut self.from[place];
        from.clear();
        from.resize(part.request.distinct.len(), UseSpan { by: None, uses: 0 });
        for rank in 0..part.askers.ends.len() {
            // Requests of a rank to itself cost nothing.
            let by = u16::try_from(rank).ok().filter(|_| rank != self.rank);
            for row in part.asked_by(rank) {
                let span = &mut from[*row as usize];
                let is_first = std::mem::replace(&mut span.uses, 1) == 0;
                span.by = by.filter(|_| is_first);
            }
        }
        for (span, key) in from.iter_mut().zip(&part.request.distinct) {
            let next = self.spans.insert(*key, *span).filter(|next| next.by == span.by);
            span.uses += next.map_or(0, |next| next.uses);
            self.spans.insert(*key, *span);
        }
    }

    /// Sets how each row of `part`, mini-batch `place`, is lent, if any is; `room` is what each
    /// rank has left.
    fn lend_in(&mut self, table: &TableSpec, place: usize, part: &mut Part, room: &mut [usize]) {
        let mut loans = vec![Loan::None; part.request.distinct.len()];
        let mut back = vec![0; room.len()];
        let rows = part.request.distinct.iter().zip(&self.from[place]).zip(&mut loans);
        for ((key, span), loan) in rows {
            let Some(rank) = span.by.map(usize::from) else { continue };
            if let Some(left) = self.spans.get_mut(key) {
                left.uses -= 1;
                *loan = Loan::Runs;
                if left.uses == 0 {
                    *loan = Loan::Ends;
                    self.spans.remove(key);
                    // The row's place becomes free after this mini-batch, when the row is returned.
                    back[rank] += 1;
                }
            } else if pays(table, span.uses) && room[rank] > 0 {
                room[rank] -= 1;
                *loan = Loan::Begins;
                self.spans.insert(*key, UseSpan { uses: span.uses - 1, ..*span });
            }
        }
        room.iter_mut().zip(back).for_each(|(room, back)| *room += back);
        if loans.iter().any(|loan| *loan != Loan::None) {
            part.askers.loans = loans;
        }
    }
}

#[cfg(test)]
mod tests {
    use stepwell_optim::{RowOptimizer, Rule};

    use super::*;
    use crate::life::{Admission, Life};
    use crate::request::Grouper;

    /// Mini-batches in which each rank requests some keys.
    fn batch(minis: &[&[&[u64]]]) -> Vec<Part> {
        let part = |asks: &&[&[u64]]| {
            let (mut part, mut keys) = (Part::default(), Vec::new());
            for ask in *asks {
                keys.extend(ask.iter().copied().map(Key));
                part.askers.ends.push(keys.len() as u32);
            }
            Grouper::default().group_into(&keys, 0, &mut part.request);
            part
        };
        minis.iter().map(part).collect()
    }

    /// How rank 0 lends key `key` in each mini-batch that requests it.
    fn loans(table: &TableSpec, room: usize, minis: &[&[&[u64]]], key: u64) -> Vec<Loan> {
        let mut parts = batch(minis);
        let mut of_minis: Vec<&mut [Part]> = parts.iter_mut().map(std::slice::from_mut).collect();
        Lender::new(0, vec![room]).lend(std::slice::from_ref(table), &mut of_minis);
        let of_part = |part: &Part| {
            let row = part.request.distinct.iter().position(|known| *known == Key(key))?;
            Some(part.askers.loan(row))
        };
        parts.iter().filter_map(of_part).collect()
    }

    fn table(rule: Rule) -> TableSpec {
        TableSpec::new(0, "t", 4, RowOptimizer::new(rule).unwrap())
    }

    #[test]
    fn a_row_is_lent_where_that_saves_bytes() {
        use Loan::{Begins, Ends, None, Runs};
        let (sgd, adagrad) = (table(Rule::sgd(0.1)), table(Rule::adagrad(0.1)));
        // Ranks 0 to 2. Key 1 is requested by rank 1 alone, 2 by ranks 1 and 2 alternately, 3 by
        // the owner, 4 once, 5 twice.
        let minis: &[&[&[u64]]] = &[
            &[&[3], &[1, 2, 5], &[]],
            &[&[3], &[1, 4], &[2]],
            &[&[3], &[], &[]],
            &[&[3], &[2, 1, 5], &[]],
        ];
        for table in [&sgd, &adagrad] {
            assert_eq!(loans(table, 9, minis, 1), [Begins, Runs, Ends]);
            assert_eq!(loans(table, 9, minis, 2), [None; 3]);
            assert_eq!(loans(table, 9, minis, 3), [None; 4]);
            assert_eq!(loans(table, 9, minis, 4), [None]);
        }
        // With its state, the row is as long as two weights and two gradients.
        assert_eq!(loans(&adagrad, 9, minis, 5), [None; 2]);
        assert_eq!(loans(&sgd, 9, minis, 5), [Begins, Ends]);
        // A rank without room requests the row in every mini-batch.
        assert_eq!(loans(&sgd, 1, minis, 5), [None; 2]);
        assert_eq!(loans(&sgd, 1, minis, 1), [Begins, Runs, Ends]);
        assert_eq!(loans(&sgd, 0, minis, 1), [None; 3]);
        let life = Some(Life { admission: Admission::AtOnce, expire_after: 9 });
        assert_eq!(loans(&TableSpec { life, ..sgd }, 9, minis, 1), [None; 3]);
    }

    #[test]
    fn a_loan_is_as_long_as_nobody_else_asks() {
        use Loan::{Begins, Ends, None, Runs};
        let (sgd, adagrad) = (table(Rule::sgd(0.1)), table(Rule::adagrad(0.1)));
        let [owner, one, two, both]: [&[&[u64]]; 4] =
            [&[&[7], &[], &[]], &[&[], &[7], &[]], &[&[], &[], &[7]], &[&[], &[7], &[7]]];
        let (idle, with_owner): (&[&[u64]], &[&[u64]]) = (&[&[], &[], &[]], &[&[7], &[7], &[]]);
        let minis = [one, one, idle, one, both, two, two, two, with_owner, one, owner, one, one];
        let wanted = [Begins, Runs, Ends, None, Begins, Runs, Ends, None, None, None];
        assert_eq!(loans(&sgd, 9, &minis, 7), [&wanted[..], &[Begins, Ends]].concat());
        assert_eq!(loans(&adagrad, 9, &minis, 7), [&wanted[..], &[None; 2]].concat());
        // From one rank to the next.
        let minis = [one, one, one, two, two, two, one];
        let wanted = [Begins, Runs, Ends, Begins, Runs, Ends, None];
        assert_eq!(loans(&adagrad, 1, &minis, 7), wanted);
    }

    #[test]
    fn a_place_is_lent_again_once_its_row_is_back() {
        use Loan::{Begins, Ends, None};
        let sgd = table(Rule::sgd(0.1));
        let minis: &[&[&[u64]]] = &[&[&[], &[1]], &[&[], &[1, 2]], &[&[], &[2, 3]], &[&[], &[3]]];
        // Key 1 is still there when 2 is first requested.
        assert_eq!(loans(&sgd, 1, minis, 1), [Begins, Ends]);
        assert_eq!(loans(&sgd, 1, minis, 2), [None; 2]);
        assert_eq!(loans(&sgd, 1, minis, 3), [Begins, Ends]);
        assert_eq!(loans(&sgd, 2, minis, 2), [Begins, Ends]);
    }
}
