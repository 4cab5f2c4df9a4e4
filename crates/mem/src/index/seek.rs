//! Look-ups of many keys in turn: memory is asked for ahead of its use.
//!
//! Of a key that comes later the bucket is asked for, of one that comes sooner the record beside
//! the slot whose tag fits. The index may change between two look-ups: what was asked for is a
//! guess, and each look-up reads the index as it is.

use stepwell_base::prefetch::prefetch;
use stepwell_base::{Key, SlotIndex};

use super::{AHEAD, Home, Index};

/// Keys whose homes are known at once.
const RING: usize = 2 * AHEAD;
/// Keys whose lines are asked for one right after the other.
pub(super) const BURST: usize = 16;
/// No entry of a bucket.
const NO_ENTRY: u8 = u8::MAX;

/// Where a row of look-ups is.
#[derive(Debug)]
pub struct Seek {
    /// Homes of the keys that come next, each at its number modulo [`RING`].
    homes: [Home; RING],
    /// The entry of each one's first bucket whose tag fits, if any, once its record was asked for.
    entries: [u8; RING],
    /// Keys whose buckets were asked for, and [`AHEAD`] more in the end.
    asked: usize,
    /// Keys whose homes were worked out.
    known: usize,
    /// Buckets that were in use when the homes were worked out.
    used: usize,
}

impl Default for Seek {
    fn default() -> Self {
        Self {
            homes: [Home::default(); RING],
            entries: [NO_ENTRY; RING],
            asked: 0,
            known: 0,
            used: 0,
        }
    }
}

impl Index {
    /// The slot of key number `at`, which there is; those before it were looked up with the same
    /// `seek`. `keys` says each one's key, `key_in` each taken slot's, `ask` requests what that
    /// will read of a slot.
    #[inline]
    pub(crate) fn seek(
        &self,
        seek: &mut Seek,
        (keys, at): (impl Fn(usize) -> Option<Key>, usize),
        key_in: impl Fn(SlotIndex) -> Key,
        ask: impl Fn(SlotIndex),
    ) -> Option<SlotIndex> {
        if seek.used != self.used {
            self.find_homes(seek, (&keys, at));
        }
        while seek.asked + BURST <= at + RING {
            self.ask_for_more(seek, &keys, &ask);
        }
        let (key, home) = (keys(at)?, &seek.homes[at % RING]);
        let slots = &self.buckets[home.buckets[0]].slots;
        let slot = slots.get(usize::from(seek.entries[at % RING]));
        // Mostly it is still there, and no other has its key.
        let slot = slot.filter(|slot| **slot != 0).map(|slot| SlotIndex(*slot - 1));
        slot.filter(|slot| key_in(*slot) == key).or_else(|| self.find_at(key, home, key_in))
    }

    /// Asks for the buckets of the keys that come next, and for the records of those before them.
    /// Nothing else is done in between: where a page is not at hand, many are looked up at once.
    #[inline]
    fn ask_for_more(
        &self,
        seek: &mut Seek,
        keys: impl Fn(usize) -> Option<Key>,
        ask: &impl Fn(SlotIndex),
    ) {
        let from = seek.asked;
        for number in from..from + BURST {
            let Some(key) = keys(number) else { break };
            let home = self.home(key);
            seek.homes[number % RING] = home;
            prefetch(&self.buckets[home.buckets[0]]);
            seek.known = number + 1;
        }
        if let Some(sooner) = from.checked_sub(AHEAD) {
            for number in sooner..(sooner + BURST).min(seek.known) {
                seek.entries[number % RING] = self.ask_for(&seek.homes[number % RING], ask);
            }
        }
        seek.asked += BURST;
    }

    /// Works out anew where keys may be that were asked for and not looked up: other buckets are
    /// in use.
    #[cold]
    fn find_homes(&self, seek: &mut Seek, (keys, at): (impl Fn(usize) -> Option<Key>, usize)) {
        seek.used = self.used;
        for number in at..seek.known {
            if let Some(key) = keys(number) {
                seek.homes[number % RING] = self.home(key);
            }
        }
    }

    /// Asks for what is beside the slot whose tag fits, and says which entry that is, or for the
    /// second bucket.
    #[inline]
    fn ask_for(&self, home: &Home, ask: &impl Fn(SlotIndex)) -> u8 {
        let [first, second] = home.buckets;
        let entries = &self.buckets[first];
        let bits = entries.with_tag(home.tag);
        if bits != 0 {
            let at = bits.trailing_zeros() as usize;
            if entries.slots[at] != 0 {
                ask(entries.slot(at));
                return at as u8;
            }
        } else if entries.elsewhere > 0 {
            prefetch(&self.buckets[second]);
        }
        NO_ENTRY
    }
}
