//! `stepwell import`: a checkpoint from tensors, the inverse of `stepwell export`.
//!
//! - **How.** Another checkpoint supplies what tensors lack: settings, position in the data,
//!   meaning of rows, and the state of admission and stale reads. Rows go into a new store, whose
//!   snapshot becomes the checkpoint's, as in a run. The directory gets its name when it is
//!   complete.
//! - **Bounds.** The index of a store, about eleven bytes per row; its buffers; 2 MiB of rows; the
//!   dense part.

mod dense;
mod origin;
mod reader;
mod rows;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use stepwell_base::counted;
use stepwell_base::stop::StopRequest;
use stepwell_disk::FileDisk;
use stepwell_engine::{
    Checkpoint, CheckpointWriter, Group, GroupTables, Keep as _, Staging, TableSpec,
};
use stepwell_settings::{self as settings, TierConfig};
use stepwell_ssd::{Compaction, Manifest, Store, StoreOptions};
use stepwell_train::RunState;

use self::rows::TableTensors;
use crate::cli::ImportArgs;
use crate::export::State;
use crate::failure::Failure;
use crate::new_directory::{Folder, cannot_write};
use crate::say::{self, tell};
use crate::signals::Signals;
use crate::snapshots::refuse_lack;

/// Makes a checkpoint from tensors.
pub(crate) fn run(args: &ImportArgs) -> Result<(), Failure> {
    let signals = Signals::heed()?;
    if args.json {
        say::aside();
    }
    if !args.tensors.is_dir() {
        let why = "is not a directory: name one that `stepwell export` wrote";
        return Err(Failure::Usage(format!("{} {why}", args.tensors.display())));
    }
    let like = Checkpoint::open(&args.like)?;
    let folder = Folder::begin(&args.to)?;
    let import = Import {
        like: &like,
        tensors: &args.tensors,
        state: if args.fresh_state { State::Dropped } else { State::Kept },
        stop: signals.stop(),
    };
    let rows = import.make(&folder.unfinished);
    if signals.stop().is_made() {
        let line = format!("interrupted: nothing is left of {}", folder.name());
        return Err(signals.interrupted(line));
    }
    let rows = rows?;
    folder.finish()?;
    if args.json {
        return say::json(&json!({ "step": like.step, "rows": rows, "to": say::path(&args.to) }));
    }
    tell!("step {}: {} in {}", like.step, counted(rows, "row"), args.to.display());
    Ok(())
}

struct Import<'a> {
    like: &'a Checkpoint,
    tensors: &'a Path,
    state: State,
    stop: StopRequest,
}

impl Import<'_> {
    /// Makes the checkpoint in `folder`; returns its number of rows.
    fn make(&self, folder: &Path) -> Result<u64, Failure> {
        let dense = dense::read(&self.path("dense"), self.like, self.state)?;
        let tables: Result<Vec<TableSpec>, _> =
            (0..self.like.tables()).map(|number| self.like.table(number)).collect();
        let tables = tables?;
        self.refuse_others(&tables)?;
        // All tensors are checked before the first row is written.
        let open = tables.iter().map(|spec| {
            let path = self.path(&format!("table-{}", spec.name));
            TableTensors::open(&path, self.like, spec, self.state)
        });
        let tensors = open.collect::<Result<Vec<_>, _>>()?;
        let index = tensors.iter().map(|tensors| tensors.index_bytes());
        refuse_lack(index.fold(dense.bytes(), u64::saturating_add))?;
        let rows = folder.join(".rows");
        let mut groups = Vec::new();
        for members in self.groups(&tables)? {
            let disk = FileDisk::create(&rows.join(groups.len().to_string()));
            let disk = Arc::new(disk?);
            groups.push(Arc::new(self.group(&tables, &tensors, members, disk)?));
            if self.stop.is_made() {
                return Ok(0);
            }
        }
        let disk = Arc::new(FileDisk::open(folder)?);
        let mut writer = CheckpointWriter::new(disk, 1);
        let Checkpoint { step, run, .. } = self.like;
        writer.write(*step, run, &dense.view(), &groups)?;
        drop(groups);
        fs::remove_dir_all(&rows).map_err(|error| cannot_write(&rows, &error))?;
        Ok(tensors.iter().map(|tensors| tensors.rows).sum())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.tensors.join(format!("{name}.safetensors"))
    }

    /// Refuses tensors of tables that the checkpoint `like` does not have.
    fn refuse_others(&self, tables: &[TableSpec]) -> Result<(), String> {
        for entry in fs::read_dir(self.tensors).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let table = name.strip_prefix("table-").and_then(|n| n.strip_suffix(".safetensors"));
            if table.is_some_and(|table| tables.iter().all(|spec| spec.name != table)) {
                let (path, like) = (entry.path(), self.like.path.display());
                return Err(format!("{}: {like} has no such table", path.display()));
            }
        }
        Ok(())
    }

    /// The tables that share a store, as in the checkpoint `like`.
    fn groups(&self, tables: &[TableSpec]) -> Result<Vec<GroupTables>, Failure> {
        let mut groups: Vec<GroupTables> = Vec::new();
        for number in 0..tables.len() {
            let rows = self.like.rows_of(number)?;
            let group = rows.first().map_or(0, |rows| rows.group);
            match groups.get_mut(group) {
                Some(group) => group.tables.push(number),
                None => groups.push(GroupTables::alone(number)),
            }
        }
        for GroupTables { tables: members, .. } in &groups {
            let of = |number: &usize| &tables[*number];
            let alike = |pair: &[usize]| {
                let (a, b) = (of(&pair[0]), of(&pair[1]));
                a.may_share(b) && a.shared && b.shared
            };
            if !members.windows(2).all(alike) {
                let path = self.like.path.display();
                let why = format!("{path}: tables with other rows share a store: it is damaged");
                return Err(Failure::Damage(why));
            }
        }
        Ok(groups)
    }

    /// The rows of a table group.
    fn group(
        &self,
        tables: &[TableSpec],
        tensors: &[TableTensors<'_>],
        members: GroupTables,
        disk: Arc<FileDisk>,
    ) -> Result<Group, Failure> {
        let spec = &tables[members.tables[0]];
        let rows = members.tables.iter().map(|number| tensors[*number].rows).sum();
        // The same page size as before, so that a resumed run keeps its sizes.
        let page_bytes = self.page_bytes(members.tables[0]);
        let options = StoreOptions {
            page_bytes,
            segment_bytes: self.segment_bytes(rows, spec.row_bytes(), page_bytes),
            index_bytes_max: u64::MAX,
            rows_hint: rows,
            compaction: Compaction::Inline,
            stop: self.stop.clone(),
            ..StoreOptions::new(spec.id.0, spec.row_bytes())
        };
        let store = Store::create(disk, options)?;
        for number in &members.tables {
            tensors[*number].put_into(&store, &self.stop)?;
        }
        let staging = Staging::new(spec.row_lanes(), 1, 1);
        let group = Group::of(tables, members, 1, Arc::new(store), staging);
        let group = group?;
        group.set_steps(self.like.step.min(spec.steps_max()));
        Ok(group)
    }

    /// The length of segments: the run's, or what this many rows take if that is less, because a
    /// whole segment's space is allocated at once.
    fn segment_bytes(&self, rows: u64, row_bytes: usize, page_bytes: usize) -> u64 {
        let config = RunState::read(self.like).map_err(|error| error.to_string());
        let config = config.and_then(|state| settings::from_json(&state.config));
        let of_run = config.ok().and_then(|config| config.tiers.segment);
        let of_run = of_run.unwrap_or(TierConfig::SEGMENT).0;
        let row = row_bytes.max(page_bytes).next_multiple_of(4096) as u64;
        // Heads of rows and pages, the footer, and a few pages to spare.
        let enough = rows.saturating_mul(row_bytes as u64 + 64).saturating_add(8 * row + (1 << 20));
        // The bound exceeds any segment, and rounding up cannot overflow.
        of_run.min(enough.min(1 << 40).next_multiple_of(4096))
    }

    /// The page size of a table's store; 0, the default for its rows, if it cannot be read.
    fn page_bytes(&self, table: usize) -> usize {
        let rows = self.like.rows_of(table).ok().and_then(|rows| rows.first());
        let disk = rows.and_then(|rows| FileDisk::open(&rows.path).ok());
        let manifest = disk.and_then(|disk| Manifest::load(&disk).ok());
        manifest.map_or(0, |manifest| manifest.page_bytes as usize)
    }
}
