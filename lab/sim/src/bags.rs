//! Examples whose slots have any number of ids, from vocabularies that slots may share.
//!
//! - **Why.** A line of text has one id per slot, and each slot its own vocabulary. So no row
//!   occurs twice in an example or in a bag, and no bag is empty. A packed file can have all of
//!   these.
//! - **Bounds.** An example has at most as many keys as slots, the limit of readers. If features
//!   bound their bags themselves, each bag has a separate bound.

use std::path::Path;

use stepwell_base::{Key, Namespace};
use stepwell_data::{Chunk, DataError, PackedOptions, PackedWriter, Schema};

use crate::dice::Dice;
use crate::ids::Ids;

/// Most ids of a bag.
const BAG_MAX: u64 = 5;
/// Most ids of a large bag, and most slots with such bags.
const LARGE_BAG_MAX: u64 = 50;
const LARGE_SLOTS_MAX: u64 = 3;
/// Values of ids.
const VALUES: [f32; 6] = [0.5, 2.0, -1.25, 0.0, 1.0, 0.1];
/// Bytes of a block: one or two examples, which fit the smallest blocks that shapes read.
const BLOCK_BYTES: usize = 500;
/// Bytes of a block if examples may have more keys than slots.
const LARGE_BLOCK_BYTES: usize = 4096;

/// Distribution of a slot's bags.
struct Bags {
    ids: Ids,
    namespace: Namespace,
    /// Fewest and most ids.
    counts: (u64, u64),
}

impl Bags {
    /// Draws the distribution of a slot, with one of `vocabularies` vocabularies.
    fn draw(vocabularies: u64, dice: &mut Dice) -> Self {
        let counts = [(0, 0), (0, 1), (0, BAG_MAX), (1, 1), (1, 1), (1, BAG_MAX), (2, BAG_MAX)];
        let vocabulary = dice.within(1, vocabularies) as usize;
        let namespace = Namespace::of_column(vocabulary);
        Self { ids: Ids::draw(dice), namespace, counts: dice.pick(&counts) }
    }

    fn key(&self, example: u64, dice: &mut Dice) -> Key {
        self.namespace.key_of(format!("{:x}", self.ids.id(example, dice)).as_bytes())
    }
}

/// Parameters of a file's examples.
#[derive(Clone, Copy)]
struct Drawn<'a> {
    slots: &'a [Bags],
    bound: Bound,
    /// Whether ids have values.
    valued: bool,
}

/// Bound on the ids of a file's examples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    /// At most one per slot in total.
    Slots,
    /// A separate bound for each bag.
    Bags,
}

impl Bound {
    /// Bytes of the largest block of a file.
    pub(crate) fn block_bytes(self) -> usize {
        match self {
            Self::Slots => BLOCK_BYTES,
            Self::Bags => LARGE_BLOCK_BYTES,
        }
    }
}

/// Draws `examples` examples, in up to three files.
pub(crate) fn draw(examples: u64, bound: Bound, dice: &mut Dice) -> Vec<Chunk> {
    let vocabularies = dice.pick(&[1, 3, Schema::CRITEO.id_columns as u64]);
    let mut slots: Vec<Bags> =
        (0..Schema::CRITEO.id_columns).map(|_| Bags::draw(vocabularies, dice)).collect();
    if bound == Bound::Bags && dice.once_in(2) {
        for _ in 0..dice.within(1, LARGE_SLOTS_MAX) {
            let slot = dice.below(Schema::CRITEO.id_columns as u64) as usize;
            slots[slot].counts = (0, LARGE_BAG_MAX);
        }
    }
    let per_file = examples.div_ceil(dice.pick(&[1, 1, 2, 3])).max(1);
    let files = examples.div_ceil(per_file);
    let file = |number| {
        let mut chunk = Chunk::new(Schema::CRITEO);
        let of = Drawn { slots: &slots, bound, valued: dice.once_in(2) };
        let end = examples.min((number + 1) * per_file);
        (number * per_file..end).for_each(|example| add(&mut chunk, &of, example, dice));
        chunk
    };
    (0..files).map(file).collect()
}

/// Adds example number `example`.
fn add(chunk: &mut Chunk, of: &Drawn<'_>, example: u64, dice: &mut Dice) {
    let Drawn { slots, bound, valued } = *of;
    chunk.lines.push(chunk.labels.len() as u32);
    chunk.labels.push(dice.below(2) as f32);
    chunk.dense.extend((0..chunk.schema.dense).map(|_| dice.below(10) as f32 * 0.25));
    // Distributes the total, starting at a different slot each time.
    let mut counts = vec![0; slots.len()];
    let mut left = if bound == Bound::Slots { slots.len() as u64 } else { u64::MAX };
    let first = dice.below(slots.len() as u64) as usize;
    for at in (first..slots.len()).chain(0..first) {
        let (least, most) = slots[at].counts;
        counts[at] = dice.within(least, most).min(left);
        left -= counts[at];
    }
    for (slot, count) in slots.iter().zip(counts) {
        chunk.keys.extend((0..count).map(|_| slot.key(example, dice)));
        chunk.bag_ends.push(chunk.keys.len() as u32);
    }
    // In some files all values are 1; in others, some examples have other values.
    if valued {
        let is_one = dice.once_in(3);
        let value = |dice: &mut Dice| if is_one { 1.0 } else { dice.pick(&VALUES) };
        let more = chunk.keys.len() - chunk.values.len();
        chunk.values.extend((0..more).map(|_| value(dice)));
    }
}

/// Writes the examples to a packed file with blocks of `block_bytes`.
pub(crate) fn write(chunk: &Chunk, block_bytes: usize, path: &Path) -> Result<(), DataError> {
    let options = PackedOptions { block_bytes, ..PackedOptions::new(chunk.schema) };
    let mut writer = PackedWriter::new(path, &options)?;
    writer.add(chunk)?;
    writer.finish().map(|_| ())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// A case that is never drawn is never simulated.
    #[test]
    fn bags_are_empty_full_repeated_and_shared() {
        let (mut sizes, mut repeated, mut shared) = (BTreeSet::new(), 0, 0);
        for job in 0..50 {
            let chunks = draw(30, Bound::Slots, &mut Dice::new(job, "test"));
            assert_eq!(chunks.iter().map(Chunk::len).sum::<usize>(), 30);
            for chunk in &chunks {
                for example in 0..chunk.len() {
                    let bags = (0..26).map(|slot| chunk.bag(example, slot));
                    let bags: Vec<BTreeSet<Key>> = bags
                        .map(|bag| {
                            sizes.insert(bag.len());
                            let distinct: BTreeSet<Key> = bag.iter().copied().collect();
                            repeated += usize::from(distinct.len() < bag.len());
                            distinct
                        })
                        .collect();
                    let all: BTreeSet<&Key> = bags.iter().flatten().collect();
                    shared += usize::from(all.len() < bags.iter().map(BTreeSet::len).sum());
                }
            }
        }
        assert_eq!(sizes.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
        assert!(repeated > 1000 && shared > 500, "{repeated} {shared}");
    }

    #[test]
    fn where_bags_have_bounds_some_are_large() {
        let (mut sizes, mut most) = ([0; LARGE_BAG_MAX as usize + 1], 0);
        for job in 0..20 {
            let chunks = draw(30, Bound::Bags, &mut Dice::new(job, "test"));
            for chunk in &chunks {
                for example in 0..chunk.len() {
                    (0..26).for_each(|slot| sizes[chunk.bag(example, slot).len()] += 1);
                    let keys = (0..26).map(|slot| chunk.bag(example, slot).len()).sum::<usize>();
                    most = most.max(keys);
                }
            }
        }
        let large = sizes[20..].iter().sum::<usize>();
        assert!(sizes[0] > 500 && large > 200 && most > 26, "{sizes:?} {most}");
    }
}
