//! The oracle: all parameters in one place, all workers one after another.

use std::collections::BTreeMap;

use stepwell_base::Key;

use super::{Model, Values, backward, forward};

/// Rows by table and key.
pub type Rows = BTreeMap<(u32, Key), Vec<f32>>;

/// The parameters after `clocks` clocks of `ranks` workers under BSP.
pub fn trained(model: &Model, ranks: usize, clocks: u64) -> Rows {
    let mut params = Rows::new();
    for (layer, table) in model.layers.iter().zip(&model.tables) {
        for key in &table.keys {
            let mut row = vec![0.0; table.row_floats];
            table.initial.fill(layer.table, *key, &mut row);
            params.insert((layer.table.0, *key), row);
        }
    }
    let empty = |layer: &super::Layer| vec![0.0; layer.kept_keys.len()];
    let mut kept: Vec<Vec<Vec<f32>>> =
        (0..ranks).map(|_| model.layers.iter().map(empty).collect()).collect();
    for clock in 0..clocks {
        let mut updates = Vec::new();
        for (rank, kept) in kept.iter_mut().enumerate() {
            updates.push(step(model, &params, (rank, clock), kept));
        }
        for updates in updates {
            for (at, update) in updates {
                let Some(row) = params.get_mut(&at) else { panic!("no row {at:?}") };
                row.iter_mut().zip(update).for_each(|(sum, value)| *sum += value);
            }
        }
    }
    params
}

/// The updates of one worker in one clock.
fn step(model: &Model, params: &Rows, at: (usize, u64), kept: &mut [Vec<f32>]) -> Rows {
    let mut updates = Rows::new();
    for (layer, kept) in model.layers.iter().zip(kept) {
        let table = layer.table.0;
        let row_floats = model.tables[table as usize].row_floats;
        let read = |keys: &[Key]| -> Vec<f32> {
            keys.iter().flat_map(|key| params[&(table, *key)].clone()).collect()
        };
        let values = read(&layer.keys);
        let mut output = vec![0.0; layer.output_keys.len() * 8];
        forward(at, &values, kept, &mut output);
        let mut add = |keys: &[Key], values: &[f32]| {
            for (key, values) in keys.iter().zip(values.chunks_exact(row_floats)) {
                match updates.get_mut(&(table, *key)) {
                    None => {
                        updates.insert((table, *key), values.to_vec());
                    }
                    Some(row) => row.iter_mut().zip(values).for_each(|(sum, value)| *sum += value),
                }
            }
        };
        let mut update = vec![0.0; values.len()];
        let what = (model.values, at.0);
        backward(what, (&values, &output, kept), &mut update, row_floats);
        add(&layer.keys, &update);
        if model.values == Values::Fractions {
            add(&layer.again, &update[..layer.again.len() * row_floats]);
        }
    }
    updates
}

/// Asserts that two models have the same bits.
pub fn assert_same(rows: &Rows, wanted: &Rows, what: &str) {
    assert_eq!(rows.len(), wanted.len(), "{what}: rows");
    if let Err(difference) = same(rows, wanted) {
        panic!("{what}: {difference}");
    }
}

/// Reports the first row that differs.
pub fn same(rows: &Rows, wanted: &Rows) -> Result<(), String> {
    let bits = |row: &[f32]| row.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    for ((at, row), (wanted_at, wanted)) in rows.iter().zip(wanted) {
        if at != wanted_at || bits(row) != bits(wanted) {
            return Err(format!("{at:?} is {row:?} and {wanted_at:?} should be {wanted:?}"));
        }
    }
    Ok(())
}
