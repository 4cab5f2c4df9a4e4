//! Named tables of a job, and their features.
//!
//! - **Why.** A single table of all columns doesn't share its slab, and its keys can't be confused
//!   with another table's.
//! - **How.** About half of the tables resemble another one, so that some share slab and store.
//!   Properties that may differ within a group (rates, initial values and admission) are drawn for
//!   each.

use stepwell_base::ByteCount;
use stepwell_engine::{DEFAULT_TABLE, Pooling};
use stepwell_optim::Storage;
use stepwell_settings::{Config, FeatureConfig, OptimizerKind, PlaceKind, RowsConfig, TableConfig};

use crate::dice::Dice;
use crate::ids::DENSE;

/// Most lanes of an embedding.
const DIM_MAX: u64 = 5;
/// Most columns of a feature.
const COLUMNS_MAX: u64 = 3;
/// Most ids of an unpooled bag, so that a model's input stays small.
const ROWS_MAX: usize = 5;

/// A table that must stay in memory, but only has space for a part of its rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Tight {
    /// Name.
    pub table: String,
    /// Share of its rows for which there is space.
    pub part: f64,
}

/// Adds tables to `config`, and features over columns, whose bags have at most `ids` ids.
pub(crate) fn draw(config: &mut Config, ids: &[usize], dice: &mut Dice) -> Option<Tight> {
    let mut tables: Vec<TableConfig> = Vec::new();
    for number in 0..dice.within(2, 5) {
        let like = match dice.once_in(2) {
            true => tables.get(dice.below(number.max(1)) as usize).cloned(),
            false => None,
        };
        let mut table = match like {
            Some(like) => alike(&like, config, dice),
            None => fresh(config, dice),
        };
        table.name = format!("table{number}");
        if number == 0 && dice.once_in(3) {
            DEFAULT_TABLE.clone_into(&mut table.name);
        }
        tables.push(table);
    }
    // The second-order term of a DeepFM needs embeddings.
    if config.model.kind.has_pairs() && tables.iter().all(|table| table.dim == Some(0)) {
        tables[0].dim = Some(config.model.dim);
    }
    config.features = features(&tables, ids, dice);
    // Expired rows would keep their slots.
    let whole = tables.iter_mut().filter(|table| table.place == PlaceKind::Memory);
    whole.for_each(|table| table.expire_after = Some(0));
    let tight = tight(&tables, dice);
    config.tables = tables;
    tight
}

/// Draws a table from scratch.
fn fresh(config: &Config, dice: &mut Dice) -> TableConfig {
    let has_first_order = config.model.kind.has_first_order();
    // Few kinds of models have first-order weights, so their tables often have nothing else.
    let dim = match has_first_order {
        true => dice.within(0, DIM_MAX + 2).saturating_sub(2),
        false => dice.within(1, DIM_MAX),
    } as usize;
    let mut table = TableConfig { dim: Some(dim), ..TableConfig::default() };
    if dice.once_in(2) {
        table.optimizer = Some(dice.pick(&OptimizerKind::ALL).into());
    }
    if dice.once_in(2) {
        table.storage = Some(dice.pick(&Storage::ALL));
    }
    if !dice.once_in(3) {
        live_by(&mut table, &life(dice));
    }
    rates(&mut table, dice);
    table
}

/// Draws a table that may share slab and store with `like`.
fn alike(like: &TableConfig, config: &Config, dice: &mut Dice) -> TableConfig {
    let mut table = TableConfig { place: PlaceKind::Tiers, ..like.clone() };
    let was = like.rules(config).rows;
    if was.life().is_some() {
        let life = life(dice);
        live_by(&mut table, &RowsConfig { expire_after: was.expire_after, history: true, ..life });
    }
    rates(&mut table, dice);
    table
}

fn live_by(table: &mut TableConfig, life: &RowsConfig) {
    table.admit_after = Some(life.admit_after);
    table.admit_probability = Some(life.admit_probability);
    table.expire_after = Some(life.expire_after);
    table.history = Some(life.history);
    table.sketch = Some(life.sketch);
}

/// Draws properties in which rows of a group may differ.
fn rates(table: &mut TableConfig, dice: &mut Dice) {
    table.lr = dice.pick(&[None, Some(0.01), Some(0.1)]);
    table.init_range = dice.pick(&[None, Some(0.01), Some(0.3)]);
    if dice.once_in(5) {
        table.place = PlaceKind::Memory;
    }
}

/// Draws at least one feature for each of `tables`.
fn features(tables: &[TableConfig], ids: &[usize], dice: &mut Dice) -> Vec<FeatureConfig> {
    let count = dice.within(1, 12).max(tables.len() as u64) as usize;
    let mut of: Vec<usize> = (0..tables.len()).collect();
    of.resize_with(count, || dice.below(tables.len() as u64) as usize);
    for last in (1..count).rev() {
        of.swap(last, dice.below(last as u64 + 1) as usize);
    }
    of.into_iter().map(|table| feature(&tables[table].name, ids, dice)).collect()
}

fn feature(table: &str, ids: &[usize], dice: &mut Dice) -> FeatureConfig {
    let count = dice.within(1, COLUMNS_MAX) as usize;
    let first = dice.below((ids.len() - count + 1) as u64) as usize;
    let columns = first..first + count;
    let (from, to) = (first + 1, first + count);
    let names = match dice.once_in(2) {
        true => vec![format!("C{from}-C{to}")],
        false => columns.clone().rev().map(|column| format!("C{}", column + 1)).collect(),
    };
    let most = ids[columns].iter().copied().max().unwrap_or(0).max(1);
    let ids = most + dice.pick(&[0, 0, 1]);
    let mut pooling = dice.pick(&Pooling::ALL);
    if pooling == Pooling::None && ids * count > ROWS_MAX {
        pooling = Pooling::Mean;
    }
    let weight = dice.once_in(4).then(|| format!("I{}", dice.within(1, DENSE as u64)));
    FeatureConfig { columns: names, table: table.to_owned(), pooling, ids, weight }
}

/// Sometimes gives one of the tables that stay in memory too little space.
fn tight(tables: &[TableConfig], dice: &mut Dice) -> Option<Tight> {
    let table = tables.iter().find(|table| table.place == PlaceKind::Memory)?;
    if dice.once_in(2) {
        return None;
    }
    Some(Tight { table: table.name.clone(), part: dice.pick(&[0.2, 0.5, 0.8, 0.95]) })
}

pub(crate) fn life(dice: &mut Dice) -> RowsConfig {
    let mut life = RowsConfig {
        admit_after: 1,
        admit_probability: 1.0,
        expire_after: 0,
        history: dice.once_in(8),
        sketch: ByteCount(dice.pick(&[64, 512, 4096])),
        storage: Storage::default(),
    };
    match dice.below(6) {
        0 => life.admit_after = dice.within(2, 4) as u8,
        1 => life.admit_probability = dice.pick(&[0.2, 0.7]),
        _ => {}
    }
    if dice.once_in(4) {
        life.expire_after = dice.within(2, 15);
    }
    life
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::job::{Job, Length};
    use crate::tiers::Tables;
    use stepwell_settings::ModelKind;

    /// A case that is never drawn is never simulated.
    #[test]
    fn tables_share_stay_whole_and_differ_and_all_models_have_some() {
        let (mut kinds, mut poolings, mut dims) = (BTreeSet::new(), BTreeSet::new(), [0; 6]);
        let [mut named, mut shared, mut whole, mut tight, mut weighed, mut standard] = [0; 6];
        for number in 0..200 {
            let job = Job::draw(number, Length::SHORT);
            if job.config.features.is_empty() {
                assert_eq!((job.config.tables.len(), &job.tight), (0, &None));
                continue;
            }
            let tables = Tables::of(&job).unwrap();
            named += 1;
            kinds.insert(job.config.model.kind.name());
            shared += u32::from(tables.groups.iter().any(|group| group.tables.len() > 1));
            whole += u32::from(tables.groups.iter().any(|group| group.whole));
            tight += u32::from(job.tight.is_some());
            job.config.tables.iter().for_each(|table| dims[table.dim.unwrap()] += 1);
            standard += u32::from(job.config.tables[0].name == DEFAULT_TABLE);
            poolings.extend(job.config.features.iter().map(|of| of.pooling.name()));
            weighed += u32::from(job.config.features.iter().any(|of| of.weight.is_some()));
        }
        assert!((80..120).contains(&named), "{named} of 200 jobs have tables");
        assert_eq!(
            (kinds.len(), poolings.len()),
            (ModelKind::OF_ANY_DATA.len(), Pooling::ALL.len())
        );
        // Only models with first-order weights have tables without embeddings.
        assert!(dims.iter().all(|count| *count > 20), "{dims:?}");
        let counts = [shared, whole, tight, weighed, standard];
        assert!(counts.iter().all(|count| *count >= 5), "{counts:?}");
    }
}
