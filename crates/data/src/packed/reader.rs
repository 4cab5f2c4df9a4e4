//! Reads the blocks of a packed file in order, starting at any example.

use super::PackedFile;
use super::file::Table;
use crate::block::Block;
use crate::error::DataError;
use crate::pass_share::Follower;
use crate::read_options::ReadOptions;

/// Reads the blocks of one file.
#[derive(Debug)]
pub(crate) struct PackedReader {
    file: PackedFile,
    index: u32,
    table: Table,
    /// Next block.
    next: u64,
    /// Examples read or skipped.
    behind: u64,
}

impl PackedReader {
    /// Starts after `behind` examples of `file`, number `index` of a list.
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

    /// Fills `block` with the next examples. Reads their bytes only if `follower` wants any of
    /// them. Returns false at the end.
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
        // The rest of a block has at most as many examples as the block.
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
