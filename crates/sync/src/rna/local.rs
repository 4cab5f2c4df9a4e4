//! Gradients of a rank that wait for the next sum.
//!
//! Several of them are added before they take part, so that each counts as if alone. The thesis has
//! both: a sum in its section 5.4, on its implementation, and in section 5.1.3 a mean with weights
//! that rise with the step, which is optional ([`Several::Averaged`]). A mean lets two gradients
//! count as one, which wastes a tenth of all work when computing times are short.

use std::collections::VecDeque;

use crate::number::Number;
use crate::options::Several;

/// A waiting gradient.
#[derive(Debug)]
struct Entry<T> {
    /// Number of updates in the parameters that it was computed on.
    version: u64,
    gradient: Vec<T>,
}

/// The waiting gradients of a rank, oldest first.
#[derive(Debug)]
pub(crate) struct Waiting<T> {
    entries: VecDeque<Entry<T>>,
    /// Buffers of used gradients.
    spare: Vec<Vec<T>>,
    sum: Vec<T>,
}

impl<T: Number> Waiting<T> {
    pub(crate) fn new(lanes: usize) -> Self {
        let sum = vec![T::ZERO; lanes];
        Self { entries: VecDeque::new(), spare: Vec::new(), sum }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Takes `values`, and replaces them by another buffer.
    pub(crate) fn push(&mut self, version: u64, values: &mut Vec<T>) {
        assert_eq!(values.len(), self.sum.len(), "the gradient covers all parameters");
        let spare = self.spare.pop().unwrap_or_else(|| vec![T::ZERO; values.len()]);
        let gradient = std::mem::replace(values, spare);
        self.entries.push_back(Entry { version, gradient });
    }

    /// Drops gradients that are older than `age_max` after `updates` updates; returns how many.
    pub(crate) fn drop_older(&mut self, updates: u64, age_max: u64) -> u64 {
        let before = self.entries.len();
        while let Some(oldest) = self.entries.front()
            && updates - oldest.version > age_max
        {
            let entry = self.entries.pop_front();
            self.spare.extend(entry.map(|entry| entry.gradient));
        }
        (before - self.entries.len()) as u64
    }

    /// The age of the oldest after `updates` updates.
    pub(crate) fn age_max(&self, updates: u64) -> u64 {
        self.entries.front().map_or(0, |oldest| updates - oldest.version)
    }

    /// The sum of all, from the oldest on, and how many gradients it counts as.
    pub(crate) fn sum(&mut self, several: Several) -> (u64, &[T]) {
        if self.entries.len() == 1 {
            return (1, &self.entries[0].gradient);
        }
        self.sum.fill(T::ZERO);
        let first = self.entries.front().map_or(0, |oldest| oldest.version);
        // One plus the number of updates after the oldest at which it began.
        let weight = |entry: &Entry<T>| (entry.version - first + 1) as f64;
        let all: f64 = self.entries.iter().map(weight).sum();
        for entry in &self.entries {
            let share = match several {
                Several::Summed => T::ONE,
                Several::Averaged => T::from_f64(weight(entry) / all),
            };
            let lanes = self.sum.iter_mut().zip(&entry.gradient);
            lanes.for_each(|(sum, value)| *sum += share * *value);
        }
        let count = self.entries.len() as u64;
        (if several == Several::Summed { count } else { count.min(1) }, &self.sum)
    }

    pub(crate) fn forget(&mut self) {
        self.spare.extend(self.entries.drain(..).map(|entry| entry.gradient));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_counts_until_it_is_too_old() {
        let mut waiting = Waiting::<f64>::new(2);
        assert_eq!(waiting.sum(Several::Summed), (0, &[0.0, 0.0][..]));
        waiting.push(2, &mut vec![6.0, 0.0]);
        assert_eq!(waiting.sum(Several::Summed), (1, &[6.0, 0.0][..]));
        waiting.push(2, &mut vec![0.0, 6.0]);
        waiting.push(3, &mut vec![6.0, 5.0]);
        assert_eq!(waiting.sum(Several::Summed), (3, &[12.0, 11.0][..]));
        // Weights 1, 1 and 2 over their sum.
        assert_eq!(waiting.sum(Several::Averaged), (1, &[4.5, 4.0][..]));
        assert_eq!((waiting.age_max(5), waiting.drop_older(5, 2)), (3, 2));
        assert_eq!(waiting.sum(Several::Summed), (1, &[6.0, 5.0][..]));
        waiting.forget();
        assert!(waiting.is_empty() && waiting.spare.len() == 3);
    }
}
