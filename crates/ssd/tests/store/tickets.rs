//! Asynchronous look-ups: each finds the rows as of when it was submitted.

use std::io::ErrorKind;
use std::sync::Arc;

use stepwell_base::Key;
use stepwell_base::random::Stream;
use stepwell_disk::{Failure, Faults, FaultyDisk, Lasting, MemDisk, Operation};
use stepwell_ssd::{Lookup, Reader, Result, Store, StoreOptions, Ticket};

use crate::common::{
    KEYS, Oracle, ROW_BYTES, get, keys, learn, new_store, options, payload, put, reopen,
};
use crate::harness::shared;
use crate::history::version;

fn submit(reader: &mut Reader, keys: &[u64]) -> Ticket {
    reader.submit(Lookup::new(keys.iter().map(|key| Key(*key)).collect())).unwrap()
}

/// The rows of a look-up, in the order of its keys.
fn rows_of(lookup: &Lookup) -> Vec<Option<&[u8]>> {
    assert_eq!(lookup.rows.len(), lookup.keys.len() * ROW_BYTES);
    let rows = lookup.rows.chunks_exact(ROW_BYTES).zip(&lookup.found);
    rows.map(|(row, found)| found.then_some(row)).collect()
}

fn assert_found(lookup: &Lookup, oracle: &Oracle) {
    for (key, row) in lookup.keys.iter().zip(rows_of(lookup)) {
        let expected = oracle.get(&key.0).map(|seq| payload(key.0, *seq));
        assert!(row == expected.as_deref(), "key {} is of version {:?}", key.0, version(row));
    }
}

/// A store of several segments whose last rows are in memory.
fn filled() -> (MemDisk, Store, Oracle) {
    let (disk, store) = new_store();
    let mut oracle = Oracle::new();
    let rows: Vec<(u64, u64)> = (0..KEYS - 50).map(|key| (key, key)).collect();
    put(&store, &rows).unwrap();
    learn(&mut oracle, &rows);
    (disk, store, oracle)
}

#[test]
fn tickets_are_waited_for_in_any_order() {
    let (_, store, oracle) = filled();
    let mut reader = store.reader().unwrap();
    let mut dice = Stream::from_state(3);
    for _ in 0..40 {
        let count = 1 + dice.next_u64() % 8;
        let mut tickets: Vec<(Ticket, Vec<u64>)> = (0..count)
            .map(|_| {
                // Duplicates, absent keys, no keys; more pages than the queue takes.
                let keys = keys(&mut dice, 150);
                (submit(&mut reader, &keys), keys)
            })
            .collect();
        assert_eq!(reader.in_flight() as u64, count);
        while !tickets.is_empty() {
            let at = dice.next_u64() as usize % tickets.len();
            let (ticket, keys) = tickets.swap_remove(at);
            let lookup = reader.wait(ticket).unwrap();
            assert!(lookup.keys.iter().map(|key| key.0).eq(keys));
            assert_found(&lookup, &oracle);
            if dice.next_u64().is_multiple_of(4) {
                let keys = crate::common::keys(&mut dice, 20);
                tickets.push((submit(&mut reader, &keys), keys));
            }
        }
        assert_eq!(reader.in_flight(), 0);
    }
    let stats = store.stats();
    assert!(stats.lookups_merged > 0 && stats.lookups_buffered > 0 && stats.lookups_absent > 0);
}

#[test]
fn the_memory_of_a_lookup_is_used_again() {
    let (_, store, oracle) = filled();
    let mut reader = store.reader().unwrap();
    let mut lookup = Lookup::default();
    for first in [0, 100, 390, 20, 5] {
        lookup.keys.clear();
        lookup.keys.extend((first..first + 10 + first % 7).map(Key));
        let ticket = reader.submit(lookup).unwrap();
        lookup = reader.wait(ticket).unwrap();
        assert_found(&lookup, &oracle);
        assert_eq!(lookup.found.len(), lookup.keys.len());
    }
    // A row that is not found does not change its bytes.
    let ticket = reader.submit(Lookup::new(vec![Key(KEYS)])).unwrap();
    let lookup = reader.wait(ticket).unwrap();
    assert_eq!((lookup.found, lookup.rows), (vec![false], vec![0; ROW_BYTES]));
}

#[test]
fn a_row_is_what_it_was_when_it_was_asked_for() {
    let (disk, store, oracle) = filled();
    store.commit().unwrap();
    put(&store, &[(1, 1_000), (399, 1_001)]).unwrap();
    let mut before = oracle.clone();
    learn(&mut before, &[(1, 1_000), (399, 1_001)]);
    let mut reader = store.reader().unwrap();
    let all: Vec<u64> = (0..KEYS).collect();
    let tickets: Vec<Ticket> = all.chunks(100).map(|keys| submit(&mut reader, keys)).collect();
    // Everything is overwritten, deleted or expired, and its old files are removed.
    let rows: Vec<(u64, u64)> = (0..300).map(|key| (key, 2_000 + key)).collect();
    put(&store, &rows).unwrap();
    store.delete_many(&(200..KEYS).map(Key).collect::<Vec<_>>()).unwrap();
    store.expire_before(5_000).unwrap();
    while store.compact().unwrap() > 0 {
        store.commit().unwrap();
    }
    store.commit().unwrap();
    put(&store, &[(1, 6_000)]).unwrap();
    store.commit().unwrap();
    assert!(store.stats().segments_merged > 8, "{:?}", store.stats());
    for ticket in tickets.into_iter().rev() {
        assert_found(&reader.wait(ticket).unwrap(), &before);
    }
    let found = get(&store, &all).unwrap();
    assert_eq!(found.iter().flatten().count(), 1);
    assert_eq!(get(&reopen(&disk).unwrap(), &[1]).unwrap(), [Some(payload(1, 6_000))]);
}

#[test]
fn a_reader_may_outlive_its_store_and_leave_tickets_behind() {
    let (_, store, oracle) = filled();
    let mut reader = store.reader().unwrap();
    let mut forgotten = store.reader().unwrap();
    let ticket = submit(&mut reader, &[3, 5, 349]);
    let _ = submit(&mut forgotten, &(0..KEYS).collect::<Vec<_>>());
    drop(forgotten);
    drop(store);
    assert_found(&reader.wait(ticket).unwrap(), &oracle);
}

#[test]
#[should_panic(expected = "a ticket of this reader")]
fn a_ticket_of_another_reader_is_a_mistake() {
    let (_, store, _) = filled();
    let mut reader = store.reader().unwrap();
    let ticket = submit(&mut reader, &[1]);
    drop(store.reader().unwrap().wait(ticket));
}

#[test]
fn a_failed_read_fails_its_ticket_alone() {
    let disk = FaultyDisk::new(shared(&MemDisk::new()), Faults::default());
    let store = Store::create(Arc::new(disk.clone()), options()).unwrap();
    let rows: Vec<(u64, u64)> = (0..350).map(|key| (key, key)).collect();
    put(&store, &rows).unwrap();
    let oracle = Oracle::from_iter(rows);
    for after in 0..24 {
        let mut reader = store.reader().unwrap();
        let failure = Failure {
            operation: Some(Operation::Read),
            after,
            kind: ErrorKind::Other,
            lasting: Lasting::Once,
        };
        disk.inflict(Faults { failure: Some(failure), ..Faults::default() });
        let tickets: Vec<Ticket> = (0..4)
            .map(|part| {
                let keys: Vec<u64> = (0..24).map(|at| (at * 37 + part * 90) % 320).collect();
                submit(&mut reader, &keys)
            })
            .collect();
        let outcomes: Vec<Result<Lookup>> =
            tickets.into_iter().rev().map(|ticket| reader.wait(ticket)).collect();
        let failed = outcomes.iter().filter(|outcome| outcome.is_err()).count();
        assert_eq!(failed, 1, "read number {after}");
        outcomes.iter().flatten().for_each(|lookup| assert_found(lookup, &oracle));
        // The reader still works.
        disk.inflict(Faults::default());
        let ticket = submit(&mut reader, &[0, 100, 200, 300]);
        assert_found(&reader.wait(ticket).unwrap(), &oracle);
        assert_eq!(reader.in_flight(), 0);
    }
}

#[test]
fn a_narrow_queue_answers_wide_lookups() {
    let (disk, store, oracle) = filled();
    store.commit().unwrap();
    drop(store);
    for (read_depth, read_bytes) in [(1, 1), (1, 8_192), (2, 12_288), (3, 1 << 20), (128, 4_096)] {
        let narrow = StoreOptions { read_depth, read_bytes, ..options() };
        let store = Store::open(shared(&disk), narrow).unwrap();
        let mut reader = store.reader().unwrap();
        let all: Vec<u64> = (0..KEYS).rev().collect();
        let tickets: Vec<Ticket> = (0..3).map(|_| submit(&mut reader, &all)).collect();
        let few = submit(&mut reader, &[7, 7, 340]);
        assert_found(&reader.wait(few).unwrap(), &oracle);
        for ticket in tickets {
            assert_found(&reader.wait(ticket).unwrap(), &oracle);
        }
        let mut found = [false; 2];
        let mut rows = vec![0; 2 * ROW_BYTES];
        store.get_many(&[Key(349), Key(0)], &mut rows, &mut found).unwrap();
        assert_eq!(found, [true; 2]);
    }
}

#[test]
fn one_call_may_have_any_number_of_rows() {
    let larger = StoreOptions { segment_bytes: 1 << 20, index_bytes_max: 8 << 20, ..options() };
    let store = Store::create(shared(&MemDisk::new()), larger).unwrap();
    // More than one portion, some keys several times: the last one counts.
    let rows: Vec<(u64, u64)> = (0..40_000).map(|seq| (seq * 7 % 33_000, seq)).collect();
    put(&store, &rows).unwrap();
    let oracle = Oracle::from_iter(rows.iter().copied());
    assert_eq!((store.len(), store.next_seq()), (33_000, 40_000));
    let mut reader = store.reader().unwrap();
    let all: Vec<u64> = rows.iter().map(|(key, _)| *key).rev().collect();
    let ticket = submit(&mut reader, &all);
    assert_found(&reader.wait(ticket).unwrap(), &oracle);
    let half: Vec<Key> = (0..33_000).step_by(2).map(Key).collect();
    assert_eq!(store.delete_many(&half).unwrap(), 16_500);
    let ticket = submit(&mut reader, &all);
    let left = oracle.into_iter().filter(|(key, _)| key % 2 == 1).collect();
    assert_found(&reader.wait(ticket).unwrap(), &left);
}
