//! The virtual iteration: operations are recorded, and the placement of data is planned from them.
//!
//! - **How.** Between [`Geeps::begin_virtual`] and [`Geeps::end_virtual`] every call returns at
//!   once, with accesses that have no memory. When it ends, data moves where its placement
//!   requires, or as soon as pending returns are complete.
//! - **Failure.** A budget of less than twice the bytes accessed at once is refused with the
//!   arithmetic, and everything is as before, without a sequence.

use std::sync::Arc;

use stepwell_base::Key;

use crate::geeps::Geeps;
use crate::install_placement::install;
use crate::layout::Rows;
use crate::memory::bytes_counted;
use crate::placement::{Placement, Used, pin_none, place};
use crate::sequence::{Operation, Sequence, Size, usage};
use crate::state::{Plan, State};
use crate::{Error, Result};

impl Geeps {
    /// Starts recording operations instead of executing them.
    ///
    /// # Errors
    /// If the application holds buffers, or records already.
    pub fn begin_virtual(&self) -> Result<()> {
        let state = &mut *self.shared.lock();
        state.check()?;
        if state.held > 0 || state.gathering.is_some() {
            let why = format!("{} buffers are held: return them first", state.held);
            return Err(Error::call("begin_virtual", why));
        }
        state.drop_foreseen();
        // The old indexes are dropped before new ones are made.
        state.sequence = Sequence::default();
        state.gathering = Some(Vec::new());
        Ok(())
    }

    /// Ends the iteration: places data, and prepares for further iterations like it.
    ///
    /// # Errors
    /// If the budget is too small for what the application uses at once, or the device refuses.
    pub fn end_virtual(&self) -> Result<Placement> {
        let mut state = self.shared.lock();
        state.check()?;
        let Some(operations) = state.gathering.take() else {
            return Err(Error::call("end_virtual", "no virtual iteration was started"));
        };
        let plan = self.plan(&state, operations)?;
        let placement = plan.placement.clone();
        state.plan = Some(plan);
        let is_at_rest = state.reclaims.is_empty() && state.lowered.is_empty();
        let installed = if is_at_rest { install(&mut state) } else { Ok(()) };
        drop(state);
        self.shared.events.notify();
        installed.inspect_err(|error| self.shared.fail(error))?;
        Ok(placement)
    }

    fn plan(&self, state: &State, operations: Vec<Operation>) -> Result<Plan> {
        let size = |rows: &Rows| Size { floats: rows.floats(), row_floats: rows.row_floats };
        let tables: Vec<_> = state.caches.iter().map(|cache| size(&cache.layout.rows)).collect();
        let locals: Vec<_> = state.locals.iter().map(|local| size(&local.rows)).collect();
        let usage = usage(&operations, &tables, &locals, bytes_counted);
        let mut sequence = Sequence::new(operations);
        let mut seen: Vec<(usize, Arc<[Key]>)> = Vec::new();
        for (table, index) in sequence.indexes().filter(|(_, index)| !index.is_whole) {
            if !seen.iter().any(|(of, keys)| *of == table && *keys == index.keys) {
                seen.push((table, Arc::clone(&index.keys)));
            }
        }
        let bytes = |(_, keys): &(usize, Arc<[Key]>)| state.memory.index_bytes(keys.len());
        let index_bytes = seen.iter().map(bytes).sum();
        let total = self.shared.budget_bytes.saturating_sub(index_bytes);
        let placed = if self.shared.pins { place(&usage, total) } else { pin_none(&usage, total) };
        let placement = placed.ok_or_else(|| {
            let (number, peak) = usage.peak_unpinned();
            let part = |used: &Used| {
                let name = match used.data.checked_sub(tables.len()) {
                    Some(local) => &state.locals[local].name,
                    None => &state.caches[used.data].layout.name,
                };
                format!("{} of '{name}'", used.bytes)
            };
            let most: Vec<_> = usage.moments[number].iter().map(part).collect();
            let (budget, need, indexes) = (self.shared.budget_bytes, 2 * peak, index_bytes);
            let (most, total) = (most.join(" + "), need + indexes);
            Error::Budget { budget, peak, most, need, indexes, total }
        })?;
        Ok(Plan { sequence, placement, index_bytes })
    }
}
