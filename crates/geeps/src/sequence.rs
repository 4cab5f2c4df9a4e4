//! The sequence of operations of an iteration, recorded once, and the requests foreseen from it.
//!
//! - **Why.** Applications do the same in every iteration. Their next requests can be served before
//!   they ask, their indexes are made once, and what to pin follows from all of it.
//! - **How.** In a virtual iteration, operations are recorded and nothing is done. Later the
//!   sequence is followed cyclically, ahead of the application; the clocks that tables will have by
//!   then are counted on the way.
//! - **A hint.** Nothing relies on it: an application may deviate. Its place in the sequence is
//!   then looked up by its operation; while it has no place, nothing is foreseen. Source: Cui et
//!   al., GeePS (2016), section 4.1; Cui et al., "Exploiting iterative-ness for parallel ML
//!   computations" (SoCC 2014).

use stepwell_base::Key;

use crate::layout::Index;
use crate::operation::{Acquire, What};
use crate::placement::{Data, Kind, Usage, Used};

/// An operation of a sequence.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Acquire(Acquire),
    /// Gives back the buffer that the operation at this place acquired.
    Release(usize),
    Clock(usize),
}

/// The recorded operations, and how far ahead of the application they were followed.
#[derive(Debug, Default)]
pub(crate) struct Sequence {
    pub(crate) operations: Vec<Operation>,
    /// Place of the next operation to follow; `None` while the application has no place.
    next: Option<usize>,
    /// Clock that each table will have at that operation. // (tables)
    clocks: Vec<u64>,
}

/// A request that is expected.
#[derive(Clone, Debug)]
pub(crate) struct Foreseen {
    pub(crate) acquire: Acquire,
    /// Clock that the table will have by then.
    pub(crate) clock: u64,
    /// Place in the sequence.
    pub(crate) place: usize,
}

impl Sequence {
    pub(crate) fn new(operations: Vec<Operation>) -> Self {
        Self { operations, next: None, clocks: Vec::new() }
    }

    /// The application is about to do the operation at this place, with tables at these clocks.
    pub(crate) fn go_to(&mut self, place: usize, clocks: Vec<u64>) {
        self.next = (!self.operations.is_empty()).then(|| place % self.operations.len());
        self.clocks = clocks;
    }

    /// The application has no place in the sequence.
    pub(crate) fn stop(&mut self) {
        self.next = None;
    }

    /// Follows the sequence to the next operation that requests a buffer.
    pub(crate) fn foresee(&mut self) -> Option<Foreseen> {
        let mut next = self.next?;
        for _ in 0..self.operations.len() {
            let place = next;
            next = (next + 1) % self.operations.len();
            match &self.operations[place] {
                Operation::Acquire(acquire) => {
                    self.next = Some(next);
                    let clock = acquire.table().map_or(0, |table| self.clocks[table]);
                    return Some(Foreseen { acquire: acquire.clone(), clock, place });
                }
                Operation::Clock(table) => self.clocks[*table] += 1,
                Operation::Release(_) => {}
            }
        }
        self.stop();
        None
    }

    /// The place of such an operation: the first from `from` on, cyclically.
    pub(crate) fn find(&self, what: What, keys: &[Key], from: usize) -> Option<usize> {
        let len = self.operations.len();
        let mut places = (0..len).map(|step| (from + step) % len);
        places.find(|place| match &self.operations[*place] {
            Operation::Acquire(acquire) => acquire.is(what, keys),
            _ => false,
        })
    }

    /// The index of a list of keys of the same table, if the sequence has it.
    pub(crate) fn index(&self, what: What, keys: &[Key]) -> Option<Index> {
        index(&self.operations, what, keys)
    }

    /// Indexes of its reads, to be copied to where kernels find them.
    pub(crate) fn indexes(&mut self) -> impl Iterator<Item = (usize, &mut Index)> {
        self.operations.iter_mut().filter_map(|operation| match operation {
            Operation::Acquire(Acquire { what: What::Read(table, _), index }) => {
                Some((*table, index))
            }
            _ => None,
        })
    }
}

/// As for [`Sequence::index`].
pub(crate) fn index(operations: &[Operation], what: What, keys: &[Key]) -> Option<Index> {
    let same_table = |other: &Acquire| match (other.what, what) {
        (What::Local(a, _), What::Local(b, _)) => a == b,
        (What::Local(..), _) | (_, What::Local(..)) => false,
        (What::Read(a, _) | What::PreUpdate(a), What::Read(b, _) | What::PreUpdate(b)) => a == b,
    };
    operations.iter().find_map(|operation| match operation {
        Operation::Acquire(other) if same_table(other) && *other.index.keys == *keys => {
            Some(other.index.clone())
        }
        _ => None,
    })
}

/// Size of a table, or of local data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) floats: usize,
    pub(crate) row_floats: usize,
}

/// Buffers that the operations use at each moment, for tables and local data of these sizes;
/// parameter data comes first, and `bytes` converts floats to bytes.
pub(crate) fn usage(
    operations: &[Operation],
    tables: &[Size],
    locals: &[Size],
    bytes: impl Fn(usize) -> u64,
) -> Usage {
    let entry = |kind| {
        let bytes = &bytes;
        move |size: &Size| Data { kind, bytes: bytes(size.floats) }
    };
    let data = tables.iter().map(entry(Kind::Parameters));
    let data = data.chain(locals.iter().map(entry(Kind::Local))).collect();
    let used = |acquire: &Acquire| {
        let (data, size) = match acquire.what {
            What::Read(table, _) | What::PreUpdate(table) => (table, tables[table]),
            What::Local(local, _) => (tables.len() + local, locals[local]),
        };
        let floats = acquire.index.places.len() * size.row_floats;
        Used { data, bytes: bytes(floats), is_whole: acquire.index.is_whole }
    };
    let (mut held, mut moments) = (Vec::new(), Vec::new());
    for (place, operation) in operations.iter().enumerate() {
        match operation {
            Operation::Acquire(acquire) => {
                held.push((place, used(acquire)));
                moments.push(held.iter().map(|(_, used)| *used).collect());
            }
            Operation::Release(of) => held.retain(|(place, _)| place != of),
            Operation::Clock(_) => {}
        }
    }
    Usage { data, moments }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Staleness;
    use crate::layout::Rows;
    use crate::operation::Fetch;

    fn acquire(what: What, keys: &[u64]) -> Acquire {
        let keys: Vec<Key> = keys.iter().copied().map(Key).collect();
        let rows = Rows::new("rows", 2, (0..4).map(Key).collect()).unwrap();
        Acquire { what, index: Index::new("rows", &rows, &keys).unwrap() }
    }

    const READ: What = What::Read(0, Staleness::BSP);

    /// Read, release; pre-update and local data together, releases, clock.
    fn operations() -> Vec<Operation> {
        vec![
            Operation::Acquire(acquire(READ, &[0, 1])),
            Operation::Release(0),
            Operation::Acquire(acquire(What::PreUpdate(0), &[0, 1])),
            Operation::Acquire(acquire(What::Local(0, Fetch::Fetch), &[0, 1, 2, 3])),
            Operation::Release(2),
            Operation::Release(3),
            Operation::Clock(0),
        ]
    }

    #[test]
    fn it_is_followed_around_and_clocks_are_counted() {
        let mut sequence = Sequence::new(operations());
        assert!(sequence.foresee().is_none(), "nobody is in it");
        sequence.go_to(2, vec![10]);
        let next: Vec<_> = (0..5).filter_map(|_| sequence.foresee()).collect();
        let places: Vec<_> = next.iter().map(|next| (next.place, next.clock)).collect();
        assert_eq!(places, [(2, 10), (3, 0), (0, 11), (2, 11), (3, 0)]);
        assert!(next[0].acquire.is(What::PreUpdate(0), &[Key(0), Key(1)]));
        let mut idle = Sequence::new(vec![Operation::Clock(0)]);
        idle.go_to(0, vec![0]);
        assert!(idle.foresee().is_none(), "it asks for nothing");
        assert!(Sequence::default().foresee().is_none());
    }

    #[test]
    fn an_operation_is_found_from_a_place_on_and_around() {
        let mut operations = operations();
        operations.push(Operation::Acquire(acquire(READ, &[0, 1])));
        let sequence = Sequence::new(operations);
        let keys = [Key(0), Key(1)];
        assert_eq!([0, 1, 7].map(|from| sequence.find(READ, &keys, from)), [0, 7, 7].map(Some));
        assert_eq!(sequence.find(READ, &keys[..1], 0), None);
        assert_eq!(sequence.find(What::Read(0, Staleness::Clocks(1)), &keys, 0), None);
        // An index belongs to a table, for any operation on it.
        let known = sequence.index(What::Read(0, Staleness::Unbounded), &keys).unwrap();
        let Operation::Acquire(first) = &sequence.operations[0] else { panic!("a read") };
        assert!(std::sync::Arc::ptr_eq(&known.places, &first.index.places), "made once");
        assert!(sequence.index(What::Read(1, Staleness::BSP), &keys).is_none());
        assert!(sequence.index(What::Local(0, Fetch::NoFetch), &keys).is_none());
    }

    #[test]
    fn what_is_held_at_once_is_counted() {
        let size = Size { floats: 8, row_floats: 2 };
        let usage = usage(&operations(), &[size], &[size], |floats| floats as u64);
        let held: Vec<Vec<_>> = usage
            .moments
            .iter()
            .map(|moment| moment.iter().map(|u| (u.data, u.bytes, u.is_whole)).collect())
            .collect();
        let update = (0, 4, false);
        assert_eq!(held, [vec![update], vec![update], vec![update, (1, 8, true)]]);
        assert_eq!(usage.peak_unpinned(), (2, 12));
        assert_eq!(usage.data.iter().map(|data| data.bytes).sum::<u64>(), 16);
    }
}
