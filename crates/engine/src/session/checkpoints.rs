//! Checkpoints of a session: rows, the state of its steps, and the caller's own bytes.
//!
//! - **How.** Mini-batches fed ahead are taken out untrained, the session pauses, the stores are
//!   snapshotted by links, and the mini-batches are fed again. Saving doesn't change a bit of the
//!   rows.
//! - **Format.** A [checkpoint](crate::Checkpoint) whose state ([`Checkpoint::run`]) has a field
//!   `session`. The caller's bytes are in a section of the dense part, four to a value.
//! - **Failure.** A checkpoint appears as a whole or not at all. A session whose checkpoint could
//!   not be written goes on.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use stepwell_base::owner::RankOf;
use stepwell_disk::{Disk, FileDisk};
use stepwell_mem::Cache;

use super::preparer::{Fed, Prepared};
use super::{Session, Tiers};
use crate::checkpoint::{Checkpoint, CheckpointWriter, Keep, Placement, list, prepare};
use crate::dense::{Dense, DenseView};
use crate::digest::ModelDigest;
use crate::hierarchy::Next;
use crate::mini_batch::MiniBatch;
use crate::request::Columns;
use crate::row_directory::DirectoryLock;
use crate::rows::Shape;
use crate::stages::{Ready, Retired};
use crate::table_spec::TableSpec;
use crate::working_set::Part;
use crate::{Error, Result};

/// Name of the section with the caller's bytes.
const EXTRA: &str = "session.extra";

/// Mini-batches that a session gave back untrained.
#[derive(Debug)]
pub struct Waiting(Vec<Prepared>);

/// A session's checkpoint.
#[derive(Debug)]
pub struct SavedSession {
    checkpoint: Checkpoint,
    /// The tables, with their last learning rates. Optimizers may change as long as their state has
    /// the same shape; nothing else may.
    pub tables: Vec<TableSpec>,
    /// The caller's own bytes.
    pub extra: Vec<u8>,
}

impl SavedSession {
    /// Opens a checkpoint, or the newest one in a directory of checkpoints. It may be one of the
    /// training pipeline, whose model isn't restored.
    ///
    /// # Errors
    /// If there is none, or it is damaged.
    pub fn open(path: &Path) -> Result<Self> {
        let checkpoint = Checkpoint::open(path)?;
        checkpoint.check_rows()?;
        let session = &checkpoint.run["session"];
        let tables = 0..checkpoint.tables();
        let mut tables =
            tables.map(|number| checkpoint.table(number)).collect::<Result<Vec<_>>>()?;
        let rates = session["lr"].as_array().map_or(&[][..], Vec::as_slice);
        for (table, lr) in tables.iter_mut().zip(rates) {
            let optimizer = lr.as_f64().map(|lr| table.optimizer.with_lr(lr));
            if let Some(optimizer) = optimizer.transpose().ok().flatten() {
                table.optimizer = optimizer;
            }
        }
        let bytes = session["extra_bytes"].as_u64().unwrap_or(0) as usize;
        let mut sections = checkpoint.dense.sections.iter();
        let extra = sections.find(|(name, _)| name == EXTRA).map(|(_, values)| values.as_slice());
        let extra = extra.unwrap_or_default().iter().flat_map(|value| value.to_le_bytes());
        let extra: Vec<u8> = extra.take(bytes).collect();
        if extra.len() < bytes {
            let why = format!("section '{EXTRA}' has fewer than {bytes} bytes");
            return Err(Error::Checkpoint { path: checkpoint.path, why });
        }
        Ok(Self { checkpoint, tables, extra })
    }

    /// Steps trained.
    pub fn step(&self) -> u64 {
        self.checkpoint.step
    }

    /// The checkpoint's directory.
    pub fn path(&self) -> &Path {
        &self.checkpoint.path
    }

    /// Refuses tables whose rows differ from the checkpoint's.
    fn check_tables(&self) -> Result<()> {
        let wrong = |why| Err(Error::Checkpoint { path: self.checkpoint.path.clone(), why });
        let saved = self.checkpoint.tables();
        if self.tables.len() != saved {
            return wrong(format!("has {saved} tables, not {}", self.tables.len()));
        }
        for (number, table) in self.tables.iter().enumerate() {
            let was = self.checkpoint.table(number)?;
            let (is, kept) = (table.optimizer.rule().name(), was.optimizer.rule().name());
            let same = TableSpec { optimizer: was.optimizer, ..table.clone() };
            if same != was || is != kept {
                return wrong(format!(
                    "table '{}' with {is} has other rows than table '{}' of the checkpoint with \
                     {kept}: change only the settings of its optimizer",
                    table.name, was.name
                ));
            }
        }
        Ok(())
    }
}

impl Session {
    /// Opens the tables of a checkpoint, whose fields go into `columns`, over `tiers`, with the
    /// checkpoint's rows. These are linked, not copied, if the stores are on its file system.
    ///
    /// # Errors
    /// Errors of [`Session::open`]; tables that are not the checkpoint's; damage.
    pub fn resume(
        saved: SavedSession,
        columns: Columns,
        shape: Shape,
        tiers: &Tiers,
    ) -> Result<Self> {
        saved.check_tables()?;
        let SavedSession { checkpoint, tables, .. } = saved;
        let mut session = Self::open_with(tables, columns, shape, tiers, Some(&checkpoint))?;
        let wrong = |why| Error::Checkpoint { path: checkpoint.path.clone(), why };
        let loaded = session.embeddings.load(&checkpoint.dense, checkpoint.step, RankOf::ALONE);
        loaded.map_err(wrong)?;
        session.hierarchy.groups().iter().for_each(|group| group.set_steps(checkpoint.step));
        if let Some(job) = checkpoint.run["job"].as_str() {
            job.clone_into(&mut session.job);
        }
        session.written = written_of(&checkpoint);
        Ok(session)
    }

    /// Saves the rows, the state of the steps and `extra`, the caller's own bytes, as a checkpoint
    /// in `directory`, where the newest `keep` of this session's checkpoints stay; returns its
    /// path. Ends the current mini-batch; mini-batches fed ahead stay fed.
    ///
    /// # Errors
    /// If `directory` is in use, cannot be written, has another run's checkpoints, or one of this
    /// step with other bytes: the session goes on. The error of a stage.
    pub fn save(&mut self, directory: &Path, keep: usize, extra: &[u8]) -> Result<PathBuf> {
        let disk: Arc<dyn Disk> = Arc::new(FileDisk::create(directory)?);
        let _lock = DirectoryLock::take(directory)?;
        let mut writer = self.writer(disk, keep, extra)?;
        self.at_rest(|session| session.write_checkpoint(&mut writer, extra))
    }

    /// A digest of all rows, the same as [`Session::finish`] returns. Reads every row and ends the
    /// current mini-batch; mini-batches fed ahead stay fed.
    ///
    /// # Errors
    /// The error of a stage, or of a store.
    pub fn digest(&mut self) -> Result<String> {
        self.at_rest(|session| {
            // Every row that memory has is in a store as well.
            let nothing = Cache::new(1, 1);
            let mut digest = ModelDigest::default();
            for group in session.hierarchy.groups() {
                group.digest(&nothing, &mut digest, &mut || Ok(()))?;
            }
            Ok(digest.finish(&DenseView::default()))
        })
    }

    /// Calls `work` while all rows are in their stores and nothing moves.
    fn at_rest<T>(&mut self, work: impl FnOnce(&Self) -> Result<T>) -> Result<T> {
        let waiting = self.drain()?;
        self.hierarchy.pause()?;
        let Some(Ready::Checkpoint(pause)) = self.hierarchy.ready()? else {
            unreachable!("a pause was requested last")
        };
        self.hierarchy.settle()?;
        let done = work(self);
        self.hierarchy.retire(Retired::Checkpoint(pause));
        self.feed_again(waiting)?;
        done
    }

    /// A writer of checkpoints of this session with `extra` on `disk`.
    fn writer(&self, disk: Arc<dyn Disk>, keep: usize, extra: &[u8]) -> Result<CheckpointWriter> {
        let refuse = |path: &Path, why: &str| {
            Err(Error::NoCheckpoint { path: path.to_owned(), why: why.to_owned() })
        };
        if let Some(newest) = prepare(&*disk, Placement::ResumeOrStart)? {
            let job = Checkpoint::open(&newest)?.run["job"].as_str().map(str::to_owned);
            if job.as_ref() != Some(&self.job) {
                let why = "holds checkpoints of another run: choose another directory";
                return refuse(disk.path(), why);
            }
        }
        let same = list(&*disk)?.into_iter().find(|(step, _)| *step == self.steps());
        if let Some((_, path)) = same {
            let saved = SavedSession::open(&path)?;
            let same_rows = written_of(&saved.checkpoint) == self.written;
            if !same_rows || saved.extra != extra {
                let differs = if same_rows { "another extra" } else { "other rows" };
                let why = format!(
                    "is of the same step and has {differs}: save after the next step, or choose \
                     another directory"
                );
                return refuse(&path, &why);
            }
        }
        CheckpointWriter::resume(disk, keep)
    }

    fn write_checkpoint(&self, writer: &mut CheckpointWriter, extra: &[u8]) -> Result<PathBuf> {
        let mut dense = Dense::default();
        self.embeddings.save(&mut dense, RankOf::ALONE);
        let four = |bytes: &[u8]| {
            let mut four = [0; 4];
            four[..bytes.len()].copy_from_slice(bytes);
            f32::from_le_bytes(four)
        };
        let values = extra.chunks(size_of::<f32>()).map(four).collect();
        dense.sections.push((EXTRA.to_owned(), values));
        let rates = self.embeddings.tables().iter().map(|table| table.optimizer.lr());
        let rates: Vec<Value> = rates.map(Value::from).collect();
        let session = json!({ "lr": rates, "extra_bytes": extra.len(), "written": self.written });
        let run = json!({ "job": self.job, "session": session });
        let dense = DenseView::from(dense);
        writer.write(self.steps(), &run, &dense, self.hierarchy.groups())
    }

    /// Ends the current mini-batch and takes out the mini-batches fed ahead, untrained, to make way
    /// for others, such as an evaluation. [`Session::feed_again`] feeds them again.
    ///
    /// # Errors
    /// The error of a stage.
    pub fn drain(&mut self) -> Result<Waiting> {
        let mut waiting = Vec::new();
        while let Next::Ready(()) = self.ready_within(Duration::MAX)? {
            let minis = self.out.iter().flat_map(|unit| &unit.minis);
            let spares = self.hierarchy.spares();
            waiting.extend(minis.map(|mini| Prepared(untrained(mini, spares.take()))));
        }
        self.embeddings.abandon();
        Ok(Waiting(waiting))
    }

    /// Ends the current mini-batch and feeds the mini-batches that were taken out, in their order.
    ///
    /// # Errors
    /// The error of a stage; no room for all of them.
    pub fn feed_again(&mut self, Waiting(waiting): Waiting) -> Result<()> {
        self.retire();
        waiting.into_iter().try_for_each(|mini| self.feed_prepared(mini))
    }
}

/// The random number of the last write by key before `checkpoint` was saved; 0 if there was none.
fn written_of(checkpoint: &Checkpoint) -> u64 {
    checkpoint.run["session"]["written"].as_u64().unwrap_or(0)
}

/// `mini` as it was fed, in the memory of `spare`, if there is one.
fn untrained(mini: &MiniBatch<Fed>, spare: Option<MiniBatch<Fed>>) -> MiniBatch<Fed> {
    let mut copy = spare.unwrap_or_else(|| MiniBatch {
        number: 0,
        purpose: mini.purpose,
        parts: mini.parts.iter().map(|_| Part::default()).collect(),
        cargo: Fed::default(),
    });
    copy.purpose = mini.purpose;
    for (copy, part) in copy.parts.iter_mut().zip(&mini.parts) {
        copy.request.clone_from(&part.request);
    }
    copy.cargo.clone_from(&mini.cargo);
    copy
}
