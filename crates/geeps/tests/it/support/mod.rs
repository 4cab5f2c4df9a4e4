//! A model of several layers that trains through a parameter server, and the oracle for comparison.

#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]

pub mod oracle;
pub mod schedule;
pub mod worker;

use stepwell_base::{Key, TableId};
use stepwell_device::Device;
use stepwell_geeps::{
    Applies, Initial, LocalId, LocalSettings, Settings, Staleness, TableSettings,
};

/// The kind of values that a model computes with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// Any fractions: sums reveal their order.
    Fractions,
    /// Each worker adds one to the rows of its number, and to row 0: sums are exact.
    Counts,
}

/// A layer: parameters, its output, and a state that it keeps between clocks.
#[derive(Clone, Debug)]
pub struct Layer {
    pub table: TableId,
    pub keys: Vec<Key>,
    /// Rows that are updated a second time, like shared weights.
    pub again: Vec<Key>,
    pub output: LocalId,
    pub output_keys: Vec<Key>,
    pub kept: LocalId,
    pub kept_keys: Vec<Key>,
}

/// A model, and how it is trained.
#[derive(Clone, Debug)]
pub struct Model {
    pub tables: Vec<TableSettings>,
    pub locals: Vec<LocalSettings>,
    pub layers: Vec<Layer>,
    pub staleness: Staleness,
    pub values: Values,
}

fn keys(range: std::ops::Range<u64>) -> Vec<Key> {
    range.map(|key| Key(key * key + 3)).collect()
}

fn local(name: String, row_floats: usize, rows: u64) -> LocalSettings {
    LocalSettings { name, row_floats, keys: keys(0..rows) }
}

impl Model {
    /// A model of layers with `rows` rows of parameters each.
    pub fn new(rows: &[u64], applies: Applies, staleness: Staleness, values: Values) -> Self {
        let mut model =
            Self { tables: Vec::new(), locals: Vec::new(), layers: Vec::new(), staleness, values };
        for (number, rows) in rows.iter().enumerate() {
            let initial = match values {
                Values::Fractions => Initial::Uniform { seed: 7, range: 0.5 },
                Values::Counts => Initial::Zeros,
            };
            let all = keys(0..*rows);
            model.tables.push(TableSettings {
                name: format!("layer {number}"),
                row_floats: 3 + number % 2,
                keys: all.clone(),
                initial,
                applies,
            });
            // Not in their order, and with fractions not all of them.
            let most = if values == Values::Counts { all.len() } else { all.len() - 1 };
            let keys: Vec<Key> = all.iter().rev().take(most).copied().collect();
            let again = keys.iter().step_by(3).copied().collect();
            model.locals.push(local(format!("output {number}"), 8, 24));
            model.locals.push(local(format!("kept {number}"), 1, 6));
            let output = LocalId(2 * number as u32);
            let kept = LocalId(2 * number as u32 + 1);
            let keys_of = |local: LocalId| model.locals[local.0 as usize].keys.clone();
            model.layers.push(Layer {
                table: TableId(number as u32),
                keys,
                again,
                output,
                output_keys: keys_of(output),
                kept,
                // Every other layer keeps only a part, with rows that are not adjacent.
                kept_keys: keys_of(kept).into_iter().step_by(1 + number % 2).collect(),
            });
        }
        model
    }

    /// The most bytes of buffers held at once, which is in a backward pass.
    pub fn peak_bytes(&self) -> u64 {
        let floats = |layer: &Layer| {
            let row_floats = self.tables[layer.table.0 as usize].row_floats;
            let params = layer.keys.len() * row_floats;
            [params, params, 8 * layer.output_keys.len(), layer.kept_keys.len()]
        };
        let bytes = |layer| floats(layer).map(|floats| Device::bytes_counted(4 * floats as u64));
        self.layers.iter().map(|layer| bytes(layer).iter().sum()).max().unwrap_or(0)
    }

    /// Bytes of all data.
    pub fn data_bytes(&self) -> u64 {
        let tables = self.tables.iter().map(|table| table.row_floats * table.keys.len());
        let locals = self.locals.iter().map(|local| local.row_floats * local.keys.len());
        tables.chain(locals).map(|floats| Device::bytes_counted(4 * floats as u64)).sum()
    }

    pub fn settings(&self) -> Settings {
        Settings { tables: self.tables.clone(), locals: self.locals.clone(), ..Settings::default() }
    }
}

/// The forward pass of a layer, from its parameters and its state.
pub fn forward((rank, clock): (usize, u64), params: &[f32], kept: &mut [f32], output: &mut [f32]) {
    for (at, output) in output.iter_mut().enumerate() {
        let param = params[at % params.len()];
        *output = param * 0.37 + 0.11 * (rank + 1) as f32 + 0.013 * (at as f32 - clock as f32);
    }
    for (at, kept) in kept.iter_mut().enumerate() {
        *kept = *kept * 0.91 + output[at % output.len()];
    }
}

/// The backward pass of a layer.
pub fn backward(
    (values, rank): (Values, usize),
    (params, output, kept): (&[f32], &[f32], &[f32]),
    update: &mut [f32],
    row_floats: usize,
) {
    for (at, update) in update.iter_mut().enumerate() {
        *update = match values {
            Values::Fractions => {
                let kept = kept[at % kept.len()];
                -0.03 * (params[at % params.len()] * 0.7 + output[at % output.len()] - 0.2 * kept)
            }
            // Keys are in reverse order: the last row is the first one's.
            Values::Counts => {
                let rows = params.len() / row_floats;
                let row = rows - 1 - at / row_floats;
                if row == 0 || row == rank + 1 { 1.0 } else { 0.0 }
            }
        };
    }
}
