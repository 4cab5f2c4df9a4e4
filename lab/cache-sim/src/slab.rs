//! Runs a policy on a trace without a cache around it: tracks the rows in the slab, and counts
//! hits.

use stepwell_base::SlotIndex;
use stepwell_mem::Records;

use crate::policy::Candidate;
use crate::sequence::Sequence;

/// Marks a key without a slot.
const NONE: u32 = u32::MAX;

/// Hits of a policy in a slab of `slots` slots, which can hold any mini-batch.
pub(super) fn hits(sequence: &Sequence, slots: usize, kind: Candidate) -> usize {
    let mut policy = kind.make(slots);
    let mut records = Records::new(slots);
    let mut slot_of = vec![NONE; sequence.keys()];
    let mut held: Vec<u32> = Vec::new();
    let mut hits = 0;
    for batch in sequence.batches() {
        for id in batch.ids {
            let slot = slot_of[*id as usize];
            if slot != NONE {
                policy.detach(&mut records, SlotIndex(slot));
                hits += 1;
            }
        }
        for id in batch.ids {
            if slot_of[*id as usize] != NONE {
                continue;
            }
            let slot = if held.len() < slots {
                held.push(*id);
                SlotIndex(held.len() as u32 - 1)
            } else {
                let victim = policy.victim(&mut records);
                let Some(slot) = victim else { unreachable!("a slab holds a mini-batch") };
                slot_of[held[slot.at()] as usize] = NONE;
                held[slot.at()] = *id;
                slot
            };
            slot_of[*id as usize] = slot.0;
            records.put(slot, sequence.key(*id));
            policy.admit(&mut records, slot);
        }
        for (id, occurrence) in batch.ids.iter().zip(batch.occurrences) {
            policy.touch(&mut records, SlotIndex(slot_of[*id as usize]), *occurrence);
        }
        for id in batch.ids {
            policy.attach(&mut records, SlotIndex(slot_of[*id as usize]));
        }
    }
    hits
}
