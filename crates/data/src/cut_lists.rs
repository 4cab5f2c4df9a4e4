//! Counts ids dropped from lists that exceed their limit, to report them.

use serde::{Deserialize, Serialize};

use crate::chunk::Chunk;
use crate::layout::Layout;

/// Total of the truncated lists of many chunks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CutLists {
    /// Examples examined.
    pub examples: u64,
    /// Per id column with truncated lists: number of the column, examples, dropped ids.
    columns: Vec<(u32, u64, u64)>,
}

/// Total of the truncated lists of one column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutColumn {
    /// Name of the column.
    pub column: String,
    /// Limit on the ids of a list.
    pub taken: u64,
    /// Examples with a longer list.
    pub examples: u64,
    /// Examples examined.
    pub of_examples: u64,
    /// Dropped ids.
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

    /// Totals per column, in the order of the columns of `layout`.
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
    /// Adds these counts of other examples to the totals in `all`.
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

    /// Note for the user.
    pub fn note(&self) -> String {
        let Self { column, taken, examples, of_examples, ids } = self;
        let verb = if *examples == 1 { "has" } else { "have" };
        format!(
            "{column}: {examples} of {of_examples} examples {verb} more than {taken} ids, and \
             {ids} ids after these are left out; raise `ids` of the column to use them"
        )
    }
}
