//! A bounded number of points, thinned out as more are added.

/// At most `most` points in order, spread evenly over all that were added.
#[derive(Clone, Debug)]
pub(super) struct History<T> {
    points: Vec<T>,
    most: usize,
    /// One of this many added points is kept.
    stride: u64,
    added: u64,
    /// The last point if it was not kept.
    last: Option<T>,
}

impl<T: Clone> History<T> {
    /// A history of `most` points, at least two.
    pub(super) fn new(most: usize) -> Self {
        Self { points: Vec::new(), most: most.max(2), stride: 1, added: 0, last: None }
    }

    /// Adds a point.
    pub(super) fn add(&mut self, point: T) {
        let kept = self.added.is_multiple_of(self.stride);
        self.added += 1;
        if !kept {
            self.last = Some(point);
            return;
        }
        self.last = None;
        self.points.push(point);
        // Leaves room for a last point that is not kept.
        if self.points.len() >= self.most {
            let mut number = 0u64;
            let mut newest = self.points.last().cloned();
            self.points.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.stride *= 2;
            let last_was_kept = number % 2 == 1;
            self.last = newest.take().filter(|_| !last_was_kept);
        }
    }

    /// The kept points, and always the last one.
    pub(super) fn points(&self) -> Vec<&T> {
        self.points.iter().chain(&self.last).collect()
    }

    /// The last point.
    pub(super) fn last(&self) -> Option<&T> {
        self.last.as_ref().or(self.points.last())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_few_in_order_and_spread_evenly() {
        for most in [2, 3, 8, 512] {
            let mut history = History::new(most);
            for added in 0..5000u64 {
                history.add(added);
                let points: Vec<u64> = history.points().into_iter().copied().collect();
                assert!(points.len() <= most, "{most}: {points:?}");
                assert!(points.is_sorted_by(|a, b| a < b), "{points:?}");
                assert_eq!((points.first(), points.last()), (Some(&0), Some(&added)));
                assert_eq!(history.last(), Some(&added));
                if let [first, second, .., _] = points[..] {
                    let gap = second - first;
                    let even = points.windows(2).rev().skip(1).all(|two| two[1] - two[0] == gap);
                    assert!(even, "{most}: {points:?}");
                }
            }
        }
    }
}
