//! Tracks when each rank was last heard, and when to send it a sign of life.
//!
//! Time is passed in, so that tests take none.

use crate::carrier::KnownBy;

/// Signs of life within the others' patience.
const BEATS: f64 = 4.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Life {
    /// The rank sends signs of life.
    There,
    /// The rank has ended or failed, and announced it: no rank needs it any more.
    Ended,
    /// The rank has announced that it sends nothing more.
    Gone,
    /// The rank vanished.
    Lost,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    life: Life,
    heard: f64,
    told: f64,
}

/// A rank that was silent for too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Silent {
    pub(super) rank: usize,
    /// Whether no rank continues without it.
    pub(super) is_needed: bool,
}

/// One rank's knowledge of the lives of all ranks.
#[derive(Debug)]
pub(super) struct Watch {
    /// Seconds after which a silent rank is lost.
    patience: f64,
    /// Others receive signs of life often enough for a patience of this many seconds.
    told_within: f64,
    own: usize,
    ranks: Vec<Known>,
    looked: f64,
}

impl Watch {
    /// All ranks are present at `now`.
    pub(super) fn new(own: usize, size: usize, patience: f64, now: f64) -> Self {
        let known = Known { life: Life::There, heard: now, told: now };
        Self { patience, told_within: patience, own, ranks: vec![known; size], looked: now }
    }

    pub(super) fn patience(&self) -> f64 {
        self.patience
    }

    /// Changes the patience at `now`. Until all ranks know it, this rank sends signs of life as
    /// often, and waits as long, as the old or the new patience requires.
    pub(super) fn be_patient(&mut self, patience: f64, known_by: KnownBy, now: f64) {
        (self.told_within, self.patience) = match known_by {
            KnownBy::ThisRank => (self.told_within.min(patience), self.patience.max(patience)),
            KnownBy::AllRanks => (patience, patience),
        };
        // Until now, ranks were only heard as often as the previous patience required.
        self.ranks.iter_mut().for_each(|known| known.heard = now);
    }

    pub(super) fn life(&self, rank: usize) -> Life {
        self.ranks[rank].life
    }

    /// Moves `rank` nearer to its end; it never comes back.
    pub(super) fn becomes(&mut self, rank: usize, life: Life) {
        self.ranks[rank].life = self.ranks[rank].life.max(life);
    }

    /// Records that something arrived from `rank`.
    pub(super) fn heard(&mut self, rank: usize, now: f64) {
        self.ranks[rank].heard = now;
    }

    fn others(&self) -> impl Iterator<Item = (usize, &Known)> {
        self.ranks.iter().enumerate().filter(|(rank, _)| *rank != self.own)
    }

    /// Whether all others are gone, or lost.
    pub(super) fn is_alone(&self) -> bool {
        self.others().all(|(_, known)| known.life >= Life::Gone)
    }

    /// Whether all others are gone after a normal end.
    pub(super) fn all_gone(&self) -> bool {
        self.others().all(|(_, known)| known.life == Life::Gone)
    }

    /// Checks the clock: if this rank itself was suspended, the others are not to blame.
    pub(super) fn look(&mut self, now: f64) {
        let gap = now - self.looked;
        if gap > self.told_within / BEATS {
            self.ranks.iter_mut().for_each(|known| known.heard += gap);
        }
        self.looked = now;
    }

    /// A rank that is due a sign of life, which counts as sent.
    pub(super) fn beat_due(&mut self, now: f64) -> Option<usize> {
        let pause = self.told_within / BEATS;
        let due =
            |(_, known): &(usize, &Known)| known.life < Life::Gone && now - known.told >= pause;
        let rank = self.others().find(due)?.0;
        self.ranks[rank].told = now;
        Some(rank)
    }

    /// A rank that was silent for too long, which then counts as lost.
    pub(super) fn silent(&mut self, now: f64) -> Option<Silent> {
        let silent = |(_, known): &(usize, &Known)| {
            known.life < Life::Gone && now - known.heard > self.patience
        };
        let (rank, known) = self.others().find(silent)?;
        let is_needed = known.life == Life::There;
        self.becomes(rank, Life::Lost);
        Some(Silent { rank, is_needed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_silent_are_named_once_and_only_where_they_are_needed() {
        let mut watch = Watch::new(1, 4, 10.0, 0.0);
        watch.becomes(2, Life::Ended);
        for now in 1..=10 {
            watch.look(f64::from(now));
            watch.heard(3, f64::from(now));
            assert_eq!(watch.silent(f64::from(now)), None, "at {now}");
        }
        watch.look(10.5);
        assert_eq!(watch.silent(10.5), Some(Silent { rank: 0, is_needed: true }));
        assert_eq!(watch.silent(10.5), Some(Silent { rank: 2, is_needed: false }));
        assert_eq!(watch.silent(10.5), None);
        watch.becomes(3, Life::Gone);
        assert_eq!((watch.is_alone(), watch.all_gone()), (true, false));
        watch.becomes(0, Life::Ended);
        assert_eq!(watch.life(0), Life::Lost, "it does not come back");
    }

    #[test]
    fn others_are_told_often_enough() {
        let mut watch = Watch::new(0, 3, 8.0, 0.0);
        assert_eq!(watch.beat_due(1.9), None);
        assert_eq!(watch.beat_due(2.0), Some(1));
        assert_eq!(watch.beat_due(2.0), Some(2));
        assert_eq!(watch.beat_due(3.9), None);
        watch.becomes(1, Life::Gone);
        assert_eq!(watch.beat_due(4.0), Some(2));
    }

    #[test]
    fn a_patience_counts_once_all_know_it() {
        for (was, is) in [(60.0, 2.0), (2.0, 60.0)] {
            let mut watch = Watch::new(0, 2, was, 0.0);
            watch.be_patient(is, KnownBy::ThisRank, 0.0);
            assert_eq!(watch.beat_due(0.5), Some(1), "as often as 2 s need");
            (0..=30).for_each(|half| watch.look(f64::from(half) / 2.0));
            assert_eq!(watch.silent(15.0), None, "as long as 60 s allow");
            watch.be_patient(is, KnownBy::AllRanks, 15.0);
            assert_eq!(watch.beat_due(15.0 + is / 4.0), Some(1));
            assert_eq!(watch.silent(15.0 + is), None);
            assert_eq!(watch.silent(15.1 + is), Some(Silent { rank: 1, is_needed: true }));
        }
    }

    #[test]
    fn one_that_was_held_up_itself_blames_nobody() {
        let mut watch = Watch::new(0, 2, 10.0, 0.0);
        watch.look(2.0);
        watch.look(100.0);
        assert_eq!(watch.silent(100.0), None);
        for now in 101..=108 {
            watch.look(f64::from(now));
        }
        assert_eq!(
            watch.silent(108.5),
            Some(Silent { rank: 1, is_needed: true }),
            "2 s before and 8.5 after"
        );
    }
}
