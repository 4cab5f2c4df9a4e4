//! `export --ids`: the embeddings of given ids, as records of an id and its numbers.

use std::path::{Path, PathBuf};

use serde_json::json;
use stepwell_base::{Key, counted};
use stepwell_data::{Layout, Texts};
use stepwell_engine::{Checkpoint, DEFAULT_TABLE, TableSpec, lanes, open_rows};
use stepwell_settings::{self as settings, Config};
use stepwell_ssd::View;
use stepwell_train::RunState;

use crate::cli::ExportArgs;
use crate::failure::Failure;
use crate::outputs;
use crate::record_file::{RecordFile, check_name};
use crate::say::{self, tell};
use crate::signals::Signals;

/// Ids per look-up.
const IDS_AT_ONCE: usize = 4096;

/// Writes the embeddings of the ids in the file `ids`.
pub(super) fn run(
    args: &ExportArgs,
    checkpoint: &Checkpoint,
    ids: &Path,
    signals: &Signals,
) -> Result<(), Failure> {
    check_name("--to", &args.to).map_err(Failure::Usage)?;
    let inputs: Vec<PathBuf> = vec![ids.to_owned(), checkpoint.path.clone()];
    outputs::check(&[("--to", Some(&args.to))], &inputs)?;
    let config = settings::from_json(&RunState::read(checkpoint)?.config)?;
    let layout = config.named_layout()?;
    let (column, mut texts) = texts_of(ids, args.column.as_deref(), &layout)?;
    let table = table_of(&config, &layout, column, args.table.as_deref());
    let table = table.map_err(Failure::Usage)?;
    let rows = RowsOf::open(checkpoint, &table)?;
    let name = layout.id_names()[column].0.to_owned();
    let mut file = RecordFile::begin(Some(&args.to), std::slice::from_ref(&name), &rows.columns())?;
    let (mut block, mut written, mut initial) = (Vec::new(), 0u64, 0u64);
    while texts.next(&mut block).map_err(|error| format!("--ids {error}"))? {
        for ids in block.chunks(IDS_AT_ONCE) {
            if signals.stop().is_made() {
                let line = format!("interrupted: nothing is left in {}", args.to.display());
                return Err(signals.interrupted(line));
            }
            let key = |id: &Vec<u8>| layout.key_of(column, id);
            let keys: Option<Vec<Key>> = ids.iter().map(key).collect();
            let keys = keys.ok_or_else(|| made_of_others(&name)).map_err(Failure::Usage)?;
            for (id, (weights, is_initial)) in ids.iter().zip(rows.of(&keys)?) {
                if file.is_parquet() && str::from_utf8(id).is_err() {
                    let why = "an id is not UTF-8, which Parquet requires: write CSV";
                    return Err(format!("--ids {}: {why}", args.to.display()).into());
                }
                written += 1;
                initial += u64::from(is_initial);
                let marked = [f32::from(u8::from(is_initial))].into_iter().chain(weights);
                file.put(vec![id.clone()], marked).map_err(|why| file.cannot_write(why))?;
            }
        }
        block.clear();
    }
    file.finish()?;
    let step = checkpoint.step;
    if args.json {
        return say::json(&json!({
            "step": step,
            "column": name,
            "table": table,
            "ids": written,
            "initial": initial,
            "to": say::path(&args.to),
        }));
    }
    let (ids, to) = (counted(written, "id"), args.to.display());
    tell!("step {step}: {ids} of {name} in {to}, {initial} of them without a row");
    Ok(())
}

/// The number of the id column of a file's ids, and their texts. The column is the one with this
/// name, or the file's only one.
fn texts_of(path: &Path, column: Option<&str>, layout: &Layout) -> Result<(usize, Texts), Failure> {
    let known: Vec<&str> = layout.id_names().into_iter().map(|(name, _)| name).collect();
    let number = |name: &str| known.iter().position(|known| *known == name);
    let names = known.join(", ");
    let open = |name: &str, header| {
        Texts::open_alone(path, name, header)
            .map_err(|error| Failure::Error(format!("--ids {error}")))
    };
    if let Some(name) = column {
        let number = number(name).ok_or_else(|| {
            Failure::Usage(format!("--column {name}: is not an id column: there are {names}"))
        })?;
        // If the first line does not name the column, all lines are ids.
        let header = if has_column(path, name) { None } else { Some(false) };
        return Ok((number, open(name, header)?));
    }
    let found: Vec<&str> = known.iter().copied().filter(|name| has_column(path, name)).collect();
    match found.as_slice() {
        // A file that cannot be read has its own error.
        [] => open(known.first().copied().unwrap_or_default(), Some(false)).and_then(|_| {
            Err(Failure::Usage(format!(
                "--ids {}: has no id column of the model ({names}): name the column in its first \
                 line, or with --column",
                path.display()
            )))
        }),
        [name] => Ok((number(name).unwrap_or_default(), open(name, None)?)),
        several => Err(Failure::Usage(format!(
            "--ids {}: has {}: name one with --column",
            path.display(),
            several.join(", ")
        ))),
    }
}

/// Whether a file names this column.
fn has_column(path: &Path, name: &str) -> bool {
    Texts::open_alone(path, name, None).is_ok_and(|mut texts| texts.next(&mut Vec::new()).is_ok())
}

/// The table with the rows of id column number `column`: the one with this name, or the only one.
fn table_of(
    config: &Config,
    layout: &Layout,
    column: usize,
    table: Option<&str>,
) -> Result<String, String> {
    let mut tables: Vec<String> = Vec::new();
    for feature in &config.features {
        if feature.columns_in(Some(layout))?.contains(&column) && !tables.contains(&feature.table) {
            tables.push(feature.table.clone());
        }
    }
    if config.features.is_empty() {
        tables.push(DEFAULT_TABLE.to_owned());
    }
    let name = layout.id_names()[column].0;
    let all = tables.join(", ");
    match (table, tables.as_slice()) {
        (_, []) => Err(format!("--ids: no table has rows for column {name}")),
        (Some(table), tables) if tables.iter().any(|one| one == table) => Ok(table.to_owned()),
        (Some(table), _) => {
            Err(format!("--table {table}: has no rows for column {name}, which {all} has"))
        }
        (None, [table]) => Ok(table.clone()),
        (None, _) => Err(format!("--ids: column {name} has rows in {all}: name one with --table")),
    }
}

fn made_of_others(name: &str) -> String {
    format!(
        "--ids: ids of column {name} are hashed, or made from a number or several columns, not \
         from one text: `stepwell export` without --ids writes all rows"
    )
}

/// The rows of a table.
struct RowsOf {
    spec: TableSpec,
    /// One store of each rank that wrote the checkpoint.
    stores: Vec<View>,
    step: u64,
}

impl RowsOf {
    fn open(checkpoint: &Checkpoint, table: &str) -> Result<Self, Failure> {
        for number in 0..checkpoint.tables() {
            let spec = checkpoint.table(number)?;
            if spec.name == table {
                let rows = checkpoint.rows_of(number)?;
                let stores = rows.iter().map(|rows| Ok(open_rows(&rows.path)?.0));
                let stores = stores.collect::<Result<_, Failure>>()?;
                return Ok(Self { spec, stores, step: checkpoint.step });
            }
        }
        let path = checkpoint.path.display();
        Err(Failure::Damage(format!("{path}: has no table '{table}', which its settings name")))
    }

    /// Names of a record's numbers.
    fn columns(&self) -> Vec<String> {
        let embedding = (0..self.spec.dim).map(|lane| format!("embedding_{lane}"));
        let first_order = (self.spec.wide > 0).then(|| "first_order".to_owned());
        ["initial".to_owned()].into_iter().chain(embedding).chain(first_order).collect()
    }

    /// The weights of each key, and whether they are initial because the key has no row.
    fn of(&self, keys: &[Key]) -> Result<Vec<(Vec<f32>, bool)>, Failure> {
        let count = self.spec.weight_count();
        let mut weights: Vec<Option<Vec<f32>>> = vec![None; keys.len()];
        let salted: Vec<Key> = keys.iter().map(|key| key.salted(self.spec.salt())).collect();
        let bytes = self.spec.row_bytes();
        let (mut rows, mut found) = (vec![0; keys.len() * bytes], vec![false; keys.len()]);
        for store in &self.stores {
            store.get_many(&salted, &mut rows, &mut found)?;
            for (at, row) in rows.chunks_exact(bytes).enumerate().filter(|(at, _)| found[*at]) {
                let row = lanes(row);
                if self.spec.owns(&row) && self.spec.exists(&row, self.step) {
                    let mut of_row = vec![0.0; count];
                    self.spec.weights(&row).copy_to(&mut of_row);
                    weights[at] = Some(of_row);
                }
            }
        }
        let or_initial = |(weights, key): (Option<Vec<f32>>, &Key)| match weights {
            Some(weights) => (weights, false),
            None => {
                let mut initial = vec![0.0; count];
                self.spec.initial_weights(*key, &mut initial);
                (initial, true)
            }
        };
        Ok(weights.into_iter().zip(&salted).map(or_initial).collect())
    }
}
