//! `stepwell export`.
//!
//! A table is scanned twice: for how many rows it has, which every shape begins with, and for the
//! rows. No more of it is in memory than buffers and the store's index. The directory has its name
//! once all is in it.

mod tensors;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::json;
use stepwell_base::stop::StopRequest;
use stepwell_base::{Key, counted, mend};
use stepwell_engine::{Checkpoint, TableSpec};
use stepwell_settings as settings;
use stepwell_train::{ParameterSpec, RunState, dense_parameters};

use self::tensors::{Kind, Tensor, TensorFile};
use crate::cli::ExportArgs;
use crate::failure::Failure;
use crate::progress::Counting;
use crate::say::{self, tell};
use crate::signals::Signals;
use crate::snapshots::{lanes, open};

/// Rows between two looks at whether somebody asked to stop.
const ROWS_BETWEEN: u64 = 4096;

/// Sections of the dense part that have a value for each parameter; others are counts, or of rows.
const VECTORS: [&str; 4] = ["parameters", "sum", "exp_avg", "exp_avg_sq"];

/// Writes what a checkpoint holds as tensors.
pub(crate) fn run(args: &ExportArgs) -> Result<(), Failure> {
    let signals = Signals::heed()?;
    if args.json {
        say::aside();
    }
    let checkpoint = Checkpoint::open(&args.checkpoint).map_err(|error| error.to_string())?;
    if !args.repaired {
        checkpoint.check_rows().map_err(|error| error.to_string())?;
    }
    let export = Export { checkpoint: &checkpoint, state: args.state, stop: signals.stop() };
    let folder = Folder::begin(&args.to)?;
    let rows = export.write(&folder.unfinished);
    if signals.stop().is_made() {
        return Err(
            signals.interrupted(format!("interrupted: nothing is left of {}", folder.name()))
        );
    }
    let rows = rows?;
    folder.finish()?;
    if args.json {
        let (step, to) = (checkpoint.step, &args.to);
        return say::json(&json!({ "step": step, "rows": rows, "to": to, "state": args.state }));
    }
    tell!("step {}: {} in {}", checkpoint.step, counted(rows, "row"), args.to.display());
    Ok(())
}

/// What is done with the row of a key.
type Visit<'a> = dyn FnMut(Key, &[f32]) -> Result<(), String> + 'a;

struct Export<'a> {
    checkpoint: &'a Checkpoint,
    state: bool,
    stop: StopRequest,
}

impl Export<'_> {
    /// Writes all of it into `folder`; gives how many rows there are.
    fn write(&self, folder: &Path) -> Result<u64, String> {
        self.dense(&folder.join("dense.safetensors"))?;
        let tables = 0..self.checkpoint.tables();
        tables.map(|number| self.table(number, folder)).sum()
    }

    fn dense(&self, path: &Path) -> Result<(), String> {
        let state = RunState::read(self.checkpoint).map_err(|error| error.to_string())?;
        let config = settings::from_json(&state.config)?;
        let parameters = dense_parameters(&config).map_err(|error| error.to_string())?;
        let count = parameters.last().map_or(0, |last| last.range.end);
        let sections = self.checkpoint.dense.sections.iter();
        let sections = sections
            .filter(|(name, values)| VECTORS.contains(&name.as_str()) && values.len() == count);
        let sections: Vec<_> = sections.take(if self.state { usize::MAX } else { 1 }).collect();
        if sections.first().is_none_or(|(name, _)| name != "parameters") {
            let path = self.checkpoint.path.display();
            return Err(format!("{path}: its dense part is not that of its settings"));
        }
        let of_section = |section: &str, parameter: &ParameterSpec| Tensor {
            name: match section {
                "parameters" => dotted(&parameter.name),
                state => format!("{}.{state}", dotted(&parameter.name)),
            },
            kind: Kind::F32,
            shape: parameter.shape.iter().map(|extent| *extent as u64).collect(),
        };
        let tensors: Vec<Tensor> = sections
            .iter()
            .flat_map(|(name, _)| parameters.iter().map(|parameter| of_section(name, parameter)))
            .collect();
        let about = [
            ("step", self.checkpoint.step.to_string()),
            ("config", self.checkpoint.run["config"].to_string()),
        ];
        let fail = |error: io::Error| cannot_write(path, &error);
        let mut file = TensorFile::create(path, &tensors, &about).map_err(fail)?;
        let all = sections.iter().flat_map(|(_, values)| {
            parameters.iter().map(|parameter| &values[parameter.range.clone()])
        });
        for (tensor, values) in all.enumerate() {
            file.put(tensor, bytemuck::cast_slice(values)).map_err(fail)?;
        }
        file.finish().map_err(fail)
    }

    fn table(&self, number: usize, folder: &Path) -> Result<u64, String> {
        let spec = self.checkpoint.table(number).map_err(|error| error.to_string())?;
        let (mut rows, mut counting) = (0, Counting::new("rows counted", None));
        let counted = self.each_row((number, &spec), &mut |_, _| {
            rows += 1;
            counting.at(rows);
            Ok(())
        });
        counting.finish();
        counted?;
        let parts = Parts::of(&spec, self.state);
        let path = folder.join(format!("table-{}.safetensors", spec.name));
        let fail = |error: io::Error| cannot_write(&path, &error);
        let meta = &self.checkpoint.meta;
        let text = |field: &str| meta[field].as_str().unwrap_or_default().to_owned();
        let about = [
            ("step", self.checkpoint.step.to_string()),
            ("table", meta["tables"][number].to_string()),
            ("key_hash", text("key_hash")),
            ("initial_values", text("initial_values")),
        ];
        let mut file = TensorFile::create(&path, &parts.tensors(rows), &about).map_err(fail)?;
        let (mut progress, mut written) = (Counting::new("rows", Some(rows)), 0);
        let outcome = self.each_row((number, &spec), &mut |key, row| {
            written += 1;
            progress.at(written);
            parts.put(&mut file, key, row).map_err(fail)
        });
        progress.finish();
        outcome?;
        file.finish().map_err(fail)?;
        Ok(rows)
    }

    /// Visits the rows of a table that exist, with their keys.
    fn each_row(
        &self,
        (number, spec): (usize, &TableSpec),
        visit: &mut Visit<'_>,
    ) -> Result<(), String> {
        let (mut failed, mut seen) = (None, 0);
        for rows in self.checkpoint.rows_of(number).map_err(|error| error.to_string())? {
            let (store, _) = open(&rows.path)?;
            let scanned = store.scan_live(&mut |key, _used, row| {
                seen += 1;
                if seen % ROWS_BETWEEN == 0 && self.stop.is_made() {
                    return Err(stepwell_ssd::Error::Stopped);
                }
                let row = lanes(row);
                if !spec.owns(&row) || !spec.exists(&row, self.checkpoint.step) {
                    return Ok(());
                }
                visit(key.salted(spec.salt()), &row).map_err(|why| {
                    failed = Some(why);
                    stepwell_ssd::Error::Stopped
                })
            });
            if let Some(why) = failed {
                return Err(why);
            }
            scanned.map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

/// `mlp1/weight` as others have it: `mlp1.weight`.
fn dotted(name: &str) -> String {
    name.replace('/', ".")
}

/// What of a row is written, and where it lies.
struct Parts<'a> {
    spec: &'a TableSpec,
    /// Lanes behind the weights: name, lanes, what they are.
    rest: Vec<(&'static str, usize, Kind)>,
}

impl<'a> Parts<'a> {
    fn of(spec: &'a TableSpec, state: bool) -> Self {
        let rest = spec.parts();
        let rest = rest.iter().skip(1).filter(|part| state && part.name != "tag");
        let kind = |holds| if holds == "u32" { Kind::U32 } else { Kind::F32 };
        Self { spec, rest: rest.map(|part| (part.name, part.lanes, kind(part.holds))).collect() }
    }

    /// The tensors of so many rows. Those of the weights have each its own.
    fn tensors(&self, rows: u64) -> Vec<Tensor> {
        let tensor = |name: &str, kind, lanes: Option<usize>| Tensor {
            name: name.to_owned(),
            kind,
            shape: [rows].into_iter().chain(lanes.map(|lanes| lanes as u64)).collect(),
        };
        let mut tensors = vec![
            tensor("keys", Kind::U64, None),
            tensor("embedding", Kind::F32, Some(self.spec.dim)),
            tensor("first_order", Kind::F32, Some(self.spec.wide)),
        ];
        let rest = self.rest.iter();
        tensors.extend(rest.map(|(name, lanes, kind)| tensor(name, *kind, Some(*lanes))));
        tensors
    }

    /// Adds a row.
    fn put(&self, file: &mut TensorFile, key: Key, row: &[f32]) -> io::Result<()> {
        file.put(0, &key.0.to_le_bytes())?;
        let mut weights = vec![0.0f32; self.spec.weight_count()];
        self.spec.weights(row).copy_to(&mut weights);
        let (embedding, first_order) = weights.split_at(self.spec.dim);
        file.put(1, bytemuck::cast_slice(embedding))?;
        file.put(2, bytemuck::cast_slice(first_order))?;
        let mut at = self.spec.weight_lanes();
        for (number, (_, lanes, _)) in self.rest.iter().enumerate() {
            // Numbers of 32 bits lie in lanes as their bits.
            file.put(3 + number, bytemuck::cast_slice(&row[at..at + lanes]))?;
            at += lanes;
        }
        Ok(())
    }
}

fn cannot_write(path: &Path, why: &io::Error) -> String {
    format!("cannot write {}: {why}{}", path.display(), mend(why))
}

/// A directory that is being filled; dropped before it is finished it leaves nothing.
struct Folder {
    unfinished: PathBuf,
    target: PathBuf,
}

impl Folder {
    /// Begins the directory that will be at `target`, where there is nothing yet.
    fn begin(target: &Path) -> Result<Self, String> {
        let fail = |why: &str| Err(format!("--to {}: {why}", target.display()));
        if target.symlink_metadata().is_ok() {
            return fail("is there already: name a directory to make");
        }
        let Some(name) = target.file_name() else {
            return fail("name a directory to make");
        };
        let name = format!(".{}.unfinished-{}", name.to_string_lossy(), std::process::id());
        let unfinished = target.with_file_name(name);
        match fs::create_dir(&unfinished) {
            Ok(()) => Ok(Self { unfinished, target: target.to_owned() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fail("there is no directory to make it in: make that first")
            }
            Err(error) => fail(&format!("cannot be made: {error}{}", mend(&error))),
        }
    }

    fn name(&self) -> String {
        self.target.display().to_string()
    }

    /// Gives it its name.
    fn finish(self) -> Result<(), String> {
        fs::rename(&self.unfinished, &self.target)
            .map_err(|error| cannot_write(&self.target, &error))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Nothing is there once it has its name; and nobody is left to be told.
        let _ = fs::remove_dir_all(&self.unfinished);
    }
}
