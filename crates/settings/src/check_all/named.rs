//! Checks of named tables, features and columns.

use std::collections::BTreeSet;

use super::{check_admission, check_initial};
use crate::check::{IDS_MAX, Outcome};
use crate::columns::COLUMN_SETTINGS;
use crate::config::{
    ColumnConfig, Config, EMBEDDING, FeatureConfig, PlaceKind, TableConfig, check_name,
};
use crate::table_settings::{FEATURE_SETTINGS, TABLE_SETTINGS};

impl Config {
    pub(super) fn check_named(&self) -> Outcome {
        let mut names = BTreeSet::new();
        for table in &self.tables {
            check_name(&table.name)?;
            if !names.insert(table.name.as_str()) {
                return Err(format!("tables.{} is given twice: give it once", table.name));
            }
            self.check_table(table)?;
        }
        names.insert(EMBEDDING);
        self.check_columns()?;
        self.check_features(&names)?;
        self.check_used()
    }

    fn check_table(&self, table: &TableConfig) -> Outcome {
        for setting in TABLE_SETTINGS {
            setting.check_as(&table.key(setting.key), table)?;
        }
        check_initial(&format!("tables.{}", table.name), table.init_std, table.init_value)?;
        if table.place == PlaceKind::Memory && table.dram.is_none() {
            return Err(format!(
                "{} is memory, and its size is missing: give {}, enough bytes for all of its rows, \
                 such as 64MiB",
                table.key("place"),
                table.key("dram")
            ));
        }
        let expires = table.rules(self).rows.expire_after > 0;
        if table.place == PlaceKind::Memory && expires {
            return Err(format!(
                "{} is memory, where expired rows would not free their memory: give {} = 0, or \
                 leave out place",
                table.key("place"),
                table.key("expire_after")
            ));
        }
        self.check_table_admission(table)
    }

    fn check_table_admission(&self, table: &TableConfig) -> Outcome {
        let is_given = |key: &str| match key {
            "admit_after" => table.admit_after.is_some(),
            "admit_probability" => table.admit_probability.is_some(),
            _ => table.sketch.is_some(),
        };
        let key_of = |key: &str| match is_given(key) {
            true => table.key(key),
            false => format!("rows.{key}"),
        };
        // The table can override a rule that it inherits.
        let inherited = ["admit_after", "admit_probability"].into_iter().find(|key| !is_given(key));
        let mend = inherited.map_or_else(
            || "give one of them".to_owned(),
            |key| format!("give {} = 1 for this table", table.key(key)),
        );
        check_admission(&table.rules(self).rows, &key_of, &mend)
    }

    /// Refuses columns from which no example can be made, and columns without data.
    fn check_columns(&self) -> Outcome {
        for (column, number) in self.columns.iter().zip(1..) {
            for setting in COLUMN_SETTINGS {
                setting.check_as(&ColumnConfig::key(number, setting.key), column)?;
            }
        }
        let layout = self.drafted()?.layout()?;
        if layout.is_some() && self.data.paths.is_empty() && self.data.eval_paths.is_empty() {
            return Err(
                "the built-in stream has its own columns: name data, or leave out columns, \
                 data.preset, data.trim and data.missing"
                    .to_owned(),
            );
        }
        Ok(())
    }

    fn check_features(&self, tables: &BTreeSet<&str>) -> Outcome {
        let layout = self.drafted()?.layout()?;
        let layout = layout.as_deref();
        let mut ids = 0;
        for (feature, number) in self.features.iter().zip(1..) {
            for setting in FEATURE_SETTINGS {
                setting.check_as(&FeatureConfig::key(number, setting.key), feature)?;
            }
            if !tables.contains(feature.table.as_str()) {
                return Err(no_table(number, &feature.table));
            }
            let key = |setting| FeatureConfig::key(number, setting);
            let columns = feature.columns_in(layout);
            let columns = columns.map_err(|why| format!("{} {why}", key("columns")))?;
            feature.weight_in(layout).map_err(|why| format!("{} {why}", key("weight")))?;
            ids += columns.len() * feature.ids;
            if ids > IDS_MAX {
                return Err(format!(
                    "features.1 to features.{number} take {ids} ids per example (columns times \
                     ids): give fewer columns or ids, at most {IDS_MAX} in all"
                ));
            }
        }
        let most = u32::MAX as usize / ids.max(1);
        if self.data.mini_batch > most {
            let mini_batch = self.data.mini_batch;
            return Err(format!(
                "data.mini_batch is {mini_batch}, and an example may have {ids} ids: give at most \
                 {most}, or give features fewer ids"
            ));
        }
        Ok(())
    }

    /// Refuses a table that no feature uses.
    fn check_used(&self) -> Outcome {
        let named: BTreeSet<&str> = match self.features.is_empty() {
            true => [EMBEDDING].into(),
            false => self.features.iter().map(|feature| feature.table.as_str()).collect(),
        };
        match self.tables.iter().find(|table| !named.contains(table.name.as_str())) {
            None => Ok(()),
            Some(TableConfig { name, .. }) => Err(format!(
                "tables.{name} is used by no feature: give [[features]] with table = \"{name}\" \
                 and its columns, or leave it out"
            )),
        }
    }
}

fn no_table(number: usize, name: &str) -> String {
    let key = FeatureConfig::key(number, "table");
    format!("{key} is {name}, which is not a table: give [tables.{name}], or name another table")
}
