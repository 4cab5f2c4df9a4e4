//! Iterates over the mini-batches of a shared pass.

use super::Share;

/// Iterates over the mini-batches of a shared pass, stream by stream.
#[derive(Clone, Debug)]
pub struct Walk {
    share: Share,
    /// Examples of completed mini-batches.
    behind: u64,
    /// Examples of the current mini-batch.
    examples: usize,
    /// Next stream, and the rest of its part.
    stream: usize,
    left: usize,
}

impl Walk {
    /// Starts at the first mini-batch of `share`.
    pub fn new(share: Share) -> Self {
        let mut walk = Self { share, behind: 0, examples: 0, stream: 0, left: 0 };
        walk.begin();
        walk
    }

    /// The share of the pass.
    pub fn share(&self) -> &Share {
        &self.share
    }

    /// Examples of completed mini-batches.
    pub fn behind(&self) -> u64 {
        self.behind
    }

    /// Next stream, and how many of its lines the mini-batch still takes; `None` at the end.
    pub fn next(&self) -> Option<(usize, usize)> {
        (self.left > 0).then_some((self.stream, self.left))
    }

    /// Takes `lines` of these lines. If that completes the mini-batch, returns its number of
    /// examples.
    ///
    /// # Panics
    /// If `lines` exceeds the rest of the part.
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

    /// Skips streams with nothing left to take.
    fn pass_over(&mut self) {
        while self.left == 0 && self.stream + 1 < self.share.streams() {
            self.stream += 1;
            self.left = self.share.part_of(self.stream, self.examples).len();
        }
    }
}
