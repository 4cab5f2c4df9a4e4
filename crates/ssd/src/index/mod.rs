//! The index: where the newest version of each row lies.
//!
//! - **How.** 1024 shards by ten bits of the scattered key, each a table (`shard`). Shard and
//!   bucket say part of a key by their numbers, so that a slot keeps only the rest of it beside its
//!   place (`bits`). All of the key is there: a match is never a guess. Keys are scattered by a
//!   secret, so that nobody can choose some that meet in a bucket. A shard that is full makes way
//!   within itself (`path`), then grows alone, by three tenths. Where places outgrow their bits, a
//!   shard takes wider ones when it next must.
//! - **Invariants.**
//!   - I1 The bytes of all shards, and of the one being rewritten, stay within the bound.
//! - **Failure.** A key or a place that would break I1 is refused before anything changed.
//! - **Cost.** A slot has eight bytes and two or three bits: 8.8 bytes a row where the number of
//!   rows was foretold, 8.6 to 11.2 where shards grow on their own. A look-up reads two lines, and
//!   one of extra bits; a shard is rewritten at some 20 ns a row.
//! - **Bounds.** Places below 2^40.

#![forbid(unsafe_code)]

mod ahead;
mod bits;
#[cfg(test)]
mod flood;
#[cfg(test)]
mod owned;
mod part;
mod path;
mod permute;
mod shard;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use pulp::{Arch, Simd, WithSimd};
use stepwell_base::Key;
use stepwell_base::scatter::Scatter;

pub(crate) use ahead::{Ahead, Asked};
use bits::{PLACE_BITS_MAX, Probe, SLOTS, bits_of};
pub(crate) use part::{ByPart, Parting};
use permute::SHARDS;
use shard::{At, Shard};

/// The load in thousandths that a shard is planned for where the number of rows is foretold. Of ten
/// million rows, one shard in a thousand then gets more than it holds, and grows.
const LOAD_PLANNED_PERMILLE: u64 = 940;

/// The load below which a shard does not grow, but for small ones, which this lets grow early.
const LOAD_GROWN_MIN: f64 = 0.9;

/// Where a row lies, as a number below 2^40.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Place(pub(crate) u64);

/// The index may not grow: what it holds, what it would take, and what it may take.
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
    /// Buckets of a shard that gets its first key.
    buckets_first: usize,
    /// Bits of the highest place so far, or of the highest that was foretold.
    place_bits: u32,
}

impl Index {
    /// An index of no rows, which expects `rows_hint` of them at places below `places_hint`.
    ///
    /// Hints may be zero, and wrong. Nothing is allocated for rows before they come. What it
    /// answers does not depend on `scatter`, but what it weighs does, by little.
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

    /// The bound on them (I1).
    pub(crate) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Sets another bound; one below what there is lets no shard grow.
    pub(crate) fn set_bytes_max(&mut self, bytes_max: u64) {
        self.bytes_max = bytes_max;
    }

    /// The most that [`Index::bytes`] and a shard being rewritten took together.
    pub(crate) fn bytes_peak(&self) -> u64 {
        self.bytes_peak
    }

    #[inline]
    pub(crate) fn get(&self, key: Key) -> Option<Place> {
        // Asked for here too: the line of extra bits then comes while the words do.
        self.get_asked(&self.ask(key))
    }

    #[inline(always)]
    fn get_asked(&self, asked: &Asked) -> Option<Place> {
        let shard = &self.shards[asked.shard];
        shard.find(&asked.probes(shard)).map(|at| shard.place(at))
    }

    /// The longest time that rewriting a shard took: the longest pause that growth makes.
    pub(crate) fn rewrite_longest(&self) -> Duration {
        self.rewrite_longest
    }

    /// Says the place of each of `keys`, in order, by its number among them.
    #[inline]
    pub(crate) fn get_many(&self, keys: &[Key], found: impl FnMut(usize, Option<Place>)) {
        Arch::new().dispatch(GetMany { index: self, keys, found });
    }

    /// Points `key` at `place`; returns where it pointed before.
    pub(crate) fn put(&mut self, key: Key, place: Place) -> Result<Option<Place>, Full> {
        let asked = self.ask(key);
        self.put_asked(&asked, place)
    }

    /// Points a key at `place`; returns where it pointed before.
    #[inline(always)]
    pub(crate) fn put_asked(&mut self, asked: &Asked, place: Place) -> Result<Option<Place>, Full> {
        let Spot { at, vacant_for } = self.spot(asked, place)?;
        let shard = &mut self.shards[asked.shard];
        let Some(probes) = vacant_for else { return Ok(Some(shard.replace(at, place))) };
        shard.take(at, &probes, place);
        self.rows += 1;
        Ok(None)
    }

    /// Points a key at `to` if it points at `from`, and says whether it did.
    pub(crate) fn move_row(&mut self, asked: &Asked, from: Place, to: Place) -> Result<bool, Full> {
        let shard = &self.shards[asked.shard];
        let found = shard.find(&asked.probes(shard));
        let Some(at) = found.filter(|at| shard.place(*at) == from) else { return Ok(false) };
        self.admit(asked.shard, to)?;
        self.shards[asked.shard].replace(at, to);
        Ok(true)
    }

    /// Forgets `key`; returns where it pointed.
    pub(crate) fn remove(&mut self, key: Key) -> Option<Place> {
        let (number, local) = permute::split(self.scatter.of(key));
        let shard = &mut self.shards[number];
        let at = shard.find(&shard.probes(local))?;
        let place = shard.place(at);
        shard.leave(at);
        self.rows -= 1;
        Some(place)
    }

    /// The slot that a key has, or one that it may take, with room for `place`.
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

    /// What [`Index::spot`] says, after slots have moved and the shard has grown as need be.
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

    /// Bits of the highest place so far, or of `place`.
    fn place_bits_with(&self, place: Place) -> u32 {
        let bits = bits_of(place.0).max(self.place_bits);
        assert!(bits <= PLACE_BITS_MAX, "{place:?} has more than {PLACE_BITS_MAX} bits");
        bits
    }

    /// Gives the places of a shard as many bits as `place` has. Slots stay where they are.
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
            assert!(new.bytes() == growth, "I1: {} bytes were foretold as {growth}", new.bytes());
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
        // The words stay; the extra bits are held twice.
        let words = Shard::bytes_for(shard.buckets(), 0);
        self.allow(after - words)?;
        self.shards[number].widen(place_bits);
        self.bytes = self.bytes + after - before;
        self.rewrite_longest = self.rewrite_longest.max(started.elapsed());
        Ok(())
    }

    /// Whether `growth` bytes beside what there is are within the bound (I1).
    fn allow(&mut self, growth: u64) -> Result<(), Full> {
        let Self { rows, bytes, bytes_max, .. } = *self;
        if bytes.saturating_add(growth) > bytes_max {
            return Err(Full { rows, bytes, growth, bytes_max });
        }
        self.bytes_peak = self.bytes_peak.max(bytes + growth);
        Ok(())
    }
}

/// [`Index::get_many`], built for what vectors the processor has.
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

/// Bytes of an index without rows, the least that one may take.
pub(crate) const BYTES_MIN: u64 = (SHARDS * size_of::<Shard>()) as u64;

/// Bytes within which an index holds any `rows` rows at places below `places_hint`, grown from
/// nothing, but for keys that fall on shards as no hash would have them.
pub(crate) fn bytes_enough(rows: u64, places_hint: u64) -> u64 {
    if rows == 0 {
        return BYTES_MIN;
    }
    let place_bits = bits_of(places_hint.saturating_sub(1)).min(PLACE_BITS_MAX);
    let share = rows as f64 / SHARDS as f64;
    // A shard gets a number of keys like Poisson's: no shard of 1024 has so many.
    let most = share + 6.0 * share.sqrt() + 6.0;
    let (mut buckets, slots) = (1, (most / LOAD_GROWN_MIN).min(u32::MAX as f64) as usize);
    while buckets * SLOTS < slots {
        buckets = Shard::buckets_grown(buckets);
    }
    // Each may have grown one step beyond its keys, and one is being rewritten.
    let shard = Shard::bytes_for(buckets, place_bits);
    BYTES_MIN + (SHARDS as u64 + 1) * shard
}

/// A slot for a key.
struct Spot {
    at: At,
    /// If the slot is vacant, what it is to be taken with.
    vacant_for: Option<[Probe; 2]>,
}

/// Buckets for a shard's part of `rows`, as far as `bytes` go.
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
