//! Rows that other ranks lent to this one, from the first mini-batch that needs them to the last.

use hashbrown::HashMap;
use stepwell_base::slab::{RowsMut, Slab};
use stepwell_base::{Key, SlotIndex};
use stepwell_fabric::{Malformed, Message, Reader};

use super::marked;
use super::routes::Routes;
use crate::request::Request;
use crate::table_spec::TableSpec;
use crate::working_set::{Loan, Part};

/// Whole rows of other ranks, by table.
#[derive(Debug)]
pub struct Borrowed {
    tables: Vec<BorrowedTable>,
    /// Number of loans so far.
    count: u64,
}

/// Borrowed rows of one table.
#[derive(Debug)]
pub(crate) struct BorrowedTable {
    slab: Slab,
    places: HashMap<Key, SlotIndex>,
    free: Vec<SlotIndex>,
    /// How the rows of the current mini-batch are lent, and their slots, by number in its request;
    /// empty if none is. // (rows)
    loans: Vec<Loan>,
    slots: Vec<SlotIndex>,
    /// Numbers of the rows that are lent.
    rows: Vec<u32>,
}

impl Borrowed {
    /// Room for `rows` rows of each of `tables`.
    ///
    /// # Errors
    /// If the system has no memory for them.
    pub fn new(tables: &[TableSpec], rows: &[usize]) -> std::io::Result<Self> {
        let table = |(table, rows): (&TableSpec, &usize)| BorrowedTable::new(table, *rows);
        let tables = tables.iter().zip(rows).map(table).collect::<std::io::Result<_>>()?;
        Ok(Self { tables, count: 0 })
    }

    /// Maximum bytes.
    pub fn bytes_max(tables: &[TableSpec], rows: &[usize]) -> u64 {
        // Tables of keys grow by doubling, and are at most seven eighths full.
        let place =
            (2 * (size_of::<(Key, SlotIndex)>() + 1) * 8 / 7 + size_of::<SlotIndex>()) as u64;
        let bytes = |(table, rows): (&TableSpec, &usize)| {
            Slab::bytes_for(*rows as u64, table.row_lanes()) + *rows as u64 * place
        };
        tables.iter().zip(rows).map(bytes).sum()
    }

    /// Number of loans so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Some key whose row is still here.
    pub fn any(&self) -> Option<Key> {
        self.tables.iter().find_map(|table| table.places.keys().next().copied())
    }

    pub(crate) fn table(&self, number: usize) -> &BorrowedTable {
        &self.tables[number]
    }

    /// Takes the rows that an owner lends among the rows `asked` of `request` in table `number`.
    pub(super) fn take(
        &mut self,
        number: usize,
        table: &TableSpec,
        reader: &mut Reader<'_>,
        asked: &[u32],
        request: &Request,
    ) -> Result<(), Malformed> {
        self.count += self.tables[number].take(table, reader, asked, request)?;
        Ok(())
    }

    /// Begins a mini-batch.
    pub(super) fn begin(&mut self) {
        self.tables.iter_mut().for_each(BorrowedTable::begin);
    }

    /// Removes the rows that were returned to their owners.
    pub fn given_back(&mut self, parts: &[Part]) {
        for (table, part) in self.tables.iter_mut().zip(parts) {
            table.given_back(&part.request);
        }
    }
}

impl BorrowedTable {
    fn new(table: &TableSpec, rows: usize) -> std::io::Result<Self> {
        Ok(Self {
            slab: Slab::new(rows, table.row_lanes())?,
            places: HashMap::new(),
            free: (0..rows as u32).rev().map(SlotIndex).collect(),
            loans: Vec::new(),
            slots: Vec::new(),
            rows: Vec::new(),
        })
    }

    fn begin(&mut self) {
        self.loans.clear();
        self.slots.clear();
        self.rows.clear();
    }

    /// Returns the number of new loans.
    fn take(
        &mut self,
        table: &TableSpec,
        reader: &mut Reader<'_>,
        asked: &[u32],
        request: &Request,
    ) -> Result<u64, Malformed> {
        let changes = marked::read(reader, asked.len())?;
        let mut begun = Vec::new();
        for (number, row) in asked.iter().enumerate() {
            let changes = changes.get(number).is_some_and(|changes| *changes);
            let key = request.distinct[*row as usize];
            let known = self.places.get(&key).copied();
            let loan = match (known, changes) {
                (None, false) => continue,
                (None, true) => Loan::Begins,
                (Some(_), false) => Loan::Runs,
                (Some(_), true) => Loan::Ends,
            };
            let slot = known.or_else(|| self.free.pop());
            let slot = slot.ok_or(Malformed::Wrong("it lends more rows than there is room for"))?;
            if known.is_none() {
                self.places.insert(key, slot);
                begun.push(slot);
            }
            self.loans.resize(request.distinct.len(), Loan::None);
            self.slots.resize(request.distinct.len(), SlotIndex(0));
            (self.loans[*row as usize], self.slots[*row as usize]) = (loan, slot);
            self.rows.push(*row);
        }
        let rows: &[f32] = reader.take_exactly(begun.len() * table.row_lanes())?;
        let mut held = self.slab.hold(&begun);
        let mut places = held.rows_mut();
        for (number, row) in rows.chunks_exact(table.row_lanes()).enumerate() {
            places.row(number).copy_from_slice(row);
        }
        Ok(begun.len() as u64)
    }

    /// How row `row` of the current mini-batch is lent.
    pub(crate) fn loan(&self, row: u32) -> Loan {
        self.loans.get(row as usize).copied().unwrap_or_default()
    }

    /// Borrowed rows of the current mini-batch, by number in its request.
    pub(crate) fn rows(&self) -> &[u32] {
        &self.rows
    }

    pub(crate) fn slab(&self) -> &Slab {
        &self.slab
    }

    /// Copies the weights of all borrowed rows to their places among the `guests` of the
    /// mini-batch.
    pub(super) fn show(&self, table: &TableSpec, guests: &mut RowsMut<'_>) {
        let slots = self.slots(&self.rows);
        let held = self.slab.hold(&slots);
        for (number, row) in self.rows.iter().enumerate() {
            table.weights(held.row(number)).copy_to(guests.row(*row as usize));
        }
    }

    /// Slots of the rows with these numbers in the request.
    pub(crate) fn slots(&self, rows: &[u32]) -> Vec<SlotIndex> {
        rows.iter().map(|row| self.slots[*row as usize]).collect()
    }

    /// Adds to `message` the borrowed rows among `of_owner`, the owner's rows, that return to it.
    pub(crate) fn give_back(&self, of_owner: &[u32], message: &mut Message) {
        let ends = |row: &u32| self.loan(*row) == Loan::Ends;
        let rows: Vec<u32> = of_owner.iter().copied().filter(ends).collect();
        let (slots, lanes) = (self.slots(&rows), self.slab.row_lanes());
        let held = self.slab.hold(&slots);
        let places: &mut [f32] = message.room(rows.len() * lanes);
        for (number, place) in places.chunks_exact_mut(lanes).enumerate() {
            place.copy_from_slice(held.row(number));
        }
    }

    fn given_back(&mut self, request: &Request) {
        for row in std::mem::take(&mut self.rows) {
            if self.loan(row) == Loan::Ends {
                let place = self.places.remove(&request.distinct[row as usize]);
                self.free.extend(place);
            }
        }
    }

    /// Whether no row of the current mini-batch is borrowed.
    pub(crate) fn is_idle(&self) -> bool {
        self.rows.is_empty()
    }
}

impl Routes {
    /// Rows of `owner` that are not lent, so that it reads and updates them.
    pub(crate) fn kept_by<'a>(
        &'a self,
        owner: usize,
        borrowed: Option<&BorrowedTable>,
    ) -> std::borrow::Cow<'a, [u32]> {
        match borrowed.filter(|borrowed| !borrowed.is_idle()) {
            None => self.of(owner).into(),
            Some(borrowed) => {
                let kept = self.of(owner).iter().copied();
                kept.filter(|row| borrowed.loan(*row) == Loan::None).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use stepwell_base::owner::owner;
    use stepwell_fabric::Error;
    use stepwell_optim::{RowOptimizer, Rule};

    use super::*;
    use crate::ranks::guests::Guests;

    /// An owner's answer: the numbers of the rows that change hands, lanes of lent rows, and
    /// weights.
    fn answer(count: usize, changed: &[u32], rows: &[f32], weights: &[f32]) -> Message {
        let mut message = Message::new();
        marked::put(&mut message, count, changed);
        message.put(rows);
        message.put(weights);
        message
    }

    /// A rank that requests rows from the only other one, with room for borrowed rows.
    struct Asks {
        table: TableSpec,
        parts: Vec<Part>,
        routes: Vec<Routes>,
        guests: Guests,
        borrowed: Borrowed,
    }

    impl Asks {
        fn new(rows: usize, room: usize) -> Self {
            let adagrad = RowOptimizer::new(Rule::adagrad(0.1)).unwrap();
            let table = TableSpec::new(0, "t", 1, adagrad);
            let mut part = Part::default();
            let keys = (0..).map(Key).filter(|key| owner(*key, 2) == 1);
            part.request.distinct = keys.take(rows).collect();
            let mut routes = Routes::default();
            routes.find(&table, &part.request, 2);
            let tables = std::slice::from_ref(&table);
            let (guests, borrowed) = (Guests::new(tables, &[rows]), Borrowed::new(tables, &[room]));
            let (guests, borrowed) = (guests.unwrap(), borrowed.unwrap());
            Self { parts: vec![part], routes: vec![routes], guests, borrowed, table }
        }

        /// Takes the answers, the other rank's second; returns the weights that are read.
        fn take(&mut self, message: Message) -> Result<Vec<f32>, Error> {
            let messages = [answer(0, &[], &[], &[]), message];
            let lent = Some((&mut self.borrowed, std::slice::from_ref(&self.table)));
            self.guests.take((&messages, &[]), &mut self.parts, &self.routes, lent)?;
            let held = self.guests.slab(0).hold(&self.parts[0].rows.slots);
            Ok((0..held.len()).map(|row| held.row(row)[0]).collect())
        }
    }

    #[test]
    fn a_row_that_is_lent_stays_until_it_is_asked_back() {
        let mut asks = Asks::new(3, 1);
        // The second row is lent: weight and state.
        let read = asks.take(answer(3, &[1], &[5.0, 0.5], &[1.0, 9.0])).unwrap();
        assert_eq!((read, asks.borrowed.count()), (vec![1.0, 5.0, 9.0], 1));
        asks.borrowed.given_back(&asks.parts);
        assert!(asks.borrowed.any().is_some());
        assert_eq!(asks.take(answer(3, &[], &[], &[2.0, 8.0])).unwrap(), [2.0, 5.0, 8.0]);
        assert_eq!(asks.take(answer(3, &[1], &[], &[3.0, 7.0])).unwrap(), [3.0, 5.0, 7.0]);
        let (mut back, table) = (Message::new(), asks.borrowed.table(0));
        table.give_back(asks.routes[0].of(1), &mut back);
        assert_eq!(back.reader().take::<f32>().unwrap(), [5.0, 0.5]);
        assert_eq!(asks.routes[0].kept_by(1, Some(table))[..], [0, 2]);
        asks.borrowed.given_back(&asks.parts);
        assert_eq!(asks.borrowed.any(), None);
        // Another row gets its place.
        let read = asks.take(answer(3, &[2], &[6.0, 0.5], &[1.0, 2.0])).unwrap();
        assert_eq!((read, asks.borrowed.count()), (vec![1.0, 2.0, 6.0], 2));
    }

    #[test]
    fn a_row_that_is_lent_never_comes_early() {
        let mut asks = Asks::new(3, 1);
        let mut early = Message::new();
        marked::put(&mut early, 3, &[1]);
        early.put(&[1.5f32]);
        let messages = [answer(0, &[], &[], &[]), answer(3, &[1], &[5.0, 0.5], &[1.0, 9.0])];
        let lent = Some((&mut asks.borrowed, std::slice::from_ref(&asks.table)));
        let came = (&messages[..], &[None, Some(early)][..]);
        let error = asks.guests.take(came, &mut asks.parts, &asks.routes, lent).unwrap_err();
        assert!(matches!(error, Error::Malformed { rank: 1, .. }), "{error}");
    }

    #[test]
    fn what_cannot_be_lent_names_its_rank() {
        let right = answer(3, &[0, 1], &[5.0, 0.5, 6.0, 0.6], &[1.0]);
        assert_eq!(Asks::new(3, 2).take(right.clone()).unwrap(), [5.0, 6.0, 1.0]);
        let words = right.words();
        let cut = (0..words.len()).map(|length| Message::from_words(words[..length].to_vec()));
        let wrong = [
            answer(3, &[0, 1], &[5.0, 0.5], &[1.0]),
            answer(3, &[0], &[5.0, 0.5], &[1.0]),
            answer(3, &[0, 1, 2], &[5.0, 0.5, 6.0, 0.6, 7.0, 0.7], &[]),
            answer(30, &[0, 1], &[5.0, 0.5, 6.0, 0.6], &[1.0]),
        ];
        for wrong in cut.chain(wrong) {
            let error = Asks::new(3, 2).take(wrong).unwrap_err();
            assert!(matches!(error, Error::Malformed { rank: 1, .. }), "{error}");
        }
    }
}
