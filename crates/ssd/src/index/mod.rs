//! The index: the place of each row's newest version.
//!
//! - **How.** 1024 shards by ten bits of the scattered key, each a table (`shard`). The numbers of
//!   shard and bucket encode part of the key, so a slot has only the rest and the place (`bits`).
//!   As the whole key is encoded, a match is exact. Keys are scattered by a secret, so that chosen
//!   keys cannot collide in a bucket. A full shard first moves keys within itself (`path`), then
//!   grows by three tenths, independently of others. Places get more bits in a shard when it needs
//!   them.
//! - **Invariants.**
//!   - SSD-I8: the bytes of all shards, and of the one being rewritten, stay within the bound.
//! - **Failure.** A key or place that would break SSD-I8 is refused before anything changes.
//! - **Cost.** A slot has eight bytes and two or three bits: 8.8 bytes a row if the number of rows
//!   was known in advance, 8.6 to 11.2 if shards grow. A look-up reads two lines, and one of extra
//!   bits; rewriting a shard takes some 20 ns a row.
//! - **Bounds.** Places below 2^40.

#![forbid(unsafe_code)]

#[cfg(test)]
mod adversarial_keys;
mod ahead;
mod bits;
mod part;
mod path;
mod permute;
mod shard;
#[cfg(test)]
mod shard_keys;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use pulp::{Arch, Simd, WithSimd};
use stepwell_base::Key;
use stepwell_base::scatter::Scatter;

pub(crate) use ahead::{Ahead, Asked};
pub(crate) use bits::Place;
use bits::{PLACE_BITS_MAX, Probe, SLOTS, bits_of};
pub(crate) use part::{ByPart, Parting};
use permute::SHARDS;
use shard::{At, Shard};

/// Load, in thousandths, that shards are planned for if the number of rows is known in advance.
/// With ten million rows, one shard in a thousand then gets more than it holds, and grows.
const LOAD_PLANNED_PERMILLE: u64 = 940;

/// Planning assumes that no shard grows below this load; full ones grow at 0.97, small ones
/// earlier.
const LOAD_GROWN_MIN: f64 = 0.9;

/// The index may not grow: its rows and bytes, the bytes that it needs, and the bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full {
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    /// Bytes of the next step of growth.
    pub(crate) growth: u64,
    pub(crate) bytes_max: u64,
}

pub(crate) struct Index {
    scatter: Scatter,
    shards: Box<[Shard]>,
    rows: u64,
    bytes: u64,
    bytes_peak: u64,
    bytes_max: u64,
    rewrite_longest: Duration,
    /// Number of buckets of a shard when it gets its first key.
    buckets_first: usize,
    /// Number of bits of the highest place so far, or of the highest one expected.
    place_bits: u32,
}

impl Index {
    /// An empty index that expects `rows_hint` rows at places below `places_hint`.
    ///
    /// Hints may be zero or wrong. Memory for rows is allocated as they come. `scatter` affects no
    /// answer, and the index's bytes only slightly.
    pub(crate) fn new(bytes_max: u64, rows_hint: u64, places_hint: u64, scatter: Scatter) -> Self {
        let place_bits = bits_of(places_hint.saturating_sub(1)).min(PLACE_BITS_MAX);
        let shards: Box<[Shard]> = (0..SHARDS).map(|_| Shard::new(0, place_bits)).collect();
        let bytes = size_of_val(&*shards) as u64;
        let share = bytes_max.saturating_sub(bytes) / SHARDS as u64;
        let buckets_first = buckets_planned(rows_hint, place_bits, share);
        Self {
            scatter,
            shards,
            rows: 0,
            bytes,
            bytes_peak: bytes,
            bytes_max,
            rewrite_longest: Duration::ZERO,
            buckets_first,
            place_bits,
        }
    }

    /// Number of keys.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Bytes of the shards and of their headers.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The bound on [`Index::bytes`] (SSD-I8).
    pub(crate) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Sets another bound; if it is below the current bytes, no shard can grow.
    pub(crate) fn set_bytes_max(&mut self, bytes_max: u64) {
        self.bytes_max = bytes_max;
    }

    /// The most that [`Index::bytes`] and a shard being rewritten took together.
    pub(crate) fn bytes_peak(&self) -> u64 {
        self.bytes_peak
    }

    #[inline]
    pub(crate) fn get(&self, key: Key) -> Option<Place> {
        // Prefetching loads the line of extra bits along with the words.
        self.get_asked(&self.ask(key))
    }

    #[inline(always)]
    fn get_asked(&self, asked: &Asked) -> Option<Place> {
        let shard = &self.shards[asked.shard];
        shard.find(&asked.probes(shard)).map(|at| shard.place(at))
    }

    /// The longest time that rewriting a shard took: the longest pause caused by growth.
    pub(crate) fn rewrite_longest(&self) -> Duration {
        self.rewrite_longest
    }

    /// Calls `found` with the position and the place of each of `keys`, in order.
    #[inline]
    pub(crate) fn get_many(&self, keys: &[Key], found: impl FnMut(usize, Option<Place>)) {
        Arch::new().dispatch(GetMany { index: self, keys, found });
    }

    /// Points `key` at `place`; returns its previous place.
    pub(crate) fn put(&mut self, key: Key, place: Place) -> Result<Option<Place>, Full> {
        let asked = self.ask(key);
        self.put_asked(&asked, place)
    }

    /// Points a key at `place`; returns its previous place.
    #[inline(always)]
    pub(crate) fn put_asked(&mut self, asked: &Asked, place: Place) -> Result<Option<Place>, Full> {
        let Spot { at, vacant_for } = self.spot(asked, place)?;
        let shard = &mut self.shards[asked.shard];
        let Some(probes) = vacant_for else { return Ok(Some(shard.replace(at, place))) };
        shard.take(at, &probes, place);
        self.rows += 1;
        Ok(None)
    }

    /// Points a key at `to` if it points at `from`; returns whether it did.
    pub(crate) fn move_row(&mut self, asked: &Asked, from: Place, to: Place) -> Result<bool, Full> {
        let shard = &self.shards[asked.shard];
        let found = shard.find(&asked.probes(shard));
        let Some(at) = found.filter(|at| shard.place(*at) == from) else { return Ok(false) };
        self.admit(asked.shard, to)?;
        self.shards[asked.shard].replace(at, to);
        Ok(true)
    }

    /// Removes `key`; returns its place.
    pub(crate) fn remove(&mut self, key: Key) -> Option<Place> {
        let (number, local) = permute::split(self.scatter.of(key));
        let shard = &mut self.shards[number];
        let at = shard.find(&shard.probes(local))?;
        let place = shard.place(at);
        shard.leave(at);
        self.rows -= 1;
        Some(place)
    }

    /// The slot of a key, or a vacant one for it, with enough bits for `place`.
    #[inline(always)]
    fn spot(&mut self, asked: &Asked, place: Place) -> Result<Spot, Full> {
        let shard = &self.shards[asked.shard];
        if bits_of(place.0) <= shard.place_bits() {
            let probes = asked.probes(shard);
            if let Some(at) = shard.find(&probes) {
                return Ok(Spot { at, vacant_for: None });
            }
            if let Some(at) = shard.vacancy(&probes) {
                return Ok(Spot { at, vacant_for: Some(probes) });
            }
        }
        self.spot_made(asked, place)
    }

    /// [`Index::spot`] for the case that slots must move or the shard must grow.
    #[cold]
    fn spot_made(&mut self, asked: &Asked, place: Place) -> Result<Spot, Full> {
        let spot = loop {
            let shard = &mut self.shards[asked.shard];
            let probes = asked.probes(shard);
            if let Some(at) = shard.find(&probes) {
                break Spot { at, vacant_for: None };
            }
            if let Some(at) = shard.room(&probes) {
                break Spot { at, vacant_for: Some(probes) };
            }
            self.grow(asked.shard, self.place_bits_with(place))?;
        };
        self.admit(asked.shard, place)?;
        Ok(spot)
    }

    /// Number of bits of the highest place so far or of `place`, whichever is higher.
    fn place_bits_with(&self, place: Place) -> u32 {
        let bits = bits_of(place.0).max(self.place_bits);
        assert!(bits <= PLACE_BITS_MAX, "{place:?} has more than {PLACE_BITS_MAX} bits");
        bits
    }

    /// Gives the places of a shard as many bits as `place` needs. Slots stay where they are.
    #[inline]
    fn admit(&mut self, number: usize, place: Place) -> Result<(), Full> {
        if bits_of(place.0) > self.shards[number].place_bits() {
            let place_bits = self.place_bits_with(place);
            self.widen(number, place_bits)?;
            self.place_bits = place_bits;
        }
        Ok(())
    }

    /// Rewrites a shard into more buckets.
    #[cold]
    fn grow(&mut self, number: usize, place_bits: u32) -> Result<(), Full> {
        let started = Instant::now();
        let mut buckets = self.shards[number].buckets();
        loop {
            let first = buckets == 0;
            buckets = if first { self.buckets_first } else { Shard::buckets_grown(buckets) };
            let growth = Shard::bytes_for(buckets, place_bits);
            self.allow(growth)?;
            let Some(new) = self.shards[number].rewritten(buckets, place_bits) else { continue };
            assert!(
                new.bytes() == growth,
                "SSD-I8: {} bytes, not the {growth} planned",
                new.bytes()
            );
            self.bytes = self.bytes + growth - self.shards[number].bytes();
            self.shards[number] = new;
            self.rewrite_longest = self.rewrite_longest.max(started.elapsed());
            return Ok(());
        }
    }

    /// Gives the places of a shard more bits.
    #[cold]
    fn widen(&mut self, number: usize, place_bits: u32) -> Result<(), Full> {
        let started = Instant::now();
        let shard = &mut self.shards[number];
        let before = shard.bytes();
        let after = Shard::bytes_for(shard.buckets(), place_bits);
        // The words stay; only the extra bits temporarily exist twice.
        let words = Shard::bytes_for(shard.buckets(), 0);
        self.allow(after - words)?;
        self.shards[number].widen(place_bits);
        self.bytes = self.bytes + after - before;
        self.rewrite_longest = self.rewrite_longest.max(started.elapsed());
        Ok(())
    }

    /// Checks that another `growth` bytes are within the bound (SSD-I8).
    fn allow(&mut self, growth: u64) -> Result<(), Full> {
        let Self { rows, bytes, bytes_max, .. } = *self;
        if bytes.saturating_add(growth) > bytes_max {
            return Err(Full { rows, bytes, growth, bytes_max });
        }
        self.bytes_peak = self.bytes_peak.max(bytes + growth);
        Ok(())
    }
}

/// [`Index::get_many`], compiled for the processor's vector instructions.
struct GetMany<'a, F> {
    index: &'a Index,
    keys: &'a [Key],
    found: F,
}

impl<F: FnMut(usize, Option<Place>)> WithSimd for GetMany<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) {
        let mut ahead = Ahead::new(self.index, self.keys.len(), |at| self.keys[at]);
        for number in 0..self.keys.len() {
            (self.found)(number, self.index.get_asked(&ahead.next(self.index)));
        }
    }
}

/// Bytes of an empty index, the least bound.
pub(crate) const BYTES_MIN: u64 = (SHARDS * size_of::<Shard>()) as u64;

/// Bytes in which an index, grown from empty, holds any `rows` rows at places below `places_hint`,
/// unless keys are distributed over shards as no hash would.
pub(crate) fn bytes_enough(rows: u64, places_hint: u64) -> u64 {
    if rows == 0 {
        return BYTES_MIN;
    }
    let place_bits = bits_of(places_hint.saturating_sub(1)).min(PLACE_BITS_MAX);
    let share = rows as f64 / SHARDS as f64;
    // Keys per shard follow a Poisson distribution: no shard of 1024 has this many.
    let most = share + 6.0 * share.sqrt() + 6.0;
    let (mut buckets, slots) = (1, (most / LOAD_GROWN_MIN).min(u32::MAX as f64) as usize);
    while buckets * SLOTS < slots {
        buckets = Shard::buckets_grown(buckets);
    }
    // Each shard may be one step of growth ahead, and one is being rewritten.
    let shard = Shard::bytes_for(buckets, place_bits);
    BYTES_MIN + (SHARDS as u64 + 1) * shard
}

/// A slot for a key.
struct Spot {
    at: At,
    /// How to take the slot, if it is vacant.
    vacant_for: Option<[Probe; 2]>,
}

/// Number of buckets for a shard's part of `rows`, limited by `bytes`.
fn buckets_planned(rows: u64, place_bits: u32, bytes: u64) -> usize {
    let slots = u128::from(rows) * 1000 / u128::from(LOAD_PLANNED_PERMILLE);
    let buckets = slots.div_ceil((SHARDS * SLOTS) as u128);
    let affordable = u128::from(bytes) / size_of::<[u64; SLOTS]>() as u128;
    let mut buckets = buckets.min(affordable).clamp(1, u128::from(u32::MAX)) as usize;
    while buckets > 1 && Shard::bytes_for(buckets, place_bits) > bytes {
        buckets -= buckets.div_ceil(64);
    }
    buckets
}
