//! Doubly linked lists over slots, all in one array of nodes.
//!
//! For policies that need lists of slots, at this cost. A slot is in at most one list at a time.
//! List heads are extra nodes behind the slots, so unlinking needs no branch and no list number.
//!
//! ```text
//! node      0 .. slots-1      slots .. slots+lists-1
//! meaning   slots             heads (head.next = oldest, head.previous = newest)
//! ```
//!
//! A link is stored XOR its own node, so zeroed memory is unlinked nodes, and slots that were never
//! used take no resident memory.
//!
//! - **Cost.** 8 bytes per slot.

use bytemuck::Zeroable;
use stepwell_base::SlotIndex;
use stepwell_base::huge::HugeSlice;
use stepwell_base::prefetch::prefetch;

/// Number of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListId(pub u32);

/// Adjacent nodes, each XOR the node itself.
#[derive(Clone, Copy, Debug, Zeroable)]
#[repr(C, align(8))]
struct Node {
    next: u32,
    previous: u32,
}

/// The lists.
#[derive(Debug)]
pub struct Links {
    slots: u32,
    nodes: HugeSlice<Node>,
}

impl Links {
    /// `lists` empty lists over `slots` unlinked slots.
    pub fn new(slots: usize, lists: usize) -> Self {
        let nodes = u32::try_from(slots + lists);
        assert!(nodes.is_ok_and(|n| n < u32::MAX), "a slab has fewer than 2^32 slots");
        Self { slots: slots as u32, nodes: HugeSlice::zeroed(slots + lists) }
    }

    /// Bytes of `lists` lists over `slots` slots.
    pub(crate) const fn bytes_for(slots: u64, lists: usize) -> u64 {
        (slots + lists as u64) * size_of::<Node>() as u64
    }

    /// Bytes allocated.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> u64 {
        size_of_val(&*self.nodes) as u64
    }

    #[inline]
    fn next(&self, node: u32) -> u32 {
        self.nodes[node as usize].next ^ node
    }

    #[inline]
    fn previous(&self, node: u32) -> u32 {
        self.nodes[node as usize].previous ^ node
    }

    #[inline]
    fn join(&mut self, former: u32, latter: u32) {
        self.nodes[former as usize].next = latter ^ former;
        self.nodes[latter as usize].previous = former ^ latter;
    }

    #[inline]
    fn head(&self, list: ListId) -> u32 {
        self.slots + list.0
    }

    /// Appends `slot`, which is in no list, at the newest end of `list`.
    #[inline]
    pub fn push(&mut self, list: ListId, slot: SlotIndex) {
        debug_assert!(!self.is_linked(slot), "a slot is in one list at a time");
        let head = self.head(list);
        let newest = self.previous(head);
        self.join(newest, slot.0);
        self.join(slot.0, head);
    }

    /// Removes `slot` from its list, if it is in one.
    #[inline]
    pub fn unlink(&mut self, slot: SlotIndex) {
        let (next, previous) = (self.next(slot.0), self.previous(slot.0));
        self.join(previous, next);
        self.join(slot.0, slot.0);
    }

    /// Prefetches the links of `slot`.
    #[inline]
    pub(crate) fn prefetch(&self, slot: SlotIndex) {
        prefetch(&self.nodes[slot.at()]);
    }

    /// Whether `slot` is in a list.
    #[inline]
    pub fn is_linked(&self, slot: SlotIndex) -> bool {
        self.nodes[slot.at()].next != 0
    }

    /// The oldest slot of `list`.
    pub fn oldest(&self, list: ListId) -> Option<SlotIndex> {
        let first = self.next(self.head(list));
        (first < self.slots).then_some(SlotIndex(first))
    }

    /// The next newer slot in the list of the linked `slot`.
    pub fn newer(&self, slot: SlotIndex) -> Option<SlotIndex> {
        let next = self.next(slot.0);
        (next < self.slots).then_some(SlotIndex(next))
    }

    /// Appends all slots of `from` to the newest end of `to`, in order, in constant time.
    pub(crate) fn append(&mut self, from: ListId, to: ListId) {
        let (source, target) = (self.head(from), self.head(to));
        if self.is_empty(from) || from == to {
            return;
        }
        let (first, last) = (self.next(source), self.previous(source));
        let newest = self.previous(target);
        self.join(newest, first);
        self.join(last, target);
        self.join(source, source);
    }

    /// Whether `list` has no slot.
    pub fn is_empty(&self, list: ListId) -> bool {
        self.oldest(list).is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(links: &mut Links, list: ListId) -> Vec<u32> {
        let mut out = Vec::new();
        while let Some(slot) = links.oldest(list) {
            out.push(slot.0);
            links.unlink(slot);
        }
        out
    }

    #[test]
    fn lists_keep_their_order_and_do_not_mix() {
        let mut links = Links::new(6, 2);
        for slot in [3, 1, 5] {
            links.push(ListId(0), SlotIndex(slot));
        }
        links.push(ListId(1), SlotIndex(0));
        links.unlink(SlotIndex(1));
        links.unlink(SlotIndex(1));
        assert!(!links.is_linked(SlotIndex(1)));
        links.push(ListId(1), SlotIndex(1));
        assert_eq!(drain(&mut links, ListId(0)), [3, 5]);
        assert_eq!(drain(&mut links, ListId(1)), [0, 1]);
        assert!(links.is_empty(ListId(0)));
    }

    #[test]
    fn bytes_are_those_that_are_taken() {
        for (slots, lists) in [(0, 1), (1, 2), (1000, 257)] {
            assert_eq!(Links::new(slots, lists).bytes(), Links::bytes_for(slots as u64, lists));
        }
    }

    #[test]
    fn a_list_goes_behind_another_whole() {
        let mut links = Links::new(5, 2);
        for (list, slot) in [(0, 4), (1, 0), (0, 2), (1, 3)] {
            links.push(ListId(list), SlotIndex(slot));
        }
        assert_eq!(links.newer(SlotIndex(4)), Some(SlotIndex(2)));
        assert_eq!(links.newer(SlotIndex(2)), None);
        links.append(ListId(0), ListId(1));
        assert!(links.is_empty(ListId(0)));
        links.append(ListId(0), ListId(1));
        links.append(ListId(1), ListId(1));
        assert_eq!(drain(&mut links, ListId(1)), [0, 3, 4, 2]);
        links.push(ListId(0), SlotIndex(1));
        links.append(ListId(0), ListId(1));
        assert_eq!(drain(&mut links, ListId(1)), [1]);
    }
}
