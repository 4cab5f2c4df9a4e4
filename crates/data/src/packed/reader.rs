//! The blocks of a packed file, one after the other, from any example on.

use super::PackedFile;
use super::file::Table;
use crate::block::Block;
use crate::share::Follower;
use crate::{DataError, ReadOptions};

/// Reads the blocks of one file.
#[derive(Debug)]
pub(crate) struct PackedReader {
    file: PackedFile,
    index: u32,
    table: Table,
    /// The block that is read next.
    next: u64,
    /// Examples that lie behind.
    behind: u64,
}

impl PackedReader {
    /// Starts behind `behind` examples of `file`, which is number `index` of a list.
    pub(crate) fn open(
        mut file: PackedFile,
        index: u32,
        behind: u64,
        options: &ReadOptions,
    ) -> Result<Self, DataError> {
        file.check(options)?;
        let examples = file.examples();
        if behind > examples {
            let why = format!("the file has {examples} examples; it may have changed");
            let path = file.path().to_owned();
            return Err(DataError::Position { path, wanted: behind, why });
        }
        let table = file.table()?;
        let next = table.block_after(behind);
        Ok(Self { file, index, table, next, behind })
    }

    /// Fills `block` with the next examples, and reads them where `follower` wants one; false at
    /// the end.
    pub(crate) fn next_block(
        &mut self,
        block: &mut Block,
        follower: &mut Follower,
    ) -> Result<bool, DataError> {
        block.bytes.clear();
        if self.next == self.table.blocks() {
            return Ok(false);
        }
        let seal = self.table.seal(self.next);
        let end = seal.first + u64::from(seal.examples);
        (block.file, block.first_line) = (self.index, self.behind);
        // What is left of a block is no more than its examples.
        (block.lines, block.packed) = ((end - self.behind) as u32, Some(seal));
        block.wanted = follower.take(block.lines);
        if block.wanted.as_ref().is_none_or(|wanted| !wanted.is_empty()) {
            self.file.read(seal.offset, u64::from(seal.bytes), &mut block.bytes)?;
        }
        self.next += 1;
        self.behind = end;
        Ok(true)
    }
}
