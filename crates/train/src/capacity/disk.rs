//! Disk space of a run.

use stepwell_base::ByteCount;
use stepwell_base::budget::Budget;
use stepwell_engine::GroupPlan;
use stepwell_settings::{BestKind, Config};
use stepwell_ssd::StoreSpace;

use super::bounds::Capacity;
use super::expected::Expected;

impl Capacity {
    /// The most bytes of disk with `rows` rows, in whichever tables, or with all rows that the data
    /// can ask for; `None` if their number is unknown.
    pub fn disk(&self, config: &Config, rows: Option<u64>) -> Option<Budget> {
        let ranks = config.ranks.count as u64;
        let (space, rows) = match rows {
            Some(rows) => (self.space_of_any(rows.div_ceil(ranks)), rows),
            None => {
                let examples = u64::try_from(self.exact_scores).ok();
                let examples = examples.filter(|_| self.exact_scores < usize::MAX)?;
                let rows = |group: &GroupPlan| {
                    let number = self.tiers.groups.iter().position(|of| of == group);
                    let before = number.and_then(|number| self.rows_before.get(number));
                    let asked = examples.saturating_mul(group.ids_max);
                    asked.saturating_add(before.copied().unwrap_or(0))
                };
                let all = self.tiers.groups.iter().map(rows);
                let all = all.fold(0, u64::saturating_add);
                (self.space_of(&|group| rows(group).div_ceil(ranks)), all)
            }
        };
        let of_ranks = |bytes: u64| bytes.saturating_mul(ranks);
        let mut budget = Budget::default();
        let why = format!("tiers.ssd: {rows} rows, and those rewritten since the last commit");
        budget.add("rows on disk", of_ranks(space.at_most), why);
        if config.checkpoint.dir.is_some() {
            let each = of_ranks(space.after_commit).saturating_add(self.dense_bytes);
            let best = u64::from(config.checkpoint.best != BestKind::None);
            let count = (config.checkpoint.keep as u64).saturating_add(1 + best);
            let why = format!(
                "checkpoint.dir: {count} of {}, including the one being written; less on the file \
                 system of tiers.ssd, whose files they share",
                ByteCount(each)
            );
            budget.add("checkpoints", each.saturating_mul(count), why);
        }
        Some(budget)
    }

    /// Space of a rank's stores, each with `rows` of its group.
    pub(crate) fn space_of(&self, rows: &dyn Fn(&GroupPlan) -> u64) -> StoreSpace {
        let of_each = self.tiers.groups.iter().map(|group| group.store.space_of(rows(group)));
        of_each.fold(StoreSpace::default(), |sum, of| StoreSpace {
            after_commit: sum.after_commit.saturating_add(of.after_commit),
            at_most: sum.at_most.saturating_add(of.at_most),
        })
    }

    /// The most space of a rank's stores with `rows` rows in total, in whichever groups.
    fn space_of_any(&self, rows: u64) -> StoreSpace {
        let spaces = (0..self.tiers.groups.len()).map(|number| {
            let full = &self.tiers.groups[number].members;
            self.space_of(&|group| if group.members == *full { rows } else { 0 })
        });
        spaces.max_by_key(|space| space.at_most).unwrap_or_default()
    }

    /// Notes that the index has no room for the `expected` rows, or the settings that would give it
    /// room.
    pub fn index_note(&self, config: &Config, expected: &Expected<'_>) -> Option<String> {
        let before: u64 = self.rows_before.iter().sum();
        let rows = expected.rows.unwrap_or(0).max(before);
        let needed = self.tiers.index_for_all(rows.div_ceil(config.ranks.count as u64));
        let index = self.tiers.options().index;
        if rows > 0 && index.0 < needed {
            return Some(format!(
                "tiers.index = {index}, but the index of {rows} rows may need {}: raise it",
                ByteCount(needed)
            ));
        }
        let is_shared = self.memory.is_some() && config.tiers.index.is_none();
        (is_shared && expected.rows > Some(before)).then(|| {
            format!(
                "a run does not know in advance that there will be {rows} rows: to follow this \
                 plan, set tiers.index = {} ({index})",
                index.0
            )
        })
    }
}
