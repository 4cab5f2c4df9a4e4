//! AUC by group: the mean AUC over groups of examples, such as those of one user.
//!
//! - **Why.** A model that ranks chooses among what one user may see; pairs of examples of
//!   different users say nothing about that.
//! - **How.** Each example is kept with a hash of its group. At the end, examples are sorted by
//!   group and score, and each group with both labels counts in proportion to its examples. An
//!   example with a label between 0 and 1 has both.
//! - **Bounds.** 8 Mi examples of 24 bytes. When there are more, the half of the groups with the
//!   larger hashes is dropped: what remains is a sample that depends only on the names of groups.

use serde::Serialize;
use stepwell_nn::Loss;

/// The most examples kept.
const EXAMPLES_MAX: usize = 8 << 20;

/// Figures of groups.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct GroupMetrics {
    /// Mean of the AUC of groups with both labels, weighted by their examples; `None` if no group
    /// has both.
    pub group_auc: Option<f64>,
    /// Groups with both labels.
    pub groups: u64,
    /// Groups with only one label, which are left out.
    pub groups_left_out: u64,
    /// Examples of the counted groups.
    pub examples: u64,
    /// Share of all groups that these figures cover, chosen by a hash of their names; 1 if all fit.
    pub sampled: f64,
    /// Figures of the examples with the highest scores, if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<AtMetrics>,
}

/// Precision and recall of the examples with the highest scores, as means over groups with a
/// positive example.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct AtMetrics {
    /// Number of examples of each group that are taken: those with the highest scores.
    pub k: u32,
    /// Mean share of positives among the taken examples, which are fewer than `k` in smaller
    /// groups; `None` if no group has a positive.
    pub precision: Option<f64>,
    /// Mean share of a group's positives that are taken; `None` likewise.
    pub recall: Option<f64>,
    /// Groups with a positive.
    pub groups: u64,
}

/// Collects examples of groups for their figures.
#[derive(Debug)]
pub struct GroupMeter {
    examples: Vec<Example>,
    /// How many examples of each group are taken for precision and recall.
    at: Option<u32>,
    most: usize,
    /// Groups with larger hashes are left out.
    hash_max: u64,
}

#[derive(Clone, Copy, Debug)]
struct Example {
    /// Hash of the group's name.
    group: u64,
    /// Score, as `predict` writes it.
    score: f32,
    label: f32,
    weight: f32,
}

impl Default for GroupMeter {
    fn default() -> Self {
        Self::new(EXAMPLES_MAX)
    }
}

impl GroupMeter {
    /// A meter that keeps at most `most` examples.
    pub fn new(most: usize) -> Self {
        Self { examples: Vec::new(), at: None, most: most.max(1), hash_max: u64::MAX }
    }

    /// Also measures precision and recall of the `at` examples with the highest scores.
    pub fn with_precision(self, at: Option<u32>) -> Self {
        Self { at, ..self }
    }

    /// Adds an example of the group with this name, with a label from 0 to 1.
    pub fn add(&mut self, group: &[u8], logit: f32, label: f32, weight: f32) {
        let group = stepwell_base::hash::checksum(group);
        while group <= self.hash_max && self.examples.len() == self.most {
            self.hash_max /= 2;
            let hash_max = self.hash_max;
            self.examples.retain(|example| example.group <= hash_max);
        }
        if group <= self.hash_max {
            let score = Loss::LogLoss.prediction(logit);
            self.examples.push(Example { group, score, label, weight });
        }
    }

    /// Returns the figures and empties the meter.
    pub fn take(&mut self) -> GroupMetrics {
        let mut examples = std::mem::take(&mut self.examples);
        let sampled = (self.hash_max as f64 + 1.0) / 2f64.powi(64);
        // Equal scores are ordered by label and weight, so that sums don't depend on the data's
        // order.
        examples.sort_unstable_by_key(|it| {
            (it.group, it.score.to_bits(), it.label.to_bits(), it.weight.to_bits())
        });
        let mut metrics = GroupMetrics { sampled, ..GroupMetrics::default() };
        let (mut sum, mut weights) = (0.0, 0.0);
        let mut of_top = self.at.map(TopMeter::new);
        for group in examples.chunk_by(|one, other| one.group == other.group) {
            match auc_of(group) {
                Some((auc, weight)) => {
                    metrics.groups += 1;
                    metrics.examples += group.len() as u64;
                    sum += weight * auc;
                    weights += weight;
                }
                None => metrics.groups_left_out += 1,
            }
            of_top.iter_mut().for_each(|top| top.add(group));
        }
        metrics.group_auc = (metrics.groups > 0).then(|| sum / weights);
        metrics.at = of_top.map(TopMeter::metrics);
        metrics
    }
}

/// The AUC of a group's examples, which are in order of their scores, and the sum of their weights;
/// `None` without both labels.
fn auc_of(group: &[Example]) -> Option<(f64, f64)> {
    let (mut negatives, mut positives, mut won) = (0.0, 0.0, 0.0);
    for equal in group.chunk_by(|one, other| one.score.to_bits() == other.score.to_bits()) {
        let mut both = [0.0; 2];
        for example in equal {
            let (label, weight) = (f64::from(example.label), f64::from(example.weight));
            both[0] += weight * (1.0 - label);
            both[1] += weight * label;
        }
        won += both[1] * (negatives + both[0] / 2.0);
        negatives += both[0];
        positives += both[1];
    }
    let pairs = negatives * positives;
    (pairs > 0.0).then(|| (won / pairs, negatives + positives))
}

/// Sums over groups of precision and recall.
#[derive(Debug)]
struct TopMeter {
    k: u32,
    precision: f64,
    recall: f64,
    groups: u64,
}

impl TopMeter {
    fn new(k: u32) -> Self {
        Self { k, precision: 0.0, recall: 0.0, groups: 0 }
    }

    /// Adds a group, whose examples are in order of their scores. Of equal scores, all are taken in
    /// part if not all are; an example of weight w is w examples.
    fn add(&mut self, group: &[Example]) {
        let sums = |examples: &[Example]| {
            let weight = |example: &Example| f64::from(example.weight);
            let positive = |example: &Example| weight(example) * f64::from(example.label);
            let all: f64 = examples.iter().map(weight).sum();
            (all, examples.iter().map(positive).sum::<f64>())
        };
        let (all, positives) = sums(group);
        if positives <= 0.0 {
            return;
        }
        let most = f64::from(self.k).min(all);
        let (mut left, mut taken) = (most, 0.0);
        for equal in group.chunk_by(|one, other| one.score.to_bits() == other.score.to_bits()).rev()
        {
            let (count, positive) = sums(equal);
            if count >= left {
                taken += if count > 0.0 { positive * left / count } else { 0.0 };
                break;
            }
            taken += positive;
            left -= count;
        }
        self.precision += taken / most;
        self.recall += taken / positives;
        self.groups += 1;
    }

    fn metrics(self) -> AtMetrics {
        let Self { k, precision, recall, groups } = self;
        let mean = |sum: f64| (groups > 0).then(|| sum / groups as f64);
        AtMetrics { k, precision: mean(precision), recall: mean(recall), groups }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without ties and weights, counts among the first; with them, copies of examples.
    #[test]
    fn precision_and_recall_count_the_examples_with_the_highest_scores() {
        let mut meter = GroupMeter::default().with_precision(Some(2));
        for (group, logit, label) in [
            ("a", 3.0, 0.0),
            ("a", 2.0, 1.0),
            ("a", 1.0, 1.0),
            ("a", 0.0, 1.0),
            // One example, and none positive.
            ("b", 1.0, 1.0),
            ("c", 1.0, 0.0),
            ("c", 0.0, 0.0),
            // The second place is shared by three, one of them positive.
            ("d", 2.0, 0.0),
            ("d", 1.0, 0.0),
            ("d", 1.0, 1.0),
            ("d", 1.0, 0.0),
        ] {
            meter.add(group.as_bytes(), logit, label, 1.0);
        }
        let found = meter.take().at.unwrap();
        let close = |value: Option<f64>, wanted: f64| (value.unwrap() - wanted).abs() < 1e-12;
        assert_eq!((found.k, found.groups), (2, 3));
        assert!(close(found.precision, (0.5 + 1.0 + 1.0 / 6.0) / 3.0), "{found:?}");
        assert!(close(found.recall, (1.0 / 3.0 + 1.0 + 1.0 / 3.0) / 3.0), "{found:?}");
        // Weights are counts.
        for (logit, label, weight) in [(2.0, 1.0, 0.0), (1.5, 0.0, 1.0), (1.0, 1.0, 3.0)] {
            meter.add(b"a", logit, label, weight);
        }
        let found = meter.take().at.unwrap();
        assert!(close(found.precision, 0.5) && close(found.recall, 1.0 / 3.0), "{found:?}");
        meter.add(b"a", 1.0, 0.0, 1.0);
        let none = AtMetrics { k: 2, ..AtMetrics::default() };
        assert_eq!(meter.take().at, Some(none));
    }

    fn add_all(meter: &mut GroupMeter, groups: u32) {
        for number in 0..groups * 20 {
            let group = number % groups;
            let logit = ((number * 7919 % 101) as f32 - 50.0) / 20.0;
            let is_positive =
                !group.is_multiple_of(4) && (number / groups * 31 % 7) as f32 > 3.0 - logit;
            let label = f32::from(u8::from(is_positive));
            meter.add(format!("u{group}").as_bytes(), logit, label, 1.0);
        }
    }

    #[test]
    fn groups_count_as_often_as_their_examples() {
        let mut meter = GroupMeter::default();
        for (group, logit, label) in [
            // One pair right, one wrong; then one tie; then none.
            ("a", 0.5, 1.0),
            ("a", 0.0, 0.0),
            ("a", 1.0, 0.0),
            ("b", 2.0, 1.0),
            ("b", 2.0, 0.0),
            ("c", 3.0, 1.0),
        ] {
            meter.add(group.as_bytes(), logit, label, 1.0);
        }
        let found = meter.take();
        assert_eq!((found.groups, found.groups_left_out, found.examples), (2, 1, 5));
        assert_eq!((found.group_auc, found.sampled), (Some(0.5), 1.0));
        assert_eq!(meter.take().group_auc, None);
        // Weights are counts.
        for (logit, label, weight) in [(0.5, 1.0, 1.0), (0.0, 0.0, 3.0), (1.0, 0.0, 1.0)] {
            meter.add(b"a", logit, label, weight);
        }
        assert_eq!(meter.take().group_auc, Some(0.75));
        // A label of 1/4 counts as one positive and three negatives.
        for (logit, label, weight) in [(0.5, 0.25, 4.0), (0.0, 0.0, 2.0), (1.0, 1.0, 1.0)] {
            meter.add(b"a", logit, label, weight);
        }
        let found = meter.take();
        assert_eq!((found.group_auc, found.examples), (Some((5.0 + 2.0 + 1.5) / 10.0), 3));
    }

    #[test]
    fn without_room_for_all_groups_some_are_measured_whole() {
        let (mut all, mut some) = (GroupMeter::default(), GroupMeter::new(1500));
        add_all(&mut all, 400);
        add_all(&mut some, 400);
        let (all, some) = (all.take(), some.take());
        assert_eq!((all.groups + all.groups_left_out, all.sampled), (400, 1.0));
        assert!(some.sampled < 1.0 && some.groups > 10, "{some:?}");
        assert!(some.examples == 20 * some.groups, "{some:?}");
        let off = some.group_auc.unwrap() - all.group_auc.unwrap();
        assert!(off.abs() < 0.1, "{some:?} {all:?}");
    }
}
