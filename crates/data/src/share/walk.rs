//! The mini-batches of a shared pass, one after the other.

use super::Share;

/// Walks through the mini-batches of a shared pass, part by part.
#[derive(Clone, Debug)]
pub struct Walk {
    share: Share,
    /// Examples of the mini-batches that are over.
    behind: u64,
    /// Examples of the one at hand.
    examples: usize,
    /// The stream whose part is next, and how much of that is left.
    stream: usize,
    left: usize,
}

impl Walk {
    /// From the first mini-batch of `share` on.
    pub fn new(share: Share) -> Self {
        let mut walk = Self { share, behind: 0, examples: 0, stream: 0, left: 0 };
        walk.begin();
        walk
    }

    /// What it walks through.
    pub fn share(&self) -> &Share {
        &self.share
    }

    /// Examples of the mini-batches that are over.
    pub fn behind(&self) -> u64 {
        self.behind
    }

    /// The stream whose lines are next, and how many of them the mini-batch takes; none at the end.
    pub fn next(&self) -> Option<(usize, usize)> {
        (self.left > 0).then_some((self.stream, self.left))
    }

    /// Takes `lines` of them; says of how many examples the mini-batch is, if it is whole now.
    ///
    /// # Panics
    /// When there are fewer.
    pub fn take(&mut self, lines: usize) -> Option<usize> {
        assert!(lines <= self.left, "{lines} lines of {}", self.left);
        self.left -= lines;
        self.pass_over();
        if self.left > 0 {
            return None;
        }
        let examples = self.examples;
        self.behind += examples as u64;
        self.begin();
        Some(examples)
    }

    fn begin(&mut self) {
        self.examples = self.share.mini_batch_after(self.behind);
        (self.stream, self.left) = (0, self.share.part_of(0, self.examples).len());
        self.pass_over();
    }

    /// Passes over streams of which nothing is left.
    fn pass_over(&mut self) {
        while self.left == 0 && self.stream + 1 < self.share.streams() {
            self.stream += 1;
            self.left = self.share.part_of(self.stream, self.examples).len();
        }
    }
}
