//! Random choices determined by a seed.

use stepwell_base::random::Stream;

/// A stream of draws.
#[derive(Clone, Debug)]
pub struct Dice(Stream);

impl Dice {
    /// The stream `name` under `seed`.
    pub fn new(seed: u64, name: &str) -> Self {
        Self(Stream::named(seed, name.as_bytes()))
    }

    /// Any number.
    pub fn any(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `end`, which must not be zero.
    pub fn below(&mut self, end: u64) -> u64 {
        assert!(end > 0, "no number is below 0");
        self.0.next_u64() % end
    }

    /// A number from `first` to `last`, inclusive.
    pub fn within(&mut self, first: u64, last: u64) -> u64 {
        first + self.below(last - first + 1)
    }

    /// Uniform in [0, 1).
    pub fn part(&mut self) -> f64 {
        self.0.next_f64()
    }

    /// True with probability 1 / `times`.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of `choices`.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}
