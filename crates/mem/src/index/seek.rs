//! Sequential look-ups of many keys, with prefetching.
//!
//! For distant keys the bucket is prefetched, for closer ones the record of the slot whose tag
//! matches. The index may change between two look-ups: prefetching is a guess, and each look-up
//! reads the current index.

use stepwell_base::prefetch::prefetch;
use stepwell_base::{Key, SlotIndex};

use super::{AHEAD, Home, Index};

/// Number of keys whose homes are known at once.
const RING: usize = 2 * AHEAD;
/// Number of keys whose lines are prefetched in one burst.
pub(super) const BURST: usize = 16;
/// No entry of a bucket.
const NO_ENTRY: u8 = u8::MAX;

/// State of a sequence of look-ups.
#[derive(Debug)]
pub struct Seek {
    /// Homes of the next keys, each at its number modulo [`RING`].
    homes: [Home; RING],
    /// For each next key, the entry of its first bucket with a matching tag, if any, once its
    /// record was prefetched.
    entries: [u8; RING],
    /// Number of keys whose buckets were prefetched; at the end, [`AHEAD`] more.
    asked: usize,
    /// Number of keys whose homes were computed.
    known: usize,
    /// Number of buckets in use when the homes were computed.
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
    /// The slot of key number `at`, which must exist; earlier keys were looked up with the same
    /// `seek`. `keys` returns the key of a number, `key_in` the key of a taken slot, and `ask`
    /// prefetches what that reads.
    #[inline]
    pub(crate) fn seek(
        &self,
        seek: &mut Seek,
        at: usize,
        keys: impl Fn(usize) -> Option<Key>,
        key_in: impl Fn(SlotIndex) -> Key,
        ask: impl Fn(SlotIndex),
    ) -> Option<SlotIndex> {
        if seek.used != self.used {
            self.find_homes(seek, at, &keys);
        }
        while seek.asked + BURST <= at + RING {
            self.ask_for_more(seek, &keys, &ask);
        }
        let (key, home) = (keys(at)?, &seek.homes[at % RING]);
        let slots = &self.buckets[home.buckets[0]].slots;
        let slot = slots.get(usize::from(seek.entries[at % RING]));
        // Usually it is still there and has the key.
        let slot = slot.filter(|slot| **slot != 0).map(|slot| SlotIndex(*slot - 1));
        slot.filter(|slot| key_in(*slot) == key).or_else(|| self.find_at(key, home, key_in))
    }

    /// Prefetches the buckets of the next keys, and the records of earlier ones. Nothing else is
    /// done in between, so that many pages missing from the TLB are looked up at once.
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

    /// Recomputes the homes of keys that were prefetched and not looked up, as another number of
    /// buckets is in use.
    #[cold]
    fn find_homes(&self, seek: &mut Seek, at: usize, keys: impl Fn(usize) -> Option<Key>) {
        seek.used = self.used;
        for number in at..seek.known {
            if let Some(key) = keys(number) {
                seek.homes[number % RING] = self.home(key);
            }
        }
    }

    /// Prefetches the record of the slot whose tag matches and returns its entry, or prefetches the
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
