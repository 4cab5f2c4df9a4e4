//! Rows of a checkpoint that are looked at, and then those of the next one.

use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use stepwell_disk::{Disk, FileDisk};
use stepwell_ssd::{Refreshed, StoreOptions, View};

use super::{Checkpoint, Lease};
use crate::{Error, Result};

/// A [`View`] of one table group's rows in a checkpoint, which stays as long as it is looked at.
#[derive(Debug)]
pub struct RowsView {
    view: View,
    group: usize,
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
    /// Looks at the rows of table group `group`.
    ///
    /// # Errors
    /// When the checkpoint has none of that group; and those of [`View::open`].
    pub fn open(checkpoint: &Checkpoint, group: usize, options: StoreOptions) -> Result<Self> {
        let view = View::open(disk(checkpoint, group)?, options)?;
        let leases = Mutex::new((checkpoint.lease.clone(), Lease::default()));
        Ok(Self { view, group, leases })
    }

    /// Goes on to a later checkpoint. That before the last one may be removed from then on: no
    /// look-up should take longer than two refreshes are apart.
    ///
    /// # Errors
    /// Those of [`RowsView::open`]; the view is then what it was.
    pub fn refresh(&self, checkpoint: &Checkpoint) -> Result<Refreshed> {
        let disk = disk(checkpoint, self.group)?;
        let refreshed = self.view.refresh_over(vec![disk])?;
        let mut leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        leases.1 = std::mem::replace(&mut leases.0, checkpoint.lease.clone());
        Ok(refreshed)
    }
}

/// The directory of a group's rows.
fn disk(checkpoint: &Checkpoint, group: usize) -> Result<Arc<dyn Disk>> {
    let rows = checkpoint.rows.get(group).ok_or_else(|| Error::Checkpoint {
        path: checkpoint.path.clone(),
        why: format!("has no rows of table group {group}"),
    })?;
    Ok(Arc::new(FileDisk::open(&rows.path)?))
}
