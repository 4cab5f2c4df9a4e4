//! Groups of tables that share a slab and a store.

use crate::table_spec::TableSpec;

/// Tables of one group, which have one slab and one store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupTables {
    /// Numbers of the tables among the model's, ascending.
    pub tables: Vec<usize>,
    /// Whether existing rows never leave memory.
    pub whole: bool,
    /// Whether all tables of the group were assigned memory of their own.
    pub given: bool,
}

/// Maximum number of tables of a model.
pub const TABLES_MAX: usize = u16::MAX as usize;

impl GroupTables {
    /// Groups `tables`: tables that may share a store go together, except tables that stay `whole`
    /// in memory, which get a group each. Marks tables that share. Groups are in the order of their
    /// first tables.
    ///
    /// # Errors
    /// Names two tables whose rows can't be distinguished.
    ///
    /// # Panics
    /// If there are more than [`TABLES_MAX`] tables.
    pub fn of(
        tables: &mut [TableSpec],
        whole: impl Fn(usize) -> bool,
    ) -> Result<Vec<Self>, String> {
        assert!(tables.len() <= TABLES_MAX, "{} tables", tables.len());
        let mut groups: Vec<Self> = Vec::new();
        for (number, table) in tables.iter().enumerate() {
            if let Some(same) = tables[..number].iter().find(|other| other.tag() == table.tag()) {
                let (a, b) = (&same.name, &table.name);
                return Err(format!(
                    "tables '{a}' and '{b}' have the same tag: rename one of them"
                ));
            }
            let whole = whole(number);
            let shares =
                |of: &&mut Self| !whole && !of.whole && tables[of.tables[0]].may_share(table);
            match groups.iter_mut().find(shares) {
                Some(group) => group.tables.push(number),
                None => groups.push(Self { tables: vec![number], whole, given: false }),
            }
        }
        for group in groups.iter().filter(|group| group.tables.len() > 1) {
            group.tables.iter().for_each(|number| tables[*number].shared = true);
        }
        Ok(groups)
    }

    /// The group of a table that is alone in it.
    pub fn alone(table: usize) -> Self {
        Self { tables: vec![table], whole: false, given: false }
    }
}
