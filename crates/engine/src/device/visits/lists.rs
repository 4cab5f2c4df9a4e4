//! Slots of a mini-batch's rows in the lists of a device, by group and table, from a fetch until
//! the results are sent.

use std::ops::Range;
use std::time::Instant;

use super::visit::Visit;
use crate::Result;
use crate::device_tier::key_table::Tables;
use crate::device_tier::tier::{DeviceTier, OneDevice};
use crate::device_tier::visitor::Visitor;

impl Visitor {
    /// Copies these words of the lists up.
    pub(in crate::device) fn lists_up(&self, words: Range<usize>) -> Result<()> {
        let first = words.start;
        if words.is_empty() {
            return Ok(());
        }
        Ok(self.stream.up(&self.lists_host, words, &self.lists, first)?)
    }

    /// Puts the slots of `visits` at the start of the lists; returns the number of words copied up.
    pub(in crate::device) fn list(
        &mut self,
        one: &OneDevice,
        visits: &[Visit<'_>],
    ) -> Result<usize> {
        let (slots, _) = Visit::end(visits);
        let Some(tables) = &mut self.lookup else {
            put_slots(visits, self.lists_host.write(slots)?);
            self.lists_up(0..slots)?;
            return Ok(slots);
        };
        let (stream, lists) = (&self.stream, &self.lists);
        let mut words = 0;
        while let Some((group, changes)) = one.take_changes() {
            words += tables.change(stream, lists, group, &changes)?;
        }
        let mut counts = vec![0; one.slabs.len()];
        visits.iter().for_each(|visit| counts[visit.group] += visit.on.slots.len());
        let keys = visits.iter().flat_map(|visit| &visit.on.keys).copied();
        words += tables.find(stream, lists, keys, &counts)?;
        if cfg!(debug_assertions) {
            // The slots found are compared with the planner's.
            stream.down(lists, 0..slots, &self.lists_host, 0)?;
        }
        Ok(words)
    }

    /// Waits for the slots that hash tables found for `visits`, if there are tables, and checks
    /// them.
    pub(in crate::device) fn check_found(
        &mut self,
        tier: &DeviceTier,
        one: &OneDevice,
        visits: &[Visit<'_>],
    ) -> Result<()> {
        if self.lookup.is_some() {
            let begin = Instant::now();
            self.fetched.wait()?;
            tier.waited(begin.elapsed());
            tier.copied_down(Tables::WORDS_DOWN);
            self.check(one, visits)?;
        }
        Ok(())
    }

    /// Checks the slots that hash tables found for `visits`, after they arrived.
    pub(in crate::device) fn check(&mut self, one: &OneDevice, visits: &[Visit<'_>]) -> Result<()> {
        let Some(tables) = &mut self.lookup else { return Ok(()) };
        tables.check(&one.device.about().name)?;
        if cfg!(debug_assertions) {
            let (slots, _) = Visit::end(visits);
            let found = self.lists_host.read(slots)?;
            let planned = visits.iter().flat_map(|visit| &visit.on.slots).map(|slot| &slot.0);
            assert!(found.iter().eq(planned), "a hash table finds other slots than the planner");
        }
        Ok(())
    }
}

/// Sets the positions of slots in the lists as [`DeviceTier::fetch`] put them: by group, then by
/// table. Returns where they end.
pub(super) fn listed<'a>(stepped: &mut [Visit<'a>], whole: &mut [Visit<'a>]) -> usize {
    let mut all: Vec<&mut Visit<'a>> = stepped.iter_mut().chain(whole).collect();
    all.sort_by_key(|visit| (visit.group, visit.table));
    all.into_iter().fold(0, |first, visit| {
        visit.slots = first;
        first + visit.on.slots.len()
    })
}

fn put_slots(visits: &[Visit<'_>], lists: &mut [u32]) {
    let slots = visits.iter().flat_map(|visit| &visit.on.slots);
    lists.iter_mut().zip(slots).for_each(|(word, slot)| *word = slot.0);
}
