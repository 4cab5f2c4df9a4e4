//! A shard: a cuckoo table with any number of buckets of eight slots.
//!
//! - **How.** A key is in one of two buckets, in any slot; a look-up reads one cache line of each.
//!   A new key goes to the emptier bucket. A shard that grows, or whose places outgrow their bits,
//!   is copied; its owner counts the bytes of both copies.
//! - **Invariants.**
//!   - SSD-I10: a key is in at most one slot.
//!   - SSD-I11: `rows` is the number of occupied slots.
//! - **Failure.** [`Shard::room`] returns `None` if the shard must grow.
//! - **Cost.** 64 bytes a bucket, eight times the extra bits, and one line for this header.

use stepwell_base::prefetch::prefetch;

use super::bits::{Form, Place, Probe, SLOTS};

/// A shard grows once one slot in this many is vacant: a load of 0.97. Above that, each new key
/// would search a dozen or more buckets.
const SLOTS_PER_VACANT: usize = 33;
/// A shard with fewer buckets than this doubles; a larger one grows by 0.3.
const DOUBLING_BELOW: usize = 8;

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Bucket([u64; SLOTS]);

impl Bucket {
    const VACANT: Self = Self([0; SLOTS]);

    /// The slots whose bits under `mask` equal those of `tag`.
    #[inline(always)]
    fn matches(&self, tag: u64, mask: u64) -> Slots {
        let mut matches = 0;
        for (slot, word) in self.0.iter().enumerate() {
            // A choice of two numbers, not a shifted bit, so that the compiler vectorizes it.
            matches |= if (word ^ tag) & mask == 0 { Slots::ONE << (4 * slot) } else { 0 };
        }
        Slots(matches)
    }

    #[inline(always)]
    fn vacancies(&self) -> Slots {
        self.matches(0, u64::MAX)
    }
}

/// A set of slots of a bucket, four bits each.
#[derive(Clone, Copy, Debug)]
struct Slots(u32);

impl Slots {
    /// The set of only the first slot.
    const ONE: u32 = 0xF;

    #[inline(always)]
    fn first(self) -> Option<usize> {
        (self.0 != 0).then(|| self.0.trailing_zeros() as usize / 4)
    }
}

/// A slot of a shard.
#[derive(Clone, Copy, Debug)]
pub(super) struct At {
    pub(super) bucket: usize,
    pub(super) slot: usize,
}

impl At {
    /// Index among all slots of the shard.
    #[inline]
    fn number(self) -> usize {
        self.bucket * SLOTS + self.slot
    }
}

#[repr(align(64))]
pub(super) struct Shard {
    buckets: Box<[Bucket]>,
    /// The high bits of the places, packed.
    extra: Box<[u8]>,
    form: Form,
    rows: usize,
}

impl Shard {
    /// A shard of `buckets` vacant buckets.
    pub(super) fn new(buckets: usize, place_bits: u32) -> Self {
        assert!(u32::try_from(buckets).is_ok(), "a shard of {buckets} buckets");
        let form = Form::new(buckets, place_bits);
        Self {
            buckets: vec![Bucket::VACANT; buckets].into_boxed_slice(),
            extra: vec![0; form.extra_bytes(buckets)].into_boxed_slice(),
            form,
            rows: 0,
        }
    }

    /// Bytes that [`Shard::new`] would allocate.
    pub(super) fn bytes_for(buckets: usize, place_bits: u32) -> u64 {
        let extra = Form::new(buckets, place_bits).extra_bytes(buckets);
        (buckets * size_of::<Bucket>() + extra) as u64
    }

    /// Bytes of the arrays.
    pub(super) fn bytes(&self) -> u64 {
        (size_of_val(&*self.buckets) + self.extra.len()) as u64
    }

    /// Number of buckets after the next growth.
    pub(super) fn buckets_grown(buckets: usize) -> usize {
        if buckets < DOUBLING_BELOW { 2 * buckets } else { (buckets * 13).div_ceil(10) }
    }

    pub(super) fn buckets(&self) -> usize {
        self.buckets.len()
    }

    /// Number of bits that a place may have.
    pub(super) fn place_bits(&self) -> u32 {
        self.form.place_bits()
    }

    #[inline(always)]
    pub(super) fn probes(&self, local: u64) -> [Probe; 2] {
        self.form.probes(local)
    }

    /// Prefetches the lines of both buckets and of their extra bits.
    #[inline(always)]
    pub(super) fn prefetch(&self, probes: &[Probe; 2]) {
        for probe in probes {
            if let Some(bucket) = self.buckets.get(probe.bucket) {
                prefetch(bucket);
            }
            // Often the same line, prefetched twice.
            for at in self.form.extra_at(probe.bucket) {
                if let Some(byte) = self.extra.get(at) {
                    prefetch(byte);
                }
            }
        }
    }

    /// The slot of a key.
    #[inline(always)]
    pub(super) fn find(&self, probes: &[Probe; 2]) -> Option<At> {
        let mask = self.form.tag_mask();
        let [first, second] = probes;
        let in_first = self.buckets.get(first.bucket)?.matches(first.tag, mask);
        let in_second = self.buckets.get(second.bucket)?.matches(second.tag, mask);
        let bucket = if in_first.0 != 0 { first.bucket } else { second.bucket };
        Some(At { bucket, slot: Slots(in_first.0 | in_second.0).first()? })
    }

    /// A vacant slot for a key, in the emptier bucket.
    #[inline(always)]
    pub(super) fn vacancy(&self, probes: &[Probe; 2]) -> Option<At> {
        let [first, second] = probes.map(|probe| probe.bucket);
        let in_first = self.buckets.get(first)?.vacancies();
        let in_second = self.buckets.get(second)?.vacancies();
        let second_is_emptier = in_second.0.count_ones() > in_first.0.count_ones();
        let (bucket, slots) =
            if second_is_emptier { (second, in_second) } else { (first, in_first) };
        Some(At { bucket, slot: slots.first()? })
    }

    /// Whether too few slots are vacant to move keys for another one.
    pub(super) fn must_grow(&self) -> bool {
        let slots = self.buckets.len() * SLOTS;
        self.rows + slots / SLOTS_PER_VACANT >= slots
    }

    #[inline(always)]
    pub(super) fn place(&self, at: At) -> Place {
        self.form.place(self.buckets[at.bucket].0[at.slot], &self.extra, at.number())
    }

    /// Points an occupied slot at `place`; returns its previous place.
    #[inline(always)]
    pub(super) fn replace(&mut self, at: At, place: Place) -> Place {
        let before = self.place(at);
        let word = &mut self.buckets[at.bucket].0[at.slot];
        let tag = *word & self.form.tag_mask();
        *word = self.form.write(tag, place, &mut self.extra, at.number());
        before
    }

    /// Puts a key into a vacant slot of one of its buckets.
    #[inline(always)]
    pub(super) fn take(&mut self, at: At, probes: &[Probe; 2], place: Place) {
        let [first, second] = probes;
        assert!(at.bucket == first.bucket || at.bucket == second.bucket, "{at:?} for {probes:?}");
        self.fill(at, if at.bucket == first.bucket { first.tag } else { second.tag }, place);
    }

    #[inline(always)]
    fn fill(&mut self, at: At, tag: u64, place: Place) {
        let word = &mut self.buckets[at.bucket].0[at.slot];
        assert!(*word == 0, "SSD-I10: {at:?} is taken");
        *word = self.form.write(tag, place, &mut self.extra, at.number());
        self.rows += 1;
    }

    /// Vacates an occupied slot.
    pub(super) fn leave(&mut self, at: At) {
        self.buckets[at.bucket].0[at.slot] = 0;
        self.rows -= 1;
    }

    /// The other bucket of the key in an occupied slot.
    pub(super) fn other(&self, at: At) -> Probe {
        self.form.other(&self.form, at.bucket, self.buckets[at.bucket].0[at.slot])
    }

    /// The other buckets of the keys in a full bucket.
    #[inline]
    pub(super) fn others(&self, bucket: usize) -> [Probe; SLOTS] {
        self.buckets[bucket].0.map(|word| self.form.other(&self.form, bucket, word))
    }

    #[inline]
    pub(super) fn prefetch_bucket(&self, bucket: usize) {
        prefetch(&self.buckets[bucket]);
    }

    /// A vacant slot of a bucket.
    pub(super) fn vacant_slot(&self, bucket: usize) -> Option<usize> {
        self.buckets[bucket].vacancies().first()
    }

    /// Moves a key to a vacant slot of its other bucket, with its tag there.
    pub(super) fn transfer(&mut self, from: At, tag: u64, to: At) {
        let place = self.place(from);
        self.leave(from);
        self.fill(to, tag, place);
    }

    /// Gives places more bits.
    pub(super) fn widen(&mut self, place_bits: u32) {
        let form = Form::new(self.buckets.len(), place_bits);
        let mut extra = vec![0; form.extra_bytes(self.buckets.len())].into_boxed_slice();
        let words = self.buckets.iter_mut().flat_map(|bucket| &mut bucket.0);
        for (slot, word) in words.enumerate().filter(|(_, word)| **word != 0) {
            let place = self.form.place(*word, &self.extra, slot);
            *word = form.write(*word & form.tag_mask(), place, &mut extra, slot);
        }
        (self.form, self.extra) = (form, extra);
    }

    /// Copies the keys into `buckets` buckets; `None` if one finds no room there.
    ///
    /// Buckets of both are in the order of values, so a key that keeps its choice is written next
    /// to the previous one.
    pub(super) fn rewritten(&self, buckets: usize, place_bits: u32) -> Option<Self> {
        let mut new = Self::new(buckets, place_bits);
        for (bucket, words) in self.buckets.iter().enumerate() {
            for (slot, word) in words.0.iter().enumerate().filter(|(_, word)| **word != 0) {
                let place = self.place(At { bucket, slot });
                let same = new.form.same(&self.form, bucket, *word);
                if let Some(slot) = new.vacant_slot(same.bucket) {
                    new.fill(At { bucket: same.bucket, slot }, same.tag, place);
                    continue;
                }
                let probes = [same, new.form.other(&self.form, bucket, *word)];
                let at = new.room(&probes)?;
                new.take(at, &probes, place);
            }
        }
        assert!(new.rows == self.rows, "SSD-I11: {} rows became {}", self.rows, new.rows);
        Some(new)
    }

    /// Local value and place of every key.
    #[cfg(test)]
    pub(super) fn entries(&self) -> Vec<(u64, Place)> {
        let mut entries = Vec::new();
        for (bucket, words) in self.buckets.iter().enumerate() {
            for (slot, word) in words.0.iter().enumerate().filter(|(_, word)| **word != 0) {
                entries.push((self.form.local(bucket, *word), self.place(At { bucket, slot })));
            }
        }
        assert_eq!(entries.len(), self.rows);
        entries
    }
}
