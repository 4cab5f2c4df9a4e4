//! Views of the rows of a checkpoint, which can be refreshed to later checkpoints.
//!
//! - **How.** The store provides rows; their meaning comes from the checkpoint itself, so any key
//!   has weights: its row's, or the initial ones if it has no row that exists.
//! - **Order.** Whether a row exists depends on the step. A refresh updates the rows first and then
//!   the step; a look-up reads the step first. So a row is never checked against a later step than
//!   its own checkpoint's, and during a refresh each key's answer comes from one of the two
//!   checkpoints.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use stepwell_base::Key;
use stepwell_base::owner::owner;
use stepwell_disk::{Disk, FileDisk};
use stepwell_ssd::{Refreshed, StoreOptions, View};

use super::Rows;
use super::directory_mark::Lease;
use super::reader::Checkpoint;
use crate::table_spec::TableSpec;
use crate::{Error, Result};

/// The rows of one table of a checkpoint, read through a [`View`] of each rank's store. The
/// checkpoint isn't removed as long as this lives. Its stores may have rows of other tables.
#[derive(Debug)]
pub struct RowsView {
    /// Views by rank.
    views: Vec<View>,
    table: usize,
    /// Meaning of the rows, or why it is unknown.
    spec: std::result::Result<TableSpec, String>,
    path: PathBuf,
    /// Step of the current checkpoint.
    step: AtomicU64,
    /// Leases on the current checkpoint, and on the previous one, which look-ups in progress may
    /// read.
    leases: Mutex<(Lease, Lease)>,
}

impl RowsView {
    /// Opens the rows of table `table`.
    ///
    /// # Errors
    /// If the checkpoint has no such table; and errors of [`View::open`].
    pub fn open(checkpoint: &Checkpoint, table: usize, options: StoreOptions) -> Result<Self> {
        let disks = disks(checkpoint, table)?;
        let spec = meaning(checkpoint, table);
        if let Ok(spec) = &spec
            && spec.row_bytes() != options.row_bytes
        {
            let (is, given) = (spec.row_bytes(), options.row_bytes);
            let why = format!("has rows of {is} bytes in table '{}', not {given}", spec.name);
            return Err(Error::Checkpoint { path: checkpoint.path.clone(), why });
        }
        let open = |disk| View::open(disk, options.clone());
        let views = disks.into_iter().map(open).collect::<stepwell_ssd::Result<_>>()?;
        let leases = Mutex::new((checkpoint.lease.clone(), Lease::default()));
        let (path, step) = (checkpoint.path.clone(), AtomicU64::new(checkpoint.step));
        Ok(Self { views, table, spec, path, step, leases })
    }

    /// Switches to a later checkpoint. From then on, the one before the previous may be removed, so
    /// no look-up should take longer than the time between two refreshes.
    ///
    /// # Errors
    /// Errors of [`RowsView::open`], or if rows have another meaning there, or another number of
    /// ranks wrote it; the view then stays unchanged. If a later rank's rows cannot be read, those
    /// of earlier ranks are from the new checkpoint: refresh again.
    pub fn refresh(&self, checkpoint: &Checkpoint) -> Result<Refreshed> {
        let disks = disks(checkpoint, self.table)?;
        if disks.len() != self.views.len() {
            let (was, is) = (self.views.len(), disks.len());
            let why =
                format!("was written by {is} ranks, the previous one by {was}: open it again");
            return Err(Error::Checkpoint { path: checkpoint.path.clone(), why });
        }
        if let (Ok(was), Ok(is)) = (&self.spec, &meaning(checkpoint, self.table))
            && was != is
        {
            let why =
                format!("its rows of table '{}' have another meaning: open it again", is.name);
            return Err(Error::Checkpoint { path: checkpoint.path.clone(), why });
        }
        let mut refreshed = Refreshed::default();
        for (view, disk) in self.views.iter().zip(disks) {
            let Refreshed { commit, segments_new, segments_gone, rows_read, anew } =
                view.refresh_over(vec![disk])?;
            refreshed.commit = commit.max(refreshed.commit);
            refreshed.segments_new += segments_new;
            refreshed.segments_gone += segments_gone;
            refreshed.rows_read += rows_read;
            refreshed.anew |= anew;
        }
        self.step.store(checkpoint.step, Ordering::Release);
        let mut leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        leases.1 = std::mem::replace(&mut leases.0, checkpoint.lease.clone());
        Ok(refreshed)
    }

    /// Number of rows in the view's stores, including other tables' in shared stores.
    pub fn len(&self) -> u64 {
        self.views.iter().map(|view| view.len()).sum()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads the rows of `keys`, which are salted for the table, and whether each key has a row.
    /// // rows: (keys, bytes of a row), found: (keys)
    ///
    /// # Errors
    /// If a row cannot be read.
    pub fn get_many(&self, keys: &[Key], rows: &mut [u8], found: &mut [bool]) -> Result<()> {
        if let [view] = &self.views[..] {
            return Ok(view.get_many(keys, rows, found)?);
        }
        let bytes = rows.len() / keys.len().max(1);
        for (rank, view) in self.views.iter().enumerate() {
            let is_own = |at: &usize| owner(keys[*at], self.views.len()) == rank;
            let places: Vec<usize> = (0..keys.len()).filter(is_own).collect();
            let own: Vec<Key> = places.iter().map(|at| keys[*at]).collect();
            let mut own_rows = vec![0; own.len() * bytes];
            let mut own_found = vec![false; own.len()];
            view.get_many(&own, &mut own_rows, &mut own_found)?;
            let own_rows = own_rows.chunks_exact(bytes.max(1));
            for ((at, row), was_found) in places.into_iter().zip(own_rows).zip(own_found) {
                found[at] = was_found;
                rows[at * bytes..(at + 1) * bytes].copy_from_slice(row);
            }
        }
        Ok(())
    }

    /// The table that describes the rows.
    ///
    /// # Errors
    /// If the checkpoint doesn't describe it.
    pub fn spec(&self) -> Result<&TableSpec> {
        let why = |why: &String| Error::Checkpoint { path: self.path.clone(), why: why.clone() };
        self.spec.as_ref().map_err(why)
    }

    /// Number of steps trained by the model.
    pub fn step(&self) -> u64 {
        self.step.load(Ordering::Acquire)
    }

    /// Reads the weights of `keys`, and which of them have a row that exists; the others have their
    /// initial weights. // weights: (keys, weights of a row), exists: (keys)
    ///
    /// # Errors
    /// If a row cannot be read, or the meaning of rows is unknown.
    ///
    /// # Panics
    /// If the lengths of the slices don't match.
    pub fn weights(&self, keys: &[Key], weights: &mut [f32], exists: &mut [bool]) -> Result<()> {
        let spec = self.spec()?;
        let (count, lanes) = (spec.weight_count(), spec.row_lanes());
        assert_eq!(weights.len(), keys.len() * count, "room for the weights of each key");
        let step = self.step();
        let mut rows = vec![0.0; keys.len() * lanes];
        let salt = spec.salt();
        let salted: Vec<Key> = keys.iter().map(|key| key.salted(salt)).collect();
        self.get_many(&salted, bytemuck::cast_slice_mut(&mut rows), exists)?;
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

/// Description of a table's rows, or why it is unknown.
fn meaning(checkpoint: &Checkpoint, table: usize) -> std::result::Result<TableSpec, String> {
    checkpoint.table(table).map_err(|error| match error {
        Error::Checkpoint { why, .. } | Error::Damaged { why, .. } => why,
        other => other.to_string(),
    })
}

/// Directories of the stores with a table's rows, by rank.
fn disks(checkpoint: &Checkpoint, table: usize) -> Result<Vec<Arc<dyn Disk>>> {
    let open = |rows: &Rows| Ok(Arc::new(FileDisk::open(&rows.path)?) as Arc<dyn Disk>);
    checkpoint.rows_of(table)?.iter().map(open).collect()
}
