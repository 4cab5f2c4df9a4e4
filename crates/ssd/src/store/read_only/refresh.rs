//! Advances a view to a later commit of the same store, by the difference of their manifests.
//!
//! ```text
//! before   │ same │ same │ gone │ gone │              rows: the index points at some
//! after    │ same │ same │             │ new │ new │  keys of these are read
//! ```
//!
//! - **How.** Rows of new segments are put into the index in order of segment numbers, as at
//!   opening ([`row_versions`](crate::row_versions)); any of them replaces a row in a segment that
//!   is gone. Then the deletions of new segments are applied, and the keys of gone segments are
//!   looked up; keys that nothing replaced are removed. All this happens under the state's lock,
//!   without I/O; until the number of rows matches the manifest, it can be undone.
//! - **Why it is right.** The version that counts afterwards is either the one that counted before,
//!   if its segment stayed, or in a new segment: a version that did not count before never counts
//!   again. Deletions in segments that stayed were applied before, and affect nothing put later. A
//!   copy that a merge made while its key was deleted is no later version (SSD-I17).
//! - **Invariants.**
//!   - SSD-I17: a merged segment without a birth above all previous births was made of previous
//!     rows: its row counts only as the copy of one that counted, so only if its key is in the
//!     index.
//!   - SSD-I18: nothing points at a segment that is removed.
//! - **Failure.** If the rows do not match, or the index has no room, everything is undone.

use std::collections::BTreeMap;
use std::sync::Arc;

use stepwell_base::Key;
use stepwell_disk::Disk;

use super::named_files::{Identity, Named, identity};
use crate::Result;
use crate::identity::StoreId;
use crate::index::{Ahead, Place};
use crate::manifest::Manifest;
use crate::numbers::{Birth, Slot};
use crate::row_versions::{Deletion, ROW_UNMOVED};
use crate::segment::SegmentFile;
use crate::store::core::{Core, State};
use crate::store::opening::load::{self, Read};

/// Changes made by a refresh.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refreshed {
    /// The commit of the view.
    pub commit: u64,
    /// Number of segments that were read.
    pub segments_new: usize,
    /// Number of segments that the view dropped.
    pub segments_gone: usize,
    /// Number of rows in segments that were read, live and stale.
    pub rows_read: u64,
    /// Whether everything was read because the manifest is not a later commit of the same store.
    pub anew: bool,
}

/// Segments of a view by identity, with slot and file.
pub(in crate::store) type Segments = BTreeMap<Identity, (Slot, Arc<SegmentFile>)>;

/// The difference between two manifests, read from the files.
pub(super) struct Difference {
    /// New segments in order of numbers.
    new: Vec<Read>,
    /// Slots of gone segments, with their keys if some are live.
    gone: Vec<(Slot, Vec<Key>)>,
    /// Slots of the others, and their files.
    same: Vec<(Slot, Arc<SegmentFile>)>,
    rows_read: u64,
}

/// Changes to the index, and how to undo them.
struct Change<'a> {
    state: &'a mut State,
    /// Slots of the new segments.
    slots: Vec<Slot>,
    /// For each slot, whether its segment is removed.
    goes: Vec<bool>,
    /// For each slot, rows that became live less those that went stale.
    live: Vec<i64>,
    /// Previous places of keys, in the order of the changes.
    before: Vec<(Key, Option<Place>)>,
    /// Keys to remove at the end.
    dead: Vec<Key>,
}

impl Core {
    /// The segments that the view's manifest names.
    pub(super) fn segments_by_identity(&self, manifest: &Manifest) -> Segments {
        let state = self.state();
        let slots = state.table.in_order();
        assert!(slots.len() == manifest.segments.len(), "a view has what its manifest names");
        let segment = |(entry, slot): (_, Slot)| {
            (identity(manifest, entry), (slot, Arc::clone(&state.table.get(slot).file)))
        };
        manifest.segments.iter().zip(slots).map(segment).collect()
    }
}

impl Difference {
    /// Reads the new segments of `named`; `left` are the segments of the commit before. `None` if
    /// `named` is not a later commit of the same store, or the difference is not enough.
    pub(in crate::store) fn read(
        core: &Core,
        before: &Manifest,
        named: &Named,
        mut left: Segments,
    ) -> Result<Option<Self>> {
        let Named { manifest, files } = named;
        let same_commit = before.commit == manifest.commit && before.segments != manifest.segments;
        let known = before.store == manifest.store
            && before.store != StoreId::OLD
            && before.key_shards == manifest.key_shards;
        if !known || before.commit > manifest.commit || same_commit {
            return Ok(None);
        }
        let mut difference =
            Self { new: Vec::new(), gone: Vec::new(), same: Vec::new(), rows_read: 0 };
        for (entry, file) in manifest.segments.iter().zip(files) {
            if let Some((slot, _)) = left.remove(&identity(manifest, entry)) {
                let bytes = file.file.len()?;
                if bytes != entry.bytes {
                    let why = format!("it has {bytes} bytes, the manifest says {}", entry.bytes);
                    return Err(file.damaged(bytes.min(entry.bytes), why));
                }
                difference.same.push((slot, Arc::clone(file)));
                continue;
            }
            core.options.go_on()?;
            let file = Arc::clone(file);
            let read = load::read_segment(file, entry, &core.counters)?;
            difference.rows_read += read.rows.len() as u64;
            difference.new.push(read);
        }
        Ok((difference.is_told() && difference.read_gone(core, left)).then_some(difference))
    }

    /// Whether footers suffice to apply the deletions of new segments.
    fn is_told(&self) -> bool {
        let told = |deletion: &Deletion| deletion.row != ROW_UNMOVED;
        self.new.iter().all(|Read { deletions, .. }| deletions.iter().all(told))
    }

    /// Reads the keys of gone segments; returns false if one can no longer be read.
    fn read_gone(&mut self, core: &Core, left: Segments) -> bool {
        for (slot, file) in left.into_values() {
            let (live, sealed) = {
                let state = core.state();
                let segment = state.table.get(slot);
                (segment.live, segment.sealed)
            };
            let tail = sealed.map(|sealed| sealed.tail).filter(|_| live > 0);
            let footer = tail.map(|tail| file.footer(&tail, &core.counters));
            match footer.transpose() {
                Ok(footer) => self.gone.push((slot, footer.unwrap_or_default().keys)),
                Err(_) => return false,
            }
        }
        true
    }

    /// Advances the view to the later commit.
    pub(super) fn apply(self, core: &Core, named: &Named, home: &dyn Disk) -> Result<Refreshed> {
        let manifest = &named.manifest;
        let Self { new, gone, same, rows_read } = self;
        let refreshed = Refreshed {
            commit: manifest.commit,
            segments_new: new.len(),
            segments_gone: gone.len(),
            rows_read,
            anew: false,
        };
        let mut state = core.state_mut();
        let mut change = Change::new(&mut state, &gone, rows_read);
        let tried = change.add_all(new).and_then(|deletions| {
            change.kill(&deletions);
            change.sweep(&gone)?;
            let rows = change.state.index.rows() - change.dead.len() as u64;
            load::check_rows(rows, manifest, home)
        });
        if let Err(error) = tried {
            change.take_back();
            return Err(error);
        }
        let mut dropped = change.settle(&gone);
        dropped.extend(same.into_iter().map(|(slot, file)| state.table.replace_file(slot, file)));
        (state.next_seq, state.expire_before) = (manifest.next_seq, manifest.expire_before);
        drop(state);
        // Closing files takes time, so it happens without the lock.
        drop(dropped);
        Ok(refreshed)
    }
}

impl<'a> Change<'a> {
    fn new(state: &'a mut State, gone: &[(Slot, Vec<Key>)], rows: u64) -> Self {
        let mut goes = vec![false; state.table.slots()];
        gone.iter().for_each(|(slot, _)| goes[slot.index()] = true);
        let before = Vec::with_capacity(rows as usize);
        Self { state, slots: Vec::new(), goes, live: Vec::new(), before, dead: Vec::new() }
    }

    /// Puts new segments into slots and their rows into the index; returns their deletions.
    fn add_all(&mut self, new: Vec<Read>) -> Result<Vec<Deletion>> {
        let birth_of = |slot: &Slot| self.state.table.get(*slot).provenance.births.greatest;
        let births = self.state.table.in_order().iter().map(birth_of).max();
        let birth_last = births.unwrap_or(Birth::MIN);
        let mut deletions = Vec::new();
        for Read { known, rows, deletions: own } in new {
            let slot = known.insert_into(&mut self.state.table, rows.len() as u32);
            self.slots.push(slot);
            self.goes.resize(self.state.table.slots(), false);
            self.live.resize(self.state.table.slots(), 0);
            self.add(slot, &rows, &own, birth_last)?;
            deletions.extend(own);
        }
        self.live.resize(self.state.table.slots(), 0);
        Ok(deletions)
    }

    fn add(
        &mut self,
        slot: Slot,
        rows: &[(u32, Key)],
        own: &[Deletion],
        birth_last: Birth,
    ) -> Result<()> {
        let State { index, table, .. } = &mut *self.state;
        let provenance = table.get(slot).provenance;
        let layout = table.get(slot).file.layout;
        let own = load::own_deletions(own, &provenance);
        // SSD-I17
        let copies_alone = provenance.merged && provenance.births.greatest <= birth_last;
        let mut ahead = Ahead::new(index, rows.len(), |at| rows[at].1);
        for (row, key) in rows {
            let asked = ahead.next(index);
            let dead = !own.is_empty() && own.get(key).is_some_and(|before| row < before);
            if dead || (copies_alone && index.get(*key).is_none()) {
                continue;
            }
            let old = index.put_asked(&asked, table.place(slot, layout.page_of(*row)))?;
            if let Some(place) = old {
                let of = table.page(place).slot;
                let goes = self.goes[of.index()];
                if !goes && of != slot && table.get(of).provenance.is_newer(&provenance) {
                    index.put_asked(&asked, place)?;
                    continue;
                }
                self.live[of.index()] -= 1;
            }
            self.live[slot.index()] += 1;
            self.before.push((*key, old));
        }
        Ok(())
    }

    /// Applies deletions.
    fn kill(&mut self, deletions: &[Deletion]) {
        for deletion in deletions {
            let Some(place) = self.state.index.get(deletion.key) else { continue };
            let of = self.state.table.page(place).slot;
            let provenance = self.state.table.get(of).provenance;
            // Remaining rows of a segment that is removed are swept.
            if !self.goes[of.index()] && provenance.is_dead(u32::MAX, deletion) == Some(true) {
                self.dead.push(deletion.key);
            }
        }
        self.dead.sort_unstable();
        self.dead.dedup();
        for key in &self.dead {
            if let Some(place) = self.state.index.get(*key) {
                self.live[self.state.table.page(place).slot.index()] -= 1;
            }
        }
    }

    /// Finds the keys that still point at gone segments.
    fn sweep(&mut self, gone: &[(Slot, Vec<Key>)]) -> Result<()> {
        let State { index, table, .. } = &*self.state;
        for (slot, keys) in gone {
            let left = i64::from(table.get(*slot).live) + self.live[slot.index()];
            if left == 0 {
                continue;
            }
            let mut found = Vec::new();
            index.get_many(keys, |at, place| {
                if place.is_some_and(|place| table.page(place).slot == *slot) {
                    found.push(keys[at]);
                }
            });
            found.sort_unstable();
            found.dedup();
            if found.len() as i64 != left {
                let file = &table.get(*slot).file;
                let why = format!("{left} of its rows count, but it lists {}", found.len());
                return Err(file.damaged(0, why));
            }
            self.dead.append(&mut found);
        }
        Ok(())
    }

    /// Undoes all changes.
    fn take_back(self) {
        let State { index, table, .. } = self.state;
        for (key, place) in self.before.into_iter().rev() {
            match place {
                #[expect(clippy::expect_used, reason = "a key that is there keeps its slot")]
                Some(place) => drop(index.put(key, place).expect("the place was there before")),
                None => drop(index.remove(key)),
            }
        }
        self.slots.into_iter().for_each(|slot| drop(table.discard(slot)));
    }

    /// Removes dead keys and gone segments; returns the files (SSD-I18).
    fn settle(self, gone: &[(Slot, Vec<Key>)]) -> Vec<Arc<SegmentFile>> {
        let State { index, table, .. } = self.state;
        for key in &self.dead {
            index.remove(*key);
        }
        for (slot, live) in (0..).map(Slot).zip(&self.live).filter(|(_, live)| **live != 0) {
            if !self.goes[slot.index()] {
                table.live_changed(slot, *live);
            }
        }
        gone.iter().map(|(slot, _)| table.discard(*slot).file).collect()
    }
}
