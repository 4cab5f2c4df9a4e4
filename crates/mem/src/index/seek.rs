//! Look-ups of many keys in turn: memory is asked for ahead of its use.
//!
//! Of a key that comes later the bucket is asked for, of one that comes sooner the record beside
//! the slot whose tag fits. The index may change between two look-ups: what was asked for is a
//! guess, and each look-up reads the index as it is.

use stepwell_base::prefetch::prefetch;
use stepwell_base::{Key, SlotIndex};

use super::{Home, Index};

/// Keys between the request for a line and its use: of buckets, and of records.
const AHEAD: usize = 32;
/// Keys whose homes are known at once.
const RING: usize = 2 * AHEAD;

/// Where a row of look-ups is.
#[derive(Debug)]
pub struct Seek {
    /// Homes of the keys that come next, each at its number modulo [`RING`].
    homes: [Home; RING],
    /// Keys whose buckets were asked for, and [`AHEAD`] more in the end.
    asked: usize,
    /// Keys whose homes were worked out.
    known: usize,
    /// Buckets that were in use when the homes were worked out.
    used: usize,
}

impl Default for Seek {
    fn default() -> Self {
        Self { homes: [Home::default(); RING], asked: 0, known: 0, used: 0 }
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
        while seek.asked < at + RING {
            if let Some(key) = keys(seek.asked) {
                let home = self.home(key);
                seek.known = seek.asked + 1;
                seek.homes[seek.asked % RING] = home;
                prefetch(&self.buckets[home.buckets[0]]);
            }
            let sooner = seek.asked.checked_sub(AHEAD);
            if let Some(number) = sooner.filter(|number| *number < seek.known) {
                self.ask_for(&seek.homes[number % RING], &ask);
            }
            seek.asked += 1;
        }
        self.find_at(keys(at)?, &seek.homes[at % RING], key_in)
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

    /// Asks for what is beside the slot whose tag fits, or for the second bucket.
    #[inline]
    fn ask_for(&self, home: &Home, ask: &impl Fn(SlotIndex)) {
        let [first, second] = home.buckets;
        let entries = &self.buckets[first];
        let bits = entries.with_tag(home.tag);
        if bits != 0 {
            let at = bits.trailing_zeros() as usize;
            if entries.slots[at] != 0 {
                ask(entries.slot(at));
            }
        } else if entries.elsewhere > 0 {
            prefetch(&self.buckets[second]);
        }
    }
}
