//! Moves data to where the placement requires, while nothing else moves.
//!
//! - **Order.** Everything is first brought to the host, and kept buffers are freed, so that the
//!   content of the application's memory never exceeds its budget.

use crate::Result;
use crate::layout::{Chosen, Index};
use crate::memory::{Memory, Moved, Piece, Store, bytes_counted};
use crate::pool::Pool;
use crate::state::{Local, Plan, State};

/// Installs the plan of `state`, whose buffers have all been returned.
pub(crate) fn install(state: &mut State) -> Result<()> {
    let Some(plan) = state.plan.take() else { return Ok(()) };
    let Plan { mut sequence, placement, index_bytes } = plan;
    let clocks = state.clocks();
    let State { caches, locals, memory, pool, .. } = state;
    assert_eq!(pool.used(), 0, "buffers are in use while data is placed");
    memory.finish()?;
    *pool = Pool::new(0);
    for cache in &mut *caches {
        unplace(&mut cache.store, memory)?;
    }
    for local in &mut *locals {
        unplace_local(local, memory)?;
    }
    // Sources of copies are free once the copies are over.
    memory.finish()?;
    let mut pinned_bytes = index_bytes;
    for (cache, _) in caches.iter_mut().zip(&placement.pinned).filter(|(_, pinned)| **pinned) {
        let Store::Host(values) = &cache.store else { unreachable!("caches are on the host") };
        let mut to = Store::Placed(memory.piece(values.len())?);
        pinned_bytes += bytes_counted(values.len());
        wait_for(|| memory.refresh(&mut to, 0, values))?;
        cache.store = to;
    }
    let pinned = &placement.pinned[caches.len()..];
    for (local, _) in locals.iter_mut().zip(pinned).filter(|(_, pinned)| **pinned) {
        let mut piece = memory.piece(local.rows.floats())?;
        pinned_bytes += bytes_counted(local.rows.floats());
        let chosen = Chosen { index: &local.whole, rows: &local.rows };
        wait_for(|| memory.fetch(&mut local.store, chosen, &mut piece))?;
        local.store = Store::Placed(piece);
    }
    raise_indexes(&mut sequence, &placement.pinned, memory)?;
    memory.finish()?;
    *pool = Pool::new(placement.buffer_bytes);
    // Requests made since the iteration was recorded are already behind the application.
    let next = state.line.waiting.iter().fold(0, |next, waiting| {
        let (what, keys) = (waiting.acquire.what, &waiting.acquire.index.keys);
        sequence.find(what, keys, next).map_or(next, |place| place + 1)
    });
    sequence.go_to(next, clocks);
    (state.sequence, state.placement) = (sequence, Some(placement));
    state.pinned_bytes = pinned_bytes;
    state.note_peak();
    Ok(())
}

/// Copies each list of keys to the device once, for all of its reads.
fn raise_indexes(
    sequence: &mut crate::sequence::Sequence,
    pinned: &[bool],
    memory: &mut Memory,
) -> Result<()> {
    let mut raised: Vec<(usize, Index)> = Vec::new();
    for (table, index) in sequence.indexes().filter(|(table, _)| pinned[*table]) {
        let is_it = |(of, other): &&(usize, Index)| *of == table && other.keys == index.keys;
        match raised.iter().find(is_it) {
            Some((_, known)) => *index = known.clone(),
            None => {
                memory.raise_index(index)?;
                raised.push((table, index.clone()));
            }
        }
    }
    Ok(())
}

/// Moves a cache to the host.
fn unplace(store: &mut Store, memory: &mut Memory) -> Result<()> {
    match std::mem::replace(store, Store::Lent) {
        Store::Placed(Piece::Host(values)) => *store = Store::Host(values),
        Store::Placed(Piece::Device(mut piece)) => {
            let mut staged = wait_for(|| memory.lower(&mut piece))?;
            staged.event().wait()?;
            *store = Store::Host(staged.values()?.to_vec());
            memory.give_back(staged);
        }
        other => *store = other,
    }
    Ok(())
}

/// Moves local data to host memory.
fn unplace_local(local: &mut Local, memory: &mut Memory) -> Result<()> {
    match std::mem::replace(&mut local.store, Store::Lent) {
        Store::Placed(mut piece) => {
            local.store = memory.swap(local.rows.floats())?;
            let chosen = Chosen { index: &local.whole, rows: &local.rows };
            memory.save(&mut piece, chosen, &mut local.store)
        }
        other => {
            local.store = other;
            Ok(())
        }
    }
}

fn wait_for<T>(mut ask: impl FnMut() -> Result<Moved<T>>) -> Result<T> {
    loop {
        match ask()? {
            Moved::Now(value) => return Ok(value),
            Moved::Busy(event) => event.wait()?,
        }
    }
}
