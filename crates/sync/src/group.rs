//! Groups of ranks that sum among themselves: one, or several that meet at a server.
//!
//! - **Source.** The RNA thesis (Yang, chapter 5.2): if the difference ζ between the slowest and
//!   the fastest task is larger than the mean time v of a step, ranks are split at v, repeatedly
//!   within each part.

use stepwell_base::owner::RankOf;

/// Groups of ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Groups {
    /// All ranks.
    One,
    /// Several groups; each ascends, and each rank is in one of them.
    Several(Vec<Vec<usize>>),
}

/// Times of a rank for a gradient, over several gradients, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timing {
    /// The fastest.
    pub fastest: f64,
    /// The mean.
    pub mean: f64,
    /// The slowest.
    pub slowest: f64,
}

impl Timing {
    /// Timing of one rank from its times, at least one.
    pub fn of(seconds: &[f64]) -> Self {
        let fastest = seconds.iter().copied().fold(f64::INFINITY, f64::min);
        let slowest = seconds.iter().copied().fold(0.0, f64::max);
        let mean = seconds.iter().sum::<f64>() / seconds.len() as f64;
        Self { fastest, mean, slowest }
    }
}

impl Groups {
    /// The groups that ranks' times suggest; `timings` are in the order of ranks.
    pub fn by_times(timings: &[Timing]) -> Self {
        let mut groups = Vec::new();
        part((0..timings.len()).collect(), timings, &mut groups);
        if groups.len() < 2 { Self::One } else { Self::Several(groups) }
    }

    /// The members of a rank's group.
    pub fn members(&self, RankOf { rank, ranks }: RankOf) -> Vec<usize> {
        match self {
            Self::One => (0..ranks).collect(),
            Self::Several(groups) => {
                let found = groups.iter().find(|group| group.contains(&rank));
                found.cloned().unwrap_or_default()
            }
        }
    }

    /// Number of groups.
    pub fn count(&self) -> usize {
        match self {
            Self::One => 1,
            Self::Several(groups) => groups.len(),
        }
    }

    pub(crate) fn check(&self, ranks: usize) -> Result<(), String> {
        let Self::Several(groups) = self else { return Ok(()) };
        let ascend = groups.iter().all(|group| group.is_sorted() && !group.is_empty());
        let mut all: Vec<usize> = groups.concat();
        all.sort_unstable();
        if !ascend || !all.into_iter().eq(0..ranks) {
            return Err(format!(
                "groups {groups:?} of {ranks} ranks: put each rank in exactly one group"
            ));
        }
        Ok(())
    }
}

/// Splits `ranks` at their mean time, as long as they differ by more than that.
fn part(ranks: Vec<usize>, timings: &[Timing], groups: &mut Vec<Vec<usize>>) {
    let of = |ranks: &[usize]| ranks.iter().map(|rank| timings[*rank]).collect::<Vec<_>>();
    let times = of(&ranks);
    let fastest = times.iter().map(|time| time.fastest).fold(f64::INFINITY, f64::min);
    let slowest = times.iter().map(|time| time.slowest).fold(0.0, f64::max);
    let mean = times.iter().map(|time| time.mean).sum::<f64>() / times.len() as f64;
    let (slow, fast): (Vec<usize>, Vec<usize>) =
        ranks.iter().partition(|rank| timings[**rank].mean > mean);
    if slowest - fastest <= mean || slow.is_empty() || fast.is_empty() {
        return groups.push(ranks);
    }
    part(fast, timings, groups);
    part(slow, timings, groups);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_part_where_they_differ_by_more_than_a_step() {
        let time = |fastest: f64, slowest: f64| Timing::of(&[fastest, slowest]);
        let even = [time(90.0, 140.0), time(95.0, 138.0), time(91.0, 120.0)];
        assert_eq!(Groups::by_times(&even), Groups::One);
        // Ranks 1 and 3 are three times as slow: 50 to 160, 105 on average.
        let mixed = [time(50.0, 60.0), time(150.0, 160.0), time(50.0, 60.0), time(150.0, 155.0)];
        let parted = Groups::by_times(&mixed);
        assert_eq!(parted, Groups::Several(vec![vec![0, 2], vec![1, 3]]));
        assert_eq!((parted.members(RankOf { rank: 2, ranks: 4 }), parted.count()), (vec![0, 2], 2));
        // And again within the fast ones.
        let three = [time(1.0, 1.0), time(10.0, 10.0), time(100.0, 100.0), time(101.0, 101.0)];
        let groups = vec![vec![0], vec![1], vec![2, 3]];
        assert_eq!(Groups::by_times(&three), Groups::Several(groups));
    }

    #[test]
    fn groups_have_each_rank_once() {
        let wrong =
            [vec![vec![0], vec![0, 1]], vec![vec![1, 0]], vec![vec![0]], vec![vec![0, 1], vec![]]];
        for groups in wrong {
            let error = Groups::Several(groups).check(2).unwrap_err();
            assert!(error.contains("each rank in exactly one group"), "{error}");
        }
        assert_eq!(Groups::Several(vec![vec![1], vec![0, 2]]).check(3), Ok(()));
    }
}
