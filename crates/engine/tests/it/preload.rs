//! Rows that are loaded into memory before any mini-batch.

#![expect(clippy::unwrap_used, reason = "a test panics on unexpected results")]

use std::sync::Arc;

use stepwell_base::Key;
use stepwell_base::stop::StopRequest;
use stepwell_disk::MemDisk;
use stepwell_engine::{Group, Planner, Staging, TableSpec};
use stepwell_mem::PolicyKind;
use stepwell_optim::{RowOptimizer, Rule};
use stepwell_ssd::{Compaction, Store, StoreOptions};

const ROWS: u64 = 40_000;
/// Maximum bytes of reads of one store in flight.
const READER_BYTES: usize = 32 << 10;

fn spec() -> TableSpec {
    TableSpec::new(0, "rows", 16, RowOptimizer::new(Rule::sgd(0.1)).unwrap())
}

/// A group over a store of `ROWS` rows; each lane of a row is its key.
fn group(slots: usize) -> Group {
    let options = StoreOptions {
        segment_bytes: 256 << 10,
        buffer_bytes: 16 << 10,
        read_bytes: READER_BYTES,
        compaction: Compaction::Inline,
        ..StoreOptions::new(0, spec().row_bytes())
    };
    let store = Store::create(Arc::new(MemDisk::new()), options).unwrap();
    for key in 0..ROWS {
        let row: Vec<u8> = [key as f32; 16].iter().flat_map(|lane| lane.to_le_bytes()).collect();
        store.put_many(&[Key(key)], &[1], &row).unwrap();
    }
    let staging = Staging::new(spec().row_lanes(), 1, 1);
    Group::new(spec(), slots, Arc::new(store), staging).unwrap()
}

/// Preloads; returns the planner and the number of bytes read.
fn preload(group: &Group, slots: usize) -> (Planner, u64) {
    let mut planner = Planner::new(slots, 0, PolicyKind::default());
    let before = group.store.stats().bytes_read;
    group.preload(&mut planner, &StopRequest::new()).unwrap();
    (planner, group.store.stats().bytes_read - before)
}

#[test]
fn no_page_is_read_once_the_slots_are_full() {
    let slots = 100;
    let group = group(slots);
    let files = group.store.bytes_files();
    // Lists of keys identify the live rows, and reads run slightly ahead.
    let lists = 10 * ROWS;
    let (planner, read) = preload(&group, slots);
    assert_eq!(planner.cache().rows(), slots);
    let rows_read = read.saturating_sub(lists);
    assert!(rows_read <= 2 * READER_BYTES as u64, "{rows_read} of {files} bytes");
    assert!(files > 20 * READER_BYTES as u64, "{files}");
}

#[test]
fn slots_get_the_rows_of_their_keys_as_far_as_there_are_any() {
    for slots in [1, 3, ROWS as usize, ROWS as usize + 7] {
        let group = group(slots);
        let (planner, _) = preload(&group, slots);
        let held = slots.min(ROWS as usize);
        assert_eq!((planner.cache().rows(), planner.pinned()), (held, 0));
        for row in planner.cache().existing() {
            let slots = [row.slot];
            assert_eq!(group.slab.hold(&slots).row(0), [row.key.0 as f32; 16]);
        }
        assert_eq!(planner.cache().existing().count(), held);
    }
}

#[test]
fn a_stop_ends_it() {
    let group = group(100);
    let (mut planner, stop) = (Planner::new(100, 0, PolicyKind::default()), StopRequest::new());
    stop.make();
    assert!(group.preload(&mut planner, &stop).is_err());
    assert_eq!(planner.cache().rows(), 0);
}
