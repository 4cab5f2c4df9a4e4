//! Draws Zipf-distributed ranks in constant time and little memory, for any vocabulary.
//!
//! Why: exact tables of a vocabulary of 10^8 ids don't fit a cache, and rejection sampling takes
//! logarithms and powers for each of the 26 draws per example.
//!
//! How: ranks are grouped into segments, like buckets of a histogram with constant relative error:
//! the first 63 ranks are separate, then each octave has 32 segments. An alias table (Walker 1977,
//! built as by Vose 1991) draws a segment with its exact weight; within it, all ranks are equally
//! likely. A rank's probability is thus off by at most 1.6 % times the exponent, and exact in the
//! head.
//!
//! ```text
//! rank     1 2 3 ... 63 | 64-65 66-67 ... 126-127 | 128-131 132-135 ... 252-255 | ...
//! width       1 each    |        2 each           |          4 each             |
//! ```
//!
//! Cost: per draw, two random numbers, a multiplication and a lookup; 40 bytes per segment, which
//! is 25 KB for 10^7 ids and 46 KB for the maximum of 2^40.

/// Segments per octave.
const SEGMENTS_PER_OCTAVE: u64 = 32;

/// Ranks below this have separate segments.
const HEAD: u64 = 2 * SEGMENTS_PER_OCTAVE;

/// A segment with its alias.
#[derive(Clone, Copy, Debug)]
struct Column {
    /// Draws with a fraction below this keep the segment, others take the alias.
    keep: u64,
    first: u64,
    width: u64,
    alias: u32,
}

/// Ranks 1 to n with weights 1 / rank^exponent, constant within a segment.
#[derive(Clone, Debug)]
pub struct Zipf {
    columns: Vec<Column>,
    /// Probability of each segment.
    shares: Vec<f64>,
}

impl Zipf {
    /// Ranks 1 to `ranks`; the k-th has weight 1 / k^exponent.
    ///
    /// # Panics
    /// If `ranks` is 0.
    pub fn new(ranks: u64, exponent: f64) -> Self {
        assert!(ranks > 0, "a vocabulary has an id");
        let segments = segments(ranks);
        let weights: Vec<f64> =
            segments.iter().map(|(first, width)| weight(*first, *width, exponent)).collect();
        let total: f64 = weights.iter().sum();
        let shares: Vec<f64> = weights.iter().map(|weight| weight / total).collect();
        Self { columns: alias_table(&segments, &shares), shares }
    }

    /// Maps two uniform 64-bit numbers to a rank.
    #[inline]
    pub fn rank(&self, choice: u64, within: u64) -> u64 {
        let wide = u128::from(choice) * self.columns.len() as u128;
        let (index, fraction) = ((wide >> 64) as usize, wide as u64);
        let mut column = &self.columns[index];
        if fraction >= column.keep {
            column = &self.columns[column.alias as usize];
        }
        let offset = (u128::from(within) * u128::from(column.width)) >> 64;
        column.first + offset as u64
    }

    /// Expected number of distinct ranks in `draws` draws.
    pub(crate) fn distinct(&self, draws: f64) -> f64 {
        let distinct = |(column, share): (&Column, &f64)| {
            let width = column.width as f64;
            let unseen = draws * libm::log1p(-(share / width).min(1.0 - 1e-16));
            -width * libm::expm1(unseen)
        };
        self.columns.iter().zip(&self.shares).map(distinct).sum()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.columns.capacity() * size_of::<Column>() + self.shares.capacity() * size_of::<f64>()
    }
}

/// First rank and width of each segment.
fn segments(ranks: u64) -> Vec<(u64, u64)> {
    let mut segments = Vec::new();
    let mut first = 1;
    while first <= ranks {
        let step = if first < HEAD { 1 } else { 2 << (first / HEAD).ilog2() };
        let width = step.min(ranks - first + 1);
        segments.push((first, width));
        first += width;
    }
    segments
}

/// Sum of 1 / rank^exponent: term by term in narrow segments, as an integral in wide ones.
fn weight(first: u64, width: u64, exponent: f64) -> f64 {
    if width <= 8 {
        return (0..width).map(|k| libm::pow((first + k) as f64, -exponent)).sum();
    }
    let (from, to) = (first as f64 - 0.5, (first + width) as f64 - 0.5);
    let power = 1.0 - exponent;
    // ln(to / from) times the mean of x^power between; stable for exponents close to 1.
    let ratio = libm::log1p((to - from) / from);
    let scaled = power * ratio;
    let mean = if scaled.abs() < 1e-12 { 1.0 } else { libm::expm1(scaled) / scaled };
    libm::pow(from, power) * ratio * mean
}

/// Vose's construction: fills up columns below the mean from those above, in order.
fn alias_table(segments: &[(u64, u64)], shares: &[f64]) -> Vec<Column> {
    let count = segments.len();
    let column = |(first, width): &(u64, u64)| Column {
        keep: u64::MAX,
        first: *first,
        width: *width,
        alias: 0,
    };
    let mut columns: Vec<Column> = segments.iter().map(column).collect();
    let mut scaled: Vec<f64> = shares.iter().map(|share| share * count as f64).collect();
    let (mut small, mut large): (Vec<usize>, Vec<usize>) =
        (0..count).partition(|index| scaled[*index] < 1.0);
    while let (Some(low), Some(high)) = (small.pop(), large.pop()) {
        columns[low].keep = (scaled[low] * u64::MAX as f64) as u64;
        columns[low].alias = high as u32;
        scaled[high] -= 1.0 - scaled[low];
        if scaled[high] < 1.0 { small.push(high) } else { large.push(high) }
    }
    // The remaining columns are full up to rounding, and keep all draws.
    for left in small.into_iter().chain(large) {
        columns[left].alias = left as u32;
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;
    use stepwell_base::random::Stream;

    #[test]
    fn segments_cover_all_ranks_once() {
        for ranks in [1, 2, 63, 64, 65, 127, 128, 129, 1000, 26_716, 1 << 20, (1 << 40) - 5] {
            let mut next = 1;
            for (first, width) in segments(ranks) {
                assert_eq!(first, next);
                assert!(width == 1 || width * SEGMENTS_PER_OCTAVE <= first);
                next = first + width;
            }
            assert_eq!(next, ranks + 1);
        }
    }

    #[test]
    fn weights_are_the_sums_they_stand_for() {
        for exponent in [0.0, 0.5, 0.999_999, 1.0, 1.05, 2.0] {
            for (first, width) in [(1, 1), (64, 2), (256, 8), (512, 16), (4096, 128)] {
                let plain: f64 =
                    (first..first + width).map(|rank| libm::pow(rank as f64, -exponent)).sum();
                let got = weight(first, width, exponent);
                assert!((got / plain - 1.0).abs() < 1e-4, "{exponent} {first} {got} {plain}");
            }
        }
    }

    #[test]
    fn frequencies_are_zipf() {
        let (ranks, draws) = (1000, 400_000);
        let zipf = Zipf::new(ranks, 1.05);
        let mut stream = Stream::named(5, b"zipf");
        let mut seen = vec![0u32; ranks as usize + 1];
        for _ in 0..draws {
            let rank = zipf.rank(stream.next_u64(), stream.next_u64());
            seen[rank as usize] += 1;
        }
        assert_eq!(seen[0], 0);
        let total: f64 = (1..=ranks).map(|rank| libm::pow(rank as f64, -1.05)).sum();
        for rank in [1, 2, 3, 10, 63, 64, 100, 101, 500, 1000] {
            let mean = libm::pow(rank as f64, -1.05) / total * f64::from(draws);
            let off = f64::from(seen[rank as usize]) - mean;
            assert!(off.abs() < 5.0 * mean.sqrt() + 0.02 * mean, "{rank}: {off} of {mean}");
        }
        let distinct = seen.iter().filter(|count| **count > 0).count() as f64;
        assert!((zipf.distinct(f64::from(draws)) - distinct).abs() < 5.0);
        assert!((zipf.distinct(1.0) - 1.0).abs() < 1e-6);
    }
}
