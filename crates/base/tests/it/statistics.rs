//! Random numbers that reach the model look independent of each other, however similar their names.
//!
//! Rows have neighbors: keys that differ in one bit, tables 0 and 1, adjacent lanes, consecutive
//! steps, seeds 1 to 5 of one comparison. Each test computes sums that would be normal with mean 0
//! and deviation 1 if the numbers were independent and uniform, and requires that none is farther
//! from 0 than expected, among that many, once in 10⁹ runs.

use stepwell_base::random::{Stream, initial_weights};
use stepwell_base::{Key, TableId};

/// Maximum distance from 0 of `sums` normally distributed sums.
///
/// P(|Z| > z) is below 2 exp(-z² / 2), so all of them stay within it with a probability of 1 -
/// 10⁻⁹.
fn limit(sums: usize) -> f64 {
    (2.0 * (2.0 * sums as f64 / 1e-9).ln()).sqrt()
}

/// Sums by name, each of mean 0 and deviation 1 if numbers are independent.
#[derive(Default)]
struct Sums(Vec<(String, f64)>);

impl Sums {
    fn add(&mut self, name: impl Into<String>, deviations: f64) {
        self.0.push((name.into(), deviations));
    }

    /// Numbers of mean 0 and variance 1/3 that should be uncorrelated.
    fn add_products(&mut self, name: impl Into<String>, pairs: impl Iterator<Item = (f64, f64)>) {
        let (mut sum, mut count) = (0.0, 0.0);
        for (a, b) in pairs {
            sum += a * b;
            count += 1.0;
        }
        self.add(name, 3.0 * sum / f64::sqrt(count));
    }

    /// `successes` of `count` trials succeeded, each with probability `chance`.
    fn add_successes(&mut self, name: impl Into<String>, successes: u64, count: u64, chance: f64) {
        let (mean, variance) = (count as f64 * chance, count as f64 * chance * (1.0 - chance));
        self.add(name, (successes as f64 - mean) / variance.sqrt());
    }

    fn check(self) {
        let limit = limit(self.0.len());
        for (name, deviations) in &self.0 {
            assert!(deviations.abs() < limit, "{name}: {deviations:.1} deviations of {limit:.1}");
        }
        // All together: the sum of their squares is as expected by chance.
        let (count, squares) =
            (self.0.len() as f64, self.0.iter().map(|(_, d)| d * d).sum::<f64>());
        let together = normal_of_chi_square(squares, count);
        assert!(together < limit.max(6.5), "{together:.1} deviations of all {count} together");
    }
}

/// Converts a chi-square of `freedom` degrees to an almost normal number (Wilson, Hilferty, 1931).
fn normal_of_chi_square(square: f64, freedom: f64) -> f64 {
    let spread = 2.0 / (9.0 * freedom);
    ((square / freedom).cbrt() - (1.0 - spread)) / spread.sqrt()
}

const LANES: usize = 8;

/// Name of a row.
#[derive(Clone, Copy)]
struct Row {
    seed: u64,
    table: u32,
    key: u64,
}

impl Row {
    fn weights(self) -> [f32; LANES] {
        let mut weights = [0.0; LANES];
        let Self { seed, table, key } = self;
        initial_weights(seed, TableId(table), Key(key), 1.0, LANES, &mut weights);
        weights
    }
}

/// Rows of consecutive keys, of multiples of 2^32, and of hashed keys.
fn rows() -> impl Iterator<Item = Row> + Clone {
    let of = |key| Row { seed: 1, table: 0, key };
    let mixed = Stream::from_state(3);
    let hashed = (0..2000).map(move |number| mixed.at(number));
    (0..2000u64).chain((0..2000).map(|number| number << 32)).chain(hashed).map(of)
}

fn together(a: [f32; LANES], b: [f32; LANES]) -> impl Iterator<Item = (f64, f64)> {
    a.into_iter().zip(b).map(|(a, b)| (f64::from(a), f64::from(b)))
}

#[test]
fn initial_values_of_neighbours_do_not_go_together() {
    let mut sums = Sums::default();
    let mut add = |name: String, other: &dyn Fn(Row) -> Row| {
        sums.add_products(
            name,
            rows().flat_map(|row| together(row.weights(), other(row).weights())),
        );
    };
    for bit in 0..64 {
        add(format!("key bit {bit}"), &|row| Row { key: row.key ^ 1 << bit, ..row });
        add(format!("seed bit {bit}"), &|row| Row { seed: row.seed ^ 1 << bit, ..row });
    }
    for bit in 0..32 {
        add(format!("table bit {bit}"), &|row| Row { table: row.table ^ 1 << bit, ..row });
    }
    for step in 1..5 {
        add(format!("key + {step}"), &|row| Row { key: row.key.wrapping_add(step), ..row });
        add(format!("seed + {step}"), &|row| Row { seed: row.seed + step, ..row });
        // One part of the name is increased, another decreased by the same amount.
        let less = |row: Row| row.key.wrapping_sub(step);
        add(format!("seed + {step}, key less"), &|row| Row {
            seed: row.seed + step,
            key: less(row),
            ..row
        });
        add(format!("table + {step}, key less"), &|row| Row {
            table: row.table + step as u32,
            key: less(row),
            ..row
        });
    }
    sums.check();
}

#[test]
fn lanes_of_a_row_do_not_go_together() {
    let mut sums = Sums::default();
    let rows: Vec<[f32; LANES]> = rows().map(Row::weights).collect();
    for a in 0..LANES {
        for b in 0..a {
            let lanes = rows.iter().map(|row| (f64::from(row[a]), f64::from(row[b])));
            sums.add_products(format!("lanes {a} and {b}"), lanes);
            let next = rows.windows(2).map(|two| (f64::from(two[0][a]), f64::from(two[1][b])));
            sums.add_products(format!("lane {a}, lane {b} of the next row"), next);
        }
    }
    sums.check();
}

#[test]
fn initial_values_fill_their_range_evenly() {
    const BINS: usize = 256;
    let mut sums = Sums::default();
    for lane in 0..LANES {
        let (mut bins, mut count) = ([0u32; BINS], 0.0);
        for row in rows() {
            let unit = f64::from(row.weights()[lane]).mul_add(0.5, 0.5);
            bins[(unit * BINS as f64) as usize] += 1;
            count += 1.0;
        }
        let expected = count / BINS as f64;
        let square = |bin: &u32| (f64::from(*bin) - expected).powi(2) / expected;
        let squares: f64 = bins.iter().map(square).sum();
        sums.add(format!("lane {lane}"), normal_of_chi_square(squares, (BINS - 1) as f64));
    }
    sums.check();
}

/// Name of the rounding of a row by a step, or of its admission.
#[derive(Clone, Copy)]
struct StepOfRow {
    row: Row,
    step: u64,
}

type Named = fn(u64, TableId, Key, u64) -> Stream;

impl StepOfRow {
    fn stream(self, of: Named) -> Stream {
        let Row { seed, table, key } = self.row;
        of(seed, TableId(table), Key(key), self.step)
    }

    /// The same name except for one bit; there are 224 of them.
    fn flipped(self, bit: usize) -> Self {
        let (mut name, flip) = (self, |from: usize| 1u64 << (bit - from));
        match bit {
            0..64 => name.row.seed ^= flip(0),
            64..128 => name.row.key ^= flip(64),
            128..192 => name.step ^= flip(128),
            _ => name.row.table ^= flip(192) as u32,
        }
        name
    }
}

#[test]
fn every_bit_of_a_name_turns_half_of_what_rounds_and_admits() {
    for (what, of) in
        [("rounding", Stream::of_rounding as Named), ("admission", Stream::of_admission as Named)]
    {
        let mut sums = Sums::default();
        let names: Vec<StepOfRow> = rows()
            .step_by(24)
            .zip((0..).step_by(7))
            .map(|(row, step)| StepOfRow { row, step })
            .collect();
        let mut by_output = [0u64; 64];
        for bit in 0..224 {
            let mut turned = 0;
            for name in &names {
                // The second number as well, as later lanes use it.
                let (here, there) = (name.stream(of), name.flipped(bit).stream(of));
                let bits = here.at(0) ^ there.at(0);
                turned += bits.count_ones() + (here.at(1) ^ there.at(1)).count_ones();
                (0..64).for_each(|output| by_output[output] += bits >> output & 1);
            }
            let trials = 128 * names.len() as u64;
            sums.add_successes(format!("{what}, bit {bit}"), turned.into(), trials, 0.5);
        }
        for (output, turned) in by_output.into_iter().enumerate() {
            let trials = 224 * names.len() as u64;
            sums.add_successes(format!("{what}, output {output}"), turned, trials, 0.5);
        }
        sums.check();
    }
}

#[test]
fn chance_admits_the_share_that_it_should_and_step_after_step_anew() {
    let mut sums = Sums::default();
    for chance in [0.01, 0.1, 0.5] {
        let admitted =
            |key, step| Stream::of_admission(1, TableId(0), Key(key), step).next_f64() < chance;
        let (mut here, mut next, mut both, mut also) = (0, 0, 0, 0);
        const KEYS: u64 = 200_000;
        for key in 0..KEYS {
            let first = admitted(key, 7);
            here += u64::from(first);
            next += u64::from(admitted(key, 8));
            both += u64::from(first && admitted(key, 8));
            also += u64::from(first && admitted(key + 1, 7));
        }
        sums.add_successes(format!("chance {chance}"), here, KEYS, chance);
        sums.add_successes(format!("chance {chance}, the next step"), next, KEYS, chance);
        sums.add_successes(format!("chance {chance}, both steps"), both, KEYS, chance * chance);
        sums.add_successes(format!("chance {chance}, two keys"), also, KEYS, chance * chance);
    }
    sums.check();
}

#[test]
fn streams_of_like_names_and_seeds_do_not_go_together() {
    let mut sums = Sums::default();
    let numbers = |seed: u64, name: &str| {
        let mut stream = Stream::named(seed, name.as_bytes());
        (0..4000).map(move |_| stream.next_f64().mul_add(2.0, -1.0))
    };
    let names = ["dense/hidden0/weight", "dense/hidden1/weight", "dense/hidden0/bias", "dense/out"];
    for (place, name) in names.iter().enumerate() {
        for seed in 0..16 {
            let next = numbers(seed, name).zip(numbers(seed + 1, name));
            sums.add_products(format!("{name}, seeds {seed} and the next"), next);
            for other in &names[..place] {
                let pairs = numbers(seed, name).zip(numbers(seed, other));
                sums.add_products(format!("{name} and {other}, seed {seed}"), pairs);
            }
        }
    }
    sums.check();
}

#[test]
fn what_goes_together_is_found() {
    // In 6,000 rows, sharing one weight in twenty between two rows is detected.
    let pairs = rows().enumerate().flat_map(|(number, row)| {
        let other = Row { key: if number % 20 == 0 { row.key } else { row.key + 1 }, ..row };
        together(row.weights(), other.weights())
    });
    let mut sums = Sums::default();
    sums.add_products("one in twenty", pairs);
    assert!(std::panic::catch_unwind(|| sums.check()).is_err());
}
