//! Copies the rows of a table from tensors into a store.
//!
//! - **Bounds.** 1 MiB of rows, or one row, twice; and the store's own bounds.
//! - **Failure.** An error in a row names its number and key; the whole import then leaves nothing.

use std::path::Path;

use stepwell_base::Key;
use stepwell_base::stop::StopRequest;
use stepwell_engine::{Checkpoint, History, TableSpec};
use stepwell_ssd::Store;

use super::origin::check_about;
use super::reader::TensorReader;
use crate::export::tensors::{Kind, Tensor};
use crate::export::{Parts, State};
use crate::progress::Counting;
use crate::snapshots::index_bytes;

/// Bytes of rows that are read and put at once, unless one row is longer.
const BYTES_AT_ONCE: usize = 1 << 20;

/// The checked tensors of a table.
pub(super) struct TableTensors<'a> {
    file: TensorReader,
    spec: &'a TableSpec,
    tensors: Vec<Tensor>,
    pub(super) rows: u64,
    step: u64,
    state: State,
}

/// Values of some rows as bytes, by tensor.
type Columns = Vec<Vec<u8>>;

impl<'a> TableTensors<'a> {
    /// Opens the tensors of the table `spec`.
    pub(super) fn open(
        path: &Path,
        like: &Checkpoint,
        spec: &'a TableSpec,
        state: State,
    ) -> Result<Self, String> {
        let file = TensorReader::open(path)?;
        check_about(&file, like)?;
        let Some(rows) = file.rows("keys") else {
            return Err(file.wrong("has no tensor 'keys' with an entry for each row"));
        };
        let whole = Parts::of(spec, State::Kept).tensors(rows);
        file.refuse_others(|name| whole.iter().any(|tensor| tensor.name == name))?;
        let tensors = Parts::of(spec, state).tensors(rows);
        for (number, tensor) in tensors.iter().enumerate() {
            if number > 2 && !file.has(&tensor.name) {
                return Err(file.wrong(format_args!(
                    "has no tensor '{}': export with --state, or give --fresh-state",
                    tensor.name
                )));
            }
            let is_empty = tensor.shape.get(1) == Some(&0);
            if file.has(&tensor.name) || !is_empty {
                file.check(tensor)?;
            }
        }
        Ok(Self { file, spec, tensors, rows, step: like.step, state })
    }

    /// Bytes of the index of a store of its rows.
    pub(super) fn index_bytes(&self) -> u64 {
        index_bytes(self.rows, self.spec.row_bytes())
    }

    /// Puts all rows into `store`.
    pub(super) fn put_into(&self, store: &Store, stop: &StopRequest) -> Result<(), String> {
        let at_once = (BYTES_AT_ONCE / self.spec.row_bytes()).clamp(1, 4096) as u64;
        let mut progress = Counting::new("rows", Some(self.rows));
        let mut done = 0;
        let mut outcome = Ok(());
        while done < self.rows && outcome.is_ok() && !stop.is_made() {
            let count = at_once.min(self.rows - done);
            outcome = self.put_some(store, done, count as usize);
            done += count;
            progress.at(done);
        }
        progress.finish();
        outcome
    }

    /// Puts `count` rows, starting at row number `first`.
    fn put_some(&self, store: &Store, first: u64, count: usize) -> Result<(), String> {
        let columns = self.read(first, count)?;
        let keys: Vec<Key> = columns[0]
            .as_chunks::<8>()
            .0
            .iter()
            .map(|eight| Key(u64::from_le_bytes(*eight)).salted(self.spec.salt()))
            .collect();
        self.refuse_twice(store, first, &keys)?;
        let lanes = self.spec.row_lanes();
        let (mut rows, mut used) = (vec![0.0; count * lanes], Vec::with_capacity(count));
        for (at, (key, row)) in keys.iter().zip(rows.chunks_exact_mut(lanes)).enumerate() {
            let made = self.make(&columns, at, *key, row);
            made.map_err(|why| self.wrong_row(first + at as u64, *key, &why))?;
            used.push(self.spec.history(row).used);
        }
        let put = store.put_many(&keys, &used, bytemuck::cast_slice(&rows));
        put.map_err(|error| error.to_string())
    }

    /// The values of `count` rows from `first` on, by tensor.
    fn read(&self, first: u64, count: usize) -> Result<Columns, String> {
        let mut columns = Columns::new();
        for tensor in &self.tensors {
            let row = tensor.kind.bytes() * tensor.shape.get(1).copied().unwrap_or(1);
            let mut bytes = vec![0; count * row as usize];
            self.file.read(&tensor.name, first * row, &mut bytes)?;
            columns.push(bytes);
        }
        Ok(columns)
    }

    /// Refuses a key that already has a row.
    fn refuse_twice(&self, store: &Store, first: u64, keys: &[Key]) -> Result<(), String> {
        let mut order: Vec<usize> = (0..keys.len()).collect();
        order.sort_by_key(|at| (keys[*at], *at));
        let here = order.windows(2).find(|pair| keys[pair[0]] == keys[pair[1]]);
        let here = here.map(|pair| pair[1]);
        let twice = here.or_else(|| keys.iter().position(|key| store.contains(*key)));
        twice.map_or(Ok(()), |at| {
            Err(self.wrong_row(first + at as u64, keys[at], "the key occurs twice"))
        })
    }

    fn wrong_row(&self, number: u64, key: Key, why: &str) -> String {
        let key = key.salted(self.spec.salt()).0;
        self.file.wrong(format_args!("row {number} (key {key:016x}): {why}"))
    }

    /// Makes the row of `key` from entry `at` of the columns.
    fn make(&self, columns: &Columns, at: usize, key: Key, row: &mut [f32]) -> Result<(), String> {
        let spec = self.spec;
        spec.initial_row(key, row);
        let entry = |number: usize, lanes: usize| {
            columns[number][at * lanes * 4..][..lanes * 4].as_chunks::<4>().0
        };
        let weights = [(1, spec.dim), (2, spec.wide)];
        let weights = weights.into_iter().flat_map(|(number, lanes)| entry(number, lanes));
        let weights: Vec<f32> = weights.map(|four| f32::from_le_bytes(*four)).collect();
        weights.iter().try_for_each(|weight| check_value("weights", *weight))?;
        let end = spec.weight_lanes();
        // Values that 16 bits can represent stay the same.
        spec.storage.encode(&weights, &mut row[..end], spec.rounding(key, self.step));
        if self.state == State::Dropped {
            if spec.life.is_some() {
                let used = u32::try_from(self.step).unwrap_or(u32::MAX);
                History { used, ..History::default() }.write(&mut row[spec.model_lanes()..]);
            }
        } else {
            let mut lane = end;
            for (number, tensor) in self.tensors.iter().enumerate().skip(3) {
                let lanes = tensor.shape.get(1).copied().unwrap_or(1) as usize;
                for four in entry(number, lanes) {
                    let value = f32::from_le_bytes(*four);
                    if tensor.kind == Kind::F32 {
                        check_value(&tensor.name, value)?;
                    }
                    row[lane] = value;
                    lane += 1;
                }
            }
        }
        self.check_life(row)
    }

    /// Refuses a row that would not exist.
    fn check_life(&self, row: &[f32]) -> Result<(), String> {
        let (used, step) = (self.spec.history(row).used, self.step);
        if u64::from(used) > step {
            return Err(format!("its last use, step {used}, is after step {step}"));
        }
        if !self.spec.exists(row, step) {
            return Err(format!("last used at step {used}, it does not exist after step {step}"));
        }
        Ok(())
    }
}

/// Refuses a value that this part of a model cannot have.
pub(super) fn check_value(part: &str, value: f32) -> Result<(), String> {
    let is_square = ["sum", "exp_avg_sq", "variance"].contains(&part);
    if !value.is_finite() {
        return Err(format!("{value} in {part} is not a finite number"));
    }
    if is_square && value < 0.0 {
        return Err(format!("{value} in {part} is below 0, but it is made of squares"));
    }
    Ok(())
}
