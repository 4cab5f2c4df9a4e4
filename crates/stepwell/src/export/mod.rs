//! `stepwell export`.
//!
//! A table is scanned twice: to count its rows, as shapes come before values, and to write them.
//! Only buffers and the store's index are in memory. The directory gets its name when it is
//! complete.

mod format;
mod ids;
mod npy;
mod parquet;
mod sink;
pub(crate) mod tensors;

use std::io;
use std::path::Path;

use serde_json::json;
use stepwell_base::stop::StopRequest;
use stepwell_base::{Key, counted};
use stepwell_engine::{Checkpoint, TableSpec};
use stepwell_settings as settings;
use stepwell_train::{DenseParts, ParameterSpec, RunState, dense_parts};

use self::sink::Sink;
use self::tensors::{Kind, Tensor};
use crate::cli::{ExportArgs, Format};
use crate::failure::Failure;
use crate::new_directory::{Folder, cannot_write};
use crate::progress::Counting;
use crate::say::{self, tell};
use crate::signals::Signals;
use crate::snapshots::{VisitRow, each_row, largest_index, largest_indexes_of_group, refuse_lack};

/// Sections of the dense part with a value for each parameter; other sections are counts, or
/// belong to rows.
pub(crate) const VECTORS: [&str; 6] =
    ["parameters", "velocity", "sum", "exp_avg", "exp_avg_sq", MEAN];
/// Section of the mean of the parameters, which predictions use.
pub(crate) const MEAN: &str = "ema";
/// Section of the model's state besides parameters, which predictions use.
pub(crate) const STATE: &str = "state";

/// Tensors in a section of the dense part; `None` if it is a count, belongs to rows, or has another
/// model's number of values.
pub(crate) fn tensors_of<'a>(
    parts: &'a DenseParts,
    (section, values): (&str, &[f32]),
) -> Option<&'a [ParameterSpec]> {
    let specs = match section {
        STATE => &parts.state,
        _ => &parts.parameters,
    };
    let is_known = section == STATE || VECTORS.contains(&section);
    let count = specs.last().map_or(0, |last| last.range.end);
    (is_known && values.len() == count).then_some(specs)
}

/// Writes a checkpoint as tensors.
pub(crate) fn run(args: &ExportArgs) -> Result<(), Failure> {
    let signals = Signals::heed()?;
    if args.json {
        say::aside();
    }
    let checkpoint = Checkpoint::open(&args.checkpoint)?;
    if !args.repaired {
        checkpoint.check_rows()?;
    }
    if let Some(ids) = &args.ids {
        refuse_lack(largest_indexes_of_group(&checkpoint))?;
        return ids::run(args, &checkpoint, ids, &signals);
    }
    // A format may copy the dense part.
    refuse_lack(largest_index(&checkpoint) + checkpoint.dense.bytes())?;
    let export = Export::of(args, &checkpoint, signals.stop())?;
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
        let (step, to) = (checkpoint.step, say::path(&args.to));
        return say::json(&json!({ "step": step, "rows": rows, "to": to, "state": args.state }));
    }
    tell!("step {}: {} in {}", checkpoint.step, counted(rows, "row"), args.to.display());
    Ok(())
}

struct Export<'a> {
    checkpoint: &'a Checkpoint,
    format: Format,
    state: State,
    /// Only rows trained after this step are written.
    since: Option<u64>,
    stop: StopRequest,
}

impl<'a> Export<'a> {
    fn of(
        args: &ExportArgs,
        checkpoint: &'a Checkpoint,
        stop: StopRequest,
    ) -> Result<Self, Failure> {
        let (since, format) = (args.since, args.format);
        let state = if args.state { State::Kept } else { State::Dropped };
        if let Some(since) = since {
            check_since(checkpoint, since)?;
        }
        Ok(Self { checkpoint, format, state, since, stop })
    }

    /// Writes everything into `folder`, but of a session only rows; returns their number.
    fn write(&self, folder: &Path) -> Result<u64, Failure> {
        if !self.checkpoint.is_of_session() {
            self.dense(&self.format.place(folder, "dense"))?;
        }
        let tables = 0..self.checkpoint.tables();
        tables.map(|number| self.table(number, folder)).sum()
    }

    fn dense(&self, path: &Path) -> Result<(), Failure> {
        let state = RunState::read(self.checkpoint)?;
        let config = settings::from_json(&state.config)?;
        let parts = dense_parts(&config)?;
        let sections = self.checkpoint.dense.sections.iter();
        let sections = sections.map(|(name, values)| (name.as_str(), values.as_slice()));
        let mut sections: Vec<(&str, &[f32])> =
            sections.filter(|section| tensors_of(&parts, *section).is_some()).collect();
        if sections.first().is_none_or(|(name, _)| *name != VECTORS[0]) {
            let path = self.checkpoint.path.display();
            let why = format!("{path}: its dense part does not match its settings");
            return Err(Failure::Damage(why));
        }
        if self.state == State::Dropped {
            let mean = sections.iter().find(|(name, _)| *name == MEAN);
            sections[0].1 = mean.unwrap_or(&sections[0]).1;
            sections.retain(|(name, _)| [VECTORS[0], STATE].contains(name));
        }
        let all = sections.iter().flat_map(|(name, values)| {
            let specs = tensors_of(&parts, (name, values)).unwrap_or_default();
            specs.iter().map(|spec| (Tensor::of_section(name, spec), &values[spec.range.clone()]))
        });
        let (tensors, values): (Vec<Tensor>, Vec<&[f32]>) = all.unzip();
        let config = ("config", self.checkpoint.run["config"].to_string());
        let about = [self.about(), vec![config]].concat();
        let fail = |error: io::Error| cannot_write(path, &error);
        let mut file = self.format.dense(path, &tensors, &about).map_err(fail)?;
        for (tensor, values) in values.into_iter().enumerate() {
            file.put(tensor, bytemuck::cast_slice(values)).map_err(fail)?;
        }
        Ok(file.finish().map_err(fail)?)
    }

    /// Texts about all tensors.
    fn about(&self) -> Vec<(&'static str, String)> {
        let since = self.since.map(|since| ("since", since.to_string()));
        [("step", self.checkpoint.step.to_string())].into_iter().chain(since).collect()
    }

    fn table(&self, number: usize, folder: &Path) -> Result<u64, Failure> {
        let spec = self.checkpoint.table(number)?;
        let (mut rows, mut counting) = (0, Counting::new("rows counted", None));
        let counted = self.each_row(number, &spec, &mut |_, _| {
            rows += 1;
            counting.at(rows);
            Ok(())
        });
        counting.finish();
        counted?;
        let parts = Parts::of(&spec, self.state);
        let path = self.format.place(folder, &format!("table-{}", spec.name));
        let fail = |error: io::Error| cannot_write(&path, &error);
        let meta = &self.checkpoint.meta;
        let text = |field: &str| meta[field].as_str().unwrap_or_default().to_owned();
        let about = vec![
            ("table", meta["tables"][number].to_string()),
            ("key_hash", text("key_hash")),
            ("initial_values", text("initial_values")),
        ];
        let about = [self.about(), about].concat();
        let mut file = self.format.table(&path, &parts.tensors(rows), &about).map_err(fail)?;
        let (mut progress, mut written) = (Counting::new("rows", Some(rows)), 0);
        let outcome = self.each_row(number, &spec, &mut |key, row| {
            written += 1;
            progress.at(written);
            Ok(parts.put(&mut *file, key, row).map_err(fail)?)
        });
        progress.finish();
        outcome?;
        file.finish().map_err(fail)?;
        Ok(rows)
    }

    /// Visits the rows of a table to write, with their keys.
    fn each_row(
        &self,
        number: usize,
        spec: &TableSpec,
        visit: &mut VisitRow<'_>,
    ) -> Result<(), Failure> {
        let since = self.since.unwrap_or(0);
        each_row(self.checkpoint, number, spec, &self.stop, &mut |key, row| {
            let is_wanted = since == 0 || u64::from(spec.history(row).used) > since;
            if is_wanted { visit(key, row) } else { Ok(()) }
        })
    }
}

/// Refuses a step after the checkpoint's, and tables whose rows have no history.
fn check_since(checkpoint: &Checkpoint, since: u64) -> Result<(), Failure> {
    if since > checkpoint.step {
        let step = checkpoint.step;
        let why = format!("--since {since}: the checkpoint is of step {step}, before that");
        return Err(Failure::Usage(why));
    }
    for number in 0..checkpoint.tables() {
        let spec = checkpoint.table(number)?;
        if spec.life.is_none() {
            return Err(Failure::Usage(format!(
                "--since {since}: the rows of table '{}' do not say when they were trained: train \
                 with rows.history = true, or export all rows",
                spec.name
            )));
        }
    }
    Ok(())
}

impl Tensor {
    /// A tensor of a section of the dense part.
    pub(crate) fn of_section(section: &str, spec: &ParameterSpec) -> Self {
        let name = match section {
            STATE | "parameters" => dotted(&spec.name),
            other => format!("{}.{other}", dotted(&spec.name)),
        };
        let shape = spec.shape.iter().map(|extent| *extent as u64).collect();
        Self { name, kind: Kind::F32, shape }
    }
}

/// Converts `mlp1/weight` to the usual notation `mlp1.weight`.
pub(crate) fn dotted(name: &str) -> String {
    name.replace('/', ".")
}

/// Treatment of optimizer state and row histories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Exported or imported with the weights.
    Kept,
    /// Left out; training of an imported model starts with fresh state.
    Dropped,
}

/// The parts of a row that are exported or imported.
pub(crate) struct Parts<'a> {
    spec: &'a TableSpec,
    /// Parts after the weights: name, lanes, kind.
    pub(crate) rest: Vec<(&'static str, usize, Kind)>,
}

impl<'a> Parts<'a> {
    pub(crate) fn of(spec: &'a TableSpec, state: State) -> Self {
        let rest = spec.parts();
        let rest = rest.iter().skip(1).filter(|part| state == State::Kept && part.name != "tag");
        let kind = |holds| if holds == "u32" { Kind::U32 } else { Kind::F32 };
        Self { spec, rest: rest.map(|part| (part.name, part.lanes, kind(part.holds))).collect() }
    }

    /// The tensors of this many rows, one for each part; the weights have two, one for embeddings
    /// and one for first-order weights.
    pub(crate) fn tensors(&self, rows: u64) -> Vec<Tensor> {
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
    fn put(&self, file: &mut dyn Sink, key: Key, row: &[f32]) -> io::Result<()> {
        file.put(0, &key.0.to_le_bytes())?;
        let mut weights = vec![0.0f32; self.spec.weight_count()];
        self.spec.weights(row).copy_to(&mut weights);
        let (embedding, first_order) = weights.split_at(self.spec.dim);
        file.put(1, bytemuck::cast_slice(embedding))?;
        file.put(2, bytemuck::cast_slice(first_order))?;
        let mut at = self.spec.weight_lanes();
        for (number, (_, lanes, _)) in self.rest.iter().enumerate() {
            // Lanes of u32 have the number's bits.
            file.put(3 + number, bytemuck::cast_slice(&row[at..at + lanes]))?;
            at += lanes;
        }
        Ok(())
    }
}
