//! The cut of a mini-batch into blocks, the unit of summation.

/// `examples` examples in `count` blocks, as even as whole examples allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    examples: usize,
    count: usize,
}

impl Blocks {
    /// So many blocks of so many examples.
    pub fn new(examples: usize, count: usize) -> Self {
        Self { examples, count }
    }

    /// Number of blocks.
    pub fn count(&self) -> usize {
        self.count
    }

    /// First example of block `block`; of block `count` it is the end.
    pub fn start(&self, block: usize) -> usize {
        self.examples * block / self.count
    }

    /// Examples of block `block`.
    pub fn range(&self, block: usize) -> std::ops::Range<usize> {
        self.start(block)..self.start(block + 1)
    }

    /// Examples of the largest block.
    pub fn largest(&self) -> usize {
        self.examples.div_ceil(self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_cover_every_example_once() {
        for (examples, count) in [(0, 8), (1, 8), (7, 8), (8, 8), (100, 8), (4096, 8), (5, 3)] {
            let blocks = Blocks::new(examples, count);
            let covered: Vec<usize> = (0..count).flat_map(|block| blocks.range(block)).collect();
            assert_eq!(covered, (0..examples).collect::<Vec<_>>());
            assert!((0..count).all(|block| blocks.range(block).len() <= blocks.largest()));
        }
    }
}
