//! The bounds of all memory of a rank's parameter server.
//!
//! - **Not included** are an entry of a few words for each key and each operation of a sequence,
//!   and, on a device, pinned memory, which the device's own pool bounds.

use stepwell_base::TableId;
use stepwell_base::budget::Budget;
use stepwell_base::owner::RankOf;

use crate::Result;
use crate::keeper::CREDIT;
use crate::layout::Layout;
use crate::settings::Settings;

impl Settings {
    /// Every bound of a rank, by name.
    ///
    /// # Errors
    /// If settings are invalid.
    pub fn bounds(&self, RankOf { rank, ranks }: RankOf) -> Result<Budget> {
        self.check()?;
        let (mut all, mut touched, mut part) = (0, 0, 0);
        for (number, table) in self.tables.iter().enumerate() {
            let layout = Layout::new(TableId(number as u32), table, ranks)?;
            let row_bytes = 4 * table.row_floats as u64;
            all += row_bytes * table.keys.len() as u64;
            touched += table.keys.len() as u64;
            part += row_bytes * layout.parts[rank].len() as u64;
        }
        let locals = self.locals.iter().map(|local| 4 * local.row_floats * local.keys.len());
        let (locals, ranks) = (locals.map(|bytes| bytes as u64).sum(), ranks as u64);
        let (ahead, credit) = (self.clocks_ahead, u64::from(CREDIT));
        let mut budget = Budget::default();
        let why = "pinned data, indexes and access buffers: budget_bytes";
        budget.add("application's memory", self.budget_bytes, why);
        budget.add("parameter caches", all, "tables that are not pinned, at most all");
        let why = format!("{ahead} clocks ahead and the current one, with one byte per row");
        budget.add("updates", (ahead + 1) * (all + touched), why);
        budget.add("local data", locals, "what is not pinned, at most all");
        budget.add("shard", part, "the rows that this rank owns");
        let why = format!("{ahead} from each of {ranks} workers, with all rows and their numbers");
        budget.add("pushes that wait", ahead * ranks * (part + 4 * touched), why);
        let why = format!("{credit} to each of {ranks} workers, and as many from each shard");
        budget.add("snapshots under way", credit * (ranks * part + all), why);
        Ok(budget)
    }
}

#[cfg(test)]
mod tests {
    use stepwell_base::Key;
    use stepwell_base::owner::RankOf;

    use crate::{Applies, Initial, LocalSettings, Settings, TableSettings};

    #[test]
    fn all_that_a_rank_holds_is_listed() {
        let keys = |count| (0..count).map(Key).collect();
        let table = TableSettings {
            name: "table".to_owned(),
            row_floats: 8,
            keys: keys(1000),
            initial: Initial::Zeros,
            applies: Applies::ByClock,
        };
        let local = LocalSettings { name: "local".to_owned(), row_floats: 2, keys: keys(10) };
        let settings = Settings {
            tables: vec![table],
            locals: vec![local],
            budget_bytes: 4096,
            clocks_ahead: 3,
            ..Settings::default()
        };
        let bytes = |rank, ranks| {
            let budget = settings.bounds(RankOf { rank, ranks }).unwrap();
            budget.bounds().iter().map(|bound| bound.bytes).collect::<Vec<_>>()
        };
        let alone = [4096, 32_000, 4 * 33_000, 80, 32_000, 3 * 36_000, 2 * 64_000];
        assert_eq!(bytes(0, 1), alone);
        let shards: u64 = (0..4).map(|rank| bytes(rank, 4)[4]).sum();
        assert_eq!(shards, 32_000, "each row has one owner");
        assert!(settings.bounds(RankOf { rank: 0, ranks: 257 }).is_err());
    }
}
