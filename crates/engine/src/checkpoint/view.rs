//! Rows of a checkpoint that are looked at, and then those of the next one.
//!
//! How       The store gives rows; what they mean comes from the checkpoint itself, so that any key
//!           has its weights: those of its row, or its initial ones where it has none that exists.
//! Order     Whether a row exists depends on the step. A refresh takes over the new rows first and
//!           then the step, a look-up asks for the step first: so a row is never judged by a later
//!           step than its own checkpoint's, and each key's answer is that of one checkpoint or the
//!           other while a refresh is under way.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use stepwell_base::Key;
use stepwell_disk::{Disk, FileDisk};
use stepwell_ssd::{Refreshed, StoreOptions, View};

use super::{Checkpoint, Lease};
use crate::{Error, Result, TableSpec};

/// A [`View`] of the rows of one table of a checkpoint, which stays as long as it is looked at. Its
/// store may have rows of others.
#[derive(Debug)]
pub struct RowsView {
    view: View,
    table: usize,
    /// What the rows mean, or why that is not known.
    spec: std::result::Result<TableSpec, String>,
    path: PathBuf,
    /// Of the checkpoint that is looked at.
    step: AtomicU64,
    /// On the checkpoint, and on the one before it: look-ups that were under way read its files.
    leases: Mutex<(Lease, Lease)>,
}

impl Deref for RowsView {
    type Target = View;

    fn deref(&self) -> &View {
        &self.view
    }
}

impl RowsView {
    /// Looks at the rows of table `table`.
    ///
    /// # Errors
    /// When the checkpoint has no such table; and those of [`View::open`].
    pub fn open(checkpoint: &Checkpoint, table: usize, options: StoreOptions) -> Result<Self> {
        let disk = disk(checkpoint, table)?;
        let spec = meaning(checkpoint, table);
        if let Ok(spec) = &spec
            && spec.row_bytes() != options.row_bytes
        {
            let (is, given) = (spec.row_bytes(), options.row_bytes);
            let why = format!("has rows of {is} bytes in table '{}', not {given}", spec.name);
            return Err(Error::Checkpoint { path: checkpoint.path.clone(), why });
        }
        let view = View::open(disk, options)?;
        let leases = Mutex::new((checkpoint.lease.clone(), Lease::default()));
        let (path, step) = (checkpoint.path.clone(), AtomicU64::new(checkpoint.step));
        Ok(Self { view, table, spec, path, step, leases })
    }

    /// Goes on to a later checkpoint. That before the last one may be removed from then on: no
    /// look-up should take longer than two refreshes are apart.
    ///
    /// # Errors
    /// Those of [`RowsView::open`], and when the rows mean something else there; the view is then
    /// what it was.
    pub fn refresh(&self, checkpoint: &Checkpoint) -> Result<Refreshed> {
        let disk = disk(checkpoint, self.table)?;
        if let (Ok(was), Ok(is)) = (&self.spec, &meaning(checkpoint, self.table))
            && was != is
        {
            let why = format!("its rows of table '{}' mean something else: open it anew", is.name);
            return Err(Error::Checkpoint { path: checkpoint.path.clone(), why });
        }
        let refreshed = self.view.refresh_over(vec![disk])?;
        self.step.store(checkpoint.step, Ordering::Release);
        let mut leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        leases.1 = std::mem::replace(&mut leases.0, checkpoint.lease.clone());
        Ok(refreshed)
    }

    /// What its rows mean.
    ///
    /// # Errors
    /// When the checkpoint that was opened does not say.
    pub fn spec(&self) -> Result<&TableSpec> {
        let why = |why: &String| Error::Checkpoint { path: self.path.clone(), why: why.clone() };
        self.spec.as_ref().map_err(why)
    }

    /// Steps trained by the model that is looked at.
    pub fn step(&self) -> u64 {
        self.step.load(Ordering::Acquire)
    }

    /// The weights of `keys`, and which of them have a row that exists; the others have their
    /// initial weights. // weights: (keys, weights of a row), exists: (keys)
    ///
    /// # Errors
    /// When a row cannot be read, or what rows mean is not known.
    ///
    /// # Panics
    /// When there is not room for exactly as many.
    pub fn weights(&self, keys: &[Key], weights: &mut [f32], exists: &mut [bool]) -> Result<()> {
        let spec = self.spec()?;
        let (count, lanes) = (spec.weight_count(), spec.row_lanes());
        assert_eq!(weights.len(), keys.len() * count, "room for the weights of each key");
        let step = self.step();
        let mut rows = vec![0.0; keys.len() * lanes];
        let salt = spec.salt();
        let salted: Vec<Key> = keys.iter().map(|key| key.salted(salt)).collect();
        self.view.get_many(&salted, bytemuck::cast_slice_mut(&mut rows), exists)?;
        let parts = salted.iter().zip(exists).zip(rows.chunks_exact(lanes));
        for (((key, exists), row), weights) in parts.zip(weights.chunks_exact_mut(count)) {
            *exists = *exists && spec.exists(row, step);
            match *exists {
                true => spec.weights(row).copy_to(weights),
                false => spec.initial_weights(*key, weights),
            }
        }
        Ok(())
    }
}

/// What the rows of a table mean, or why that is not known.
fn meaning(checkpoint: &Checkpoint, table: usize) -> std::result::Result<TableSpec, String> {
    checkpoint.table(table).map_err(|error| match error {
        Error::Checkpoint { why, .. } => why,
        other => other.to_string(),
    })
}

/// The directory of the store with a table's rows.
fn disk(checkpoint: &Checkpoint, table: usize) -> Result<Arc<dyn Disk>> {
    Ok(Arc::new(FileDisk::open(&checkpoint.rows_of(table)?.path)?))
}
