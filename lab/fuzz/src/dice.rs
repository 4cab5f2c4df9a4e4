//! Random choices determined by a seed.

use stepwell_base::random::Stream;

/// A stream of draws.
#[derive(Clone, Debug)]
pub(crate) struct Dice(Stream);

impl Dice {
    /// The stream `name` under `seed`.
    pub(crate) fn new(seed: u64, name: &str) -> Self {
        Self(Stream::named(seed, name.as_bytes()))
    }

    /// Any number.
    pub(crate) fn any(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `end`, which must not be zero.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0.next_u64() % end
    }

    /// A number from `first` to `last`, inclusive.
    pub(crate) fn within(&mut self, first: u64, last: u64) -> u64 {
        first + self.below(last - first + 1)
    }

    /// A number from `first` to `last` with a log-uniform distribution; `first` must not be zero.
    pub(crate) fn magnitude(&mut self, first: u64, last: u64) -> u64 {
        let (low, high) = ((first as f64).ln(), ((last + 1) as f64).ln());
        let drawn = (low + (high - low) * self.part()).exp();
        (drawn as u64).clamp(first, last)
    }

    /// Uniform in [0, 1).
    pub(crate) fn part(&mut self) -> f64 {
        self.0.next_f64()
    }

    /// True with a probability of `percent` percent.
    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of `choices`.
    pub(crate) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_depend_on_seed_and_name_and_stay_in_range() {
        let draws = |seed, name| {
            let mut dice = Dice::new(seed, name);
            (0..50).map(|_| dice.any()).collect::<Vec<_>>()
        };
        assert_eq!(draws(1, "a"), draws(1, "a"));
        assert_ne!(draws(1, "a"), draws(2, "a"));
        assert_ne!(draws(1, "a"), draws(1, "b"));
        let mut dice = Dice::new(3, "range");
        let (mut least, mut most) = (u64::MAX, 0);
        for _ in 0..5000 {
            let drawn = dice.magnitude(2, 900);
            (least, most) = (least.min(drawn), most.max(drawn));
            assert!((5..=7).contains(&dice.within(5, 7)));
        }
        assert_eq!((least, most), (2, 900));
    }
}
