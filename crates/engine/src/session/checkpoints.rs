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
use crate::checkpoint::{
    Checkpoint, CheckpointWriter, Keep, KeptPart, ModelPart, Placement, WholeModel, list, prepare,
};
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
        let loaded = session.embeddings.load(&checkpoint.dense, checkpoint.step, tiers.of);
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
        self.save_with(directory, keep, extra, &mut |bytes| Ok(vec![bytes]))
    }

    /// [`Session::save`] of all ranks, which share `directory`: each saves its rows, and rank 0 its
    /// `extra`. `meet` returns the bytes of all ranks, in rank order; it's called at most three
    /// times.
    ///
    /// # Errors
    /// Errors of [`Session::save`], of any rank; those of `meet`.
    pub fn save_with(
        &mut self,
        directory: &Path,
        keep: usize,
        extra: &[u8],
        meet: &mut dyn FnMut(Vec<u8>) -> Result<Vec<Vec<u8>>>,
    ) -> Result<PathBuf> {
        self.at_rest(|session| session.save_at_rest(directory, keep, extra, meet))
    }

    fn save_at_rest(
        &self,
        directory: &Path,
        keep: usize,
        extra: &[u8],
        meet: &mut dyn FnMut(Vec<u8>) -> Result<Vec<Vec<u8>>>,
    ) -> Result<PathBuf> {
        let (step, of, groups) = (self.steps(), self.of, self.hierarchy.groups());
        let (run, mut dense, mut past) = (self.run(extra), Dense::default(), Dense::default());
        self.embeddings.save(if of == RankOf::ALONE { &mut dense } else { &mut past }, of);
        dense.sections.push((EXTRA.to_owned(), values_of(extra)));
        let dense = DenseView::from(dense);
        let begun = (of.rank == 0).then(|| self.begin(directory, (keep, extra), &run)).transpose();
        let is_there = begun.as_ref().ok().and_then(Option::as_ref);
        let is_there = is_there.and_then(|begun| begun.kept.as_deref());
        let is_there = is_there.map(|path| path.display().to_string()).unwrap_or_default();
        let (begun, said) = agreed(begun, is_there, meet)?;
        if !said[0].is_empty() {
            return Ok(PathBuf::from(&said[0]));
        }
        let begun = match begun {
            Some(begun) => Ok(begun),
            None => Begun::by_rank_zero(directory, keep),
        };
        let kept = begun.and_then(|mut begun| {
            let part = begun.writer.keep(&ModelPart { step, of, groups, past })?;
            Ok((begun, part))
        });
        let text = kept.as_ref().map(|(_, part)| part.to_text()).unwrap_or_default();
        let ((mut begun, _), texts) = agreed(kept, text, meet)?;
        let end = || {
            let part = |text: &String| {
                let part = KeptPart::from_text(text.as_bytes());
                part.ok_or_else(|| Error::Refused("a rank's part can't be read".to_owned()))
            };
            let parts = texts.iter().map(part).collect::<Result<Vec<KeptPart>>>()?;
            begun.writer.end(&WholeModel { step, run: &run, dense: &dense, groups }, &parts)
        };
        let ended = (of.rank == 0).then(end).transpose();
        let path = ended.as_ref().ok().and_then(Option::as_ref);
        let path = path.map(|path| path.display().to_string()).unwrap_or_default();
        let (_, paths) = agreed(ended, path, meet)?;
        Ok(PathBuf::from(&paths[0]))
    }

    /// Begins a checkpoint with `extra` in `directory`, where the newest `keep` stay.
    fn begin(&self, directory: &Path, (keep, extra): (usize, &[u8]), run: &Value) -> Result<Begun> {
        let disk: Arc<dyn Disk> = Arc::new(FileDisk::create(directory)?);
        let lock = DirectoryLock::take(directory)?;
        let mut writer = self.writer(disk, keep, extra)?;
        let kept = writer.begin(self.steps(), run)?;
        Ok(Begun { writer, kept, _lock: Some(lock) })
    }

    /// A digest of all rows, the same as [`Session::finish`] returns. Reads every row and ends the
    /// current mini-batch; mini-batches fed ahead stay fed.
    ///
    /// # Errors
    /// The error of a stage, or of a store.
    pub fn digest(&mut self) -> Result<String> {
        let digest = self.digest_rows()?;
        Ok(digest.finish(&DenseView::default()))
    }

    /// The digest of the rows of this rank, to which those of other ranks can be added.
    ///
    /// # Errors
    /// Errors of [`Session::digest`].
    pub fn digest_rows(&mut self) -> Result<ModelDigest> {
        self.at_rest(|session| {
            // Every row that memory has is in a store as well.
            let nothing = Cache::new(1, 1);
            let mut digest = ModelDigest::default();
            for group in session.hierarchy.groups() {
                group.digest(&nothing, &mut digest, &mut || Ok(()))?;
            }
            Ok(digest)
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

    /// The state of the session besides rows.
    fn run(&self, extra: &[u8]) -> Value {
        let rates = self.embeddings.rates().iter().copied();
        let rates: Vec<Value> = rates.map(Value::from).collect();
        let session = json!({ "lr": rates, "extra_bytes": extra.len(), "written": self.written });
        json!({ "job": self.job, "session": session })
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

/// A checkpoint in progress.
struct Begun {
    writer: CheckpointWriter,
    /// Path of the checkpoint, if it exists already.
    kept: Option<PathBuf>,
    _lock: Option<DirectoryLock>,
}

impl Begun {
    /// The checkpoint that rank 0 began in `directory`.
    fn by_rank_zero(directory: &Path, keep: usize) -> Result<Self> {
        let path = directory.to_owned();
        let disk = FileDisk::open(directory).map_err(|error| Error::NoCheckpoint {
            path,
            why: format!("was made by rank 0, and isn't here ({error}): share it among all ranks"),
        })?;
        let writer = CheckpointWriter::new(Arc::new(disk), keep);
        Ok(Self { writer, kept: None, _lock: None })
    }
}

/// This rank's result and every rank's `text`, or the first failure.
fn agreed<T>(
    done: Result<T>,
    text: String,
    meet: &mut dyn FnMut(Vec<u8>) -> Result<Vec<Vec<u8>>>,
) -> Result<(T, Vec<String>)> {
    let said = match &done {
        Ok(_) => format!("+{text}"),
        Err(error) => format!("-{error}"),
    };
    let all = meet(said.into_bytes());
    let done = done?;
    let said = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let all: Vec<String> = all?.into_iter().map(said).collect();
    if let Some((rank, why)) = all.iter().enumerate().find(|(_, said)| said.starts_with('-')) {
        return Err(Error::Refused(format!("rank {rank}: {}", &why[1..])));
    }
    Ok((done, all.into_iter().map(|said| said[1..].to_owned()).collect()))
}

/// `extra` as values, four bytes each.
fn values_of(extra: &[u8]) -> Vec<f32> {
    let four = |bytes: &[u8]| {
        let mut four = [0; 4];
        four[..bytes.len()].copy_from_slice(bytes);
        f32::from_le_bytes(four)
    };
    extra.chunks(size_of::<f32>()).map(four).collect()
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
