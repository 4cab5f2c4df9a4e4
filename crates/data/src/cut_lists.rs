//! What is left out of lists that have more ids than are taken: counted as examples are made, so
//! that it can be said.

use serde::{Deserialize, Serialize};

use crate::Chunk;
use crate::layout::Layout;

/// Entries that a chunk has; further lists are counted with the last one of their column.
const ENTRIES_MAX: usize = 4096;

/// A list of a chunk that is cut, or several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutList {
    /// The last example of the chunk whose list it is.
    pub example: u32,
    /// Number of the id column.
    pub column: u32,
    /// Examples with such a list.
    pub examples: u32,
    /// Ids of them that are left out.
    pub ids: u64,
}

/// The most bytes that entries take in a chunk of so many list columns, made of `block_bytes`.
pub(crate) fn bytes_max(lists: usize, block_bytes: usize) -> usize {
    let most = if lists == 0 { 0 } else { ENTRIES_MAX.min(block_bytes) + lists };
    most * size_of::<CutList>()
}

impl Chunk {
    /// So many ids of the list that `example`, the last one, has in id column `column` are left
    /// out.
    pub(crate) fn note_cut_list(&mut self, example: usize, column: usize, ids: usize) {
        // Columns and examples of a chunk count in 32 bits.
        let (example, column) = (example as u32, column as u32);
        let entries = &mut self.cut_lists;
        if entries.len() >= ENTRIES_MAX
            && let Some(last) = entries.iter_mut().rfind(|entry| entry.column == column)
        {
            last.example = example;
            last.examples += 1;
            last.ids += ids as u64;
            return;
        }
        if entries.capacity() == 0 {
            entries.reserve_exact(1);
        }
        entries.push(CutList { example, column, examples: 1, ids: ids as u64 });
    }
}

/// What the lists of many chunks lose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CutLists {
    /// Examples that were looked at.
    pub examples: u64,
    /// Of each id column with such lists: its number, its examples with them, ids that are left
    /// out.
    columns: Vec<(u32, u64, u64)>,
}

/// What the lists of one column lose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutColumn {
    /// Its name.
    pub column: String,
    /// Ids of a list that are taken.
    pub taken: u64,
    /// Examples whose list has more.
    pub examples: u64,
    /// Examples that were looked at.
    pub of_examples: u64,
    /// Ids that are left out.
    pub ids: u64,
}

impl CutLists {
    /// Counts the first `examples` examples of `chunk`.
    pub fn add(&mut self, chunk: &Chunk, examples: usize) {
        self.examples += examples as u64;
        for entry in chunk.cut_lists.iter().filter(|entry| (entry.example as usize) < examples) {
            let (column, more, ids) = (entry.column, u64::from(entry.examples), entry.ids);
            match self.columns.iter_mut().find(|(known, ..)| *known == column) {
                Some((_, examples, left_out)) => {
                    *examples += more;
                    *left_out += ids;
                }
                None => self.columns.push((column, more, ids)),
            }
        }
    }

    /// By column, in the order of the columns of `layout`.
    pub fn of(&self, layout: &Layout) -> Vec<CutColumn> {
        let names = layout.id_names();
        let mut columns = self.columns.clone();
        columns.sort_unstable();
        let of = |(column, examples, ids): (u32, u64, u64)| {
            let (name, taken) = names.get(column as usize)?;
            let (column, taken) = ((*name).to_owned(), *taken as u64);
            Some(CutColumn { column, taken, examples, of_examples: self.examples, ids })
        };
        columns.into_iter().filter_map(of).collect()
    }
}

impl CutColumn {
    /// Adds what another reader counted of other examples to what is known of all.
    pub fn add_to(self, all: &mut Vec<Self>) {
        match all.iter_mut().find(|known| known.column == self.column) {
            Some(known) => {
                known.examples += self.examples;
                known.of_examples += self.of_examples;
                known.ids += self.ids;
            }
            None => all.push(self),
        }
    }

    /// What to say of it.
    pub fn note(&self) -> String {
        let Self { column, taken, examples, of_examples, ids } = self;
        let verb = if *examples == 1 { "has" } else { "have" };
        format!(
            "{column}: {examples} of {of_examples} examples {verb} more than {taken} ids, and \
             {ids} ids behind these are left out; raise `ids` of the column to take them"
        )
    }
}
