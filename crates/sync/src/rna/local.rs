//! Gradients of a rank that wait for the next sum.
//!
//! Several of them are reduced to one before they take part: a mean with weights that rise by one
//! with each step, the oldest counting once: `g' = Σ (t - t_oldest + 1) g_t / Σ (t - t_oldest +
//! 1)`. Source: Yang's thesis, section 5.1.3.

use std::collections::VecDeque;

use crate::Number;

/// One of them.
#[derive(Debug)]
struct Entry<T> {
    /// Which of its rank's.
    step: u64,
    /// Updates that the parameters had seen on which it was computed.
    version: u64,
    gradient: Vec<T>,
}

/// Those of one rank, the oldest first.
#[derive(Debug)]
pub(crate) struct Waiting<T> {
    entries: VecDeque<Entry<T>>,
    /// Memory of those that are over.
    spare: Vec<Vec<T>>,
    reduced: Vec<T>,
}

impl<T: Number> Waiting<T> {
    pub(crate) fn new(lanes: usize) -> Self {
        let reduced = vec![T::ZERO; lanes];
        Self { entries: VecDeque::new(), spare: Vec::new(), reduced }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Takes `values`, and gives other memory for them.
    pub(crate) fn push(&mut self, step: u64, version: u64, values: &mut Vec<T>) {
        assert_eq!(values.len(), self.reduced.len(), "a gradient of all parameters");
        let spare = self.spare.pop().unwrap_or_else(|| vec![T::ZERO; values.len()]);
        let gradient = std::mem::replace(values, spare);
        self.entries.push_back(Entry { step, version, gradient });
    }

    /// Forgets those that are older than `age_max` after so many updates; says how many.
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

    /// The age of the oldest after so many updates.
    pub(crate) fn age_max(&self, updates: u64) -> u64 {
        self.entries.front().map_or(0, |oldest| updates - oldest.version)
    }

    /// All of them reduced to one; none where there is none.
    pub(crate) fn reduce(&mut self) -> Option<&[T]> {
        let oldest = self.entries.front()?.step;
        if self.entries.len() == 1 {
            return self.entries.front().map(|entry| &entry.gradient[..]);
        }
        let weight = |entry: &Entry<T>| (entry.step - oldest + 1) as f64;
        let all: f64 = self.entries.iter().map(weight).sum();
        self.reduced.fill(T::ZERO);
        for entry in &self.entries {
            let share = T::from_f64(weight(entry) / all);
            let lanes = self.reduced.iter_mut().zip(&entry.gradient);
            lanes.for_each(|(sum, value)| *sum += share * *value);
        }
        Some(&self.reduced)
    }

    pub(crate) fn forget(&mut self) {
        self.spare.extend(self.entries.drain(..).map(|entry| entry.gradient));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_rise_with_the_step() {
        let mut waiting = Waiting::<f64>::new(2);
        assert_eq!(waiting.reduce(), None);
        waiting.push(4, 2, &mut vec![6.0, 0.0]);
        assert_eq!(waiting.reduce(), Some(&[6.0, 0.0][..]));
        waiting.push(5, 2, &mut vec![0.0, 6.0]);
        waiting.push(6, 3, &mut vec![6.0, 6.0]);
        // 1, 2 and 3 of 6.
        assert_eq!(waiting.reduce(), Some(&[1.0 + 3.0, 2.0 + 3.0][..]));
        assert_eq!((waiting.age_max(5), waiting.drop_older(5, 2)), (3, 2));
        assert_eq!(waiting.reduce(), Some(&[6.0, 6.0][..]));
        waiting.forget();
        assert!(waiting.is_empty() && waiting.spare.len() == 3);
    }
}
