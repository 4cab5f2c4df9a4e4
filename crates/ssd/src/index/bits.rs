//! The layout of a shard's slots: which bits are of the key, and which of its place.
//!
//! ```text
//! word, 64 bits                                                     extra, 0 to 32 bits
//! ┌──────────────────────────┬──────────────────────┬────────┐      ┌──────────────────┐
//! │ low bits of the place    │ remainder + 1        │ choice │      │ high bits        │
//! └──────────────────────────┴──────────────────────┴────────┘      └──────────────────┘
//!                             `-------- tag, tag_bits -------'       extra_bits
//! ```
//!
//! - **How.** The 2^54 values by which a shard chooses are divided into as many ranges of `width`
//!   as there are buckets: the range is the bucket, the position in it the remainder. Bucket,
//!   remainder and choice encode the whole key; a word of zeros is a vacant slot. More buckets mean
//!   shorter remainders, and more bits of a place in the word.
//! - **Invariants.**
//!   - SSD-I9: a tag is never zero, and no two keys have the same tag in a bucket.
//! - **Cost.** Eight bytes a slot, and `extra_bits` bits.

use super::permute::{LOCAL_SPAN, turn, turn_back};

/// Number of slots of a bucket: a cache line of words.
pub(super) const SLOTS: usize = 8;
/// The most bits of a place.
pub(super) const PLACE_BITS_MAX: u32 = 40;
/// Extra bits are read and written eight bytes at a time.
const EXTRA_WORD_BYTES: usize = 8;

/// Place of a row, as a number below 2^40.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Place(pub(crate) u64);

/// One of a key's two buckets, and its tag there.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Probe {
    pub(super) bucket: usize,
    pub(super) tag: u64,
}

/// Number of bits needed to write `value`.
pub(super) fn bits_of(value: u64) -> u32 {
    u64::BITS - value.leading_zeros()
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    /// Number of values per bucket.
    width: u64,
    /// 2^64 / width, at most one too low.
    reciprocal: u64,
    tag_bits: u32,
    extra_bits: u32,
}

impl Form {
    /// The form for `buckets` buckets, and for places of up to `place_bits` bits.
    pub(super) fn new(buckets: usize, place_bits: u32) -> Self {
        assert!(place_bits <= PLACE_BITS_MAX, "places of {place_bits} bits");
        let width = LOCAL_SPAN.div_ceil(buckets.max(1) as u64);
        let tag_bits = bits_of(width) + 1;
        let extra_bits = (tag_bits + place_bits).saturating_sub(u64::BITS);
        Self { width, reciprocal: u64::MAX / width, tag_bits, extra_bits }
    }

    /// Number of bits that a place may have.
    #[inline]
    pub(super) fn place_bits(&self) -> u32 {
        (u64::BITS - self.tag_bits + self.extra_bits).min(PLACE_BITS_MAX)
    }

    /// Bytes of the extra bits of `buckets` buckets.
    pub(super) fn extra_bytes(&self, buckets: usize) -> usize {
        match self.extra_bits as usize * SLOTS / 8 * buckets {
            0 => 0,
            bytes => bytes + EXTRA_WORD_BYTES,
        }
    }

    /// The bits of a word that are the tag.
    #[inline(always)]
    pub(super) fn tag_mask(&self) -> u64 {
        u64::MAX >> (u64::BITS - self.tag_bits)
    }

    /// Both probes of a local value.
    #[inline(always)]
    pub(super) fn probes(&self, local: u64) -> [Probe; 2] {
        [self.probe(local, 0), self.probe(turn(local), 1)]
    }

    /// The bucket and tag of a value under a choice.
    #[inline(always)]
    fn probe(&self, value: u64, choice: u64) -> Probe {
        let mut bucket = ((u128::from(value) * u128::from(self.reciprocal)) >> 64) as u64;
        let mut remainder = value - bucket * self.width;
        // For values below 2^54, the reciprocal's error is below 2^-10 of a bucket.
        if remainder >= self.width {
            remainder -= self.width;
            bucket += 1;
        }
        Probe { bucket: bucket as usize, tag: (remainder + 1) << 1 | choice }
    }

    /// Value and choice in an occupied slot.
    #[inline]
    fn value(&self, bucket: usize, word: u64) -> (u64, u64) {
        let tag = word & self.tag_mask();
        assert!(tag >> 1 != 0, "SSD-I9: a vacant slot has no value");
        (bucket as u64 * self.width + (tag >> 1) - 1, tag & 1)
    }

    /// The bucket of the same choice in this form, for a slot in form `from`.
    #[inline]
    pub(super) fn same(&self, from: &Self, bucket: usize, word: u64) -> Probe {
        let (value, choice) = from.value(bucket, word);
        self.probe(value, choice)
    }

    /// The bucket of the other choice in this form, for a slot in form `from`.
    #[inline]
    pub(super) fn other(&self, from: &Self, bucket: usize, word: u64) -> Probe {
        let (value, choice) = from.value(bucket, word);
        let value = if choice == 0 { turn(value) } else { turn_back(value) };
        self.probe(value, 1 - choice)
    }

    /// The local value of an occupied slot.
    #[cfg(test)]
    pub(super) fn local(&self, bucket: usize, word: u64) -> u64 {
        let (value, choice) = self.value(bucket, word);
        if choice == 0 { value } else { turn_back(value) }
    }

    /// The place in `word` and in the extra bits of slot `slot` of the shard.
    #[inline(always)]
    pub(super) fn place(&self, word: u64, extra: &[u8], slot: usize) -> Place {
        let low = word >> self.tag_bits;
        if self.extra_bits == 0 {
            return Place(low);
        }
        let (at, shift) = self.extra_start(slot);
        let high = (read_extra_word(extra, at) >> shift) & self.extra_mask();
        Place(high << (u64::BITS - self.tag_bits) | low)
    }

    /// Returns the word for `tag` and `place`, and writes the place's high bits to `extra`.
    #[inline(always)]
    pub(super) fn write(&self, tag: u64, place: Place, extra: &mut [u8], slot: usize) -> u64 {
        assert!(bits_of(place.0) <= self.place_bits(), "{place:?} has more bits than {self:?}");
        if self.extra_bits > 0 {
            let (at, shift) = self.extra_start(slot);
            let high = place.0 >> (u64::BITS - self.tag_bits);
            let kept = read_extra_word(extra, at) & !(self.extra_mask() << shift);
            extra[at..at + EXTRA_WORD_BYTES].copy_from_slice(&(kept | high << shift).to_le_bytes());
        }
        place.0 << self.tag_bits | tag
    }

    #[inline(always)]
    fn extra_mask(&self) -> u64 {
        (1 << self.extra_bits) - 1
    }

    /// Byte and bit where the extra bits of a slot start.
    #[inline(always)]
    fn extra_start(&self, slot: usize) -> (usize, usize) {
        let bit = slot * self.extra_bits as usize;
        (bit / 8, bit % 8)
    }

    /// Indices of the first and last byte that are read for the extra bits of a bucket, if it has
    /// any.
    #[inline(always)]
    pub(super) fn extra_at(&self, bucket: usize) -> [usize; 2] {
        let [first, last] = [0, SLOTS - 1].map(|slot| self.extra_start(bucket * SLOTS + slot).0);
        [first, last + EXTRA_WORD_BYTES - 1]
    }
}

#[inline(always)]
fn read_extra_word(extra: &[u8], at: usize) -> u64 {
    let mut word = [0; EXTRA_WORD_BYTES];
    word.copy_from_slice(&extra[at..at + EXTRA_WORD_BYTES]);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use stepwell_base::random::Stream;

    use super::*;

    #[test]
    fn every_value_has_a_bucket_and_comes_back() {
        let mut stream = Stream::from_state(2);
        for buckets in (1..70).chain([255, 256, 257, 1285, 12_850, 999_983, 1 << 30]) {
            let form = Form::new(buckets, 24);
            let edges = (0..buckets as u64).take(300).map(|bucket| bucket * form.width);
            let edges = edges.flat_map(|edge| [edge, edge.saturating_sub(1)]);
            let random = (0..300).map(|_| stream.next_u64() % LOCAL_SPAN);
            for value in edges.chain(random).chain([LOCAL_SPAN - 1]) {
                let value = value.min(LOCAL_SPAN - 1);
                for (choice, probe) in form.probes(value).into_iter().enumerate() {
                    assert!(probe.bucket < buckets);
                    assert_eq!(probe.tag & !form.tag_mask(), 0);
                    assert!(probe.tag >> 1 != 0 && probe.tag & 1 == choice as u64);
                    assert_eq!(form.local(probe.bucket, probe.tag), value);
                    let other = form.other(&form, probe.bucket, probe.tag);
                    assert_eq!(form.local(other.bucket, other.tag), value);
                }
                assert_eq!(form.probes(value)[0].bucket as u64, value / form.width);
            }
        }
    }

    #[test]
    fn places_of_every_width_come_back() {
        let mut stream = Stream::from_state(3);
        for (buckets, place_bits) in [(1, 40), (1, 0), (2, 40), (7, 9), (9, 23), (40, 31)] {
            let form = Form::new(buckets, place_bits);
            assert!(form.place_bits() >= place_bits && form.extra_bits <= 32);
            let mut extra = vec![0; form.extra_bytes(buckets)];
            let slots = buckets * SLOTS;
            let mut words = vec![0; slots];
            let mut places = vec![Place(0); slots];
            for _ in 0..20 * slots {
                let slot = stream.next_u64() as usize % slots;
                let place = Place((stream.next_u64() >> 24) % (1 << place_bits));
                words[slot] = form.write(form.tag_mask(), place, &mut extra, slot);
                places[slot] = place;
                let whole = (0..slots).map(|slot| form.place(words[slot], &extra, slot));
                assert!(whole.zip(&places).all(|(read, place)| read == *place));
            }
        }
    }
}
