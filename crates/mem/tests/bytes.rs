//! Bytes of a cache according to the plan (I10), compared to what allocator and system provided.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "what a test asks for is there")]

use stepwell_base::{Key, SlotIndex};
use stepwell_mem::{Cache, Occurrence, PolicyKind, bytes_of_known_uses, metadata_bytes};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

const ONCE: Occurrence = Occurrence { examples: 1, positives: 0, importance: 0.0 };

/// The structs that own the lists: a few dozen bytes each, for any number of slots.
const HEADERS: u64 = 1 << 10;
/// Unused parts of last pages, and memory that the allocator takes from the system ahead: a tenth
/// of the least memory of a cache of many slots.
const ROUNDING: u64 = 256 << 10;

/// Writable bytes of the process: mappings and heap, touched or not.
fn writable() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmData:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// Bytes allocated and not freed, and bytes ever allocated.
fn heap() -> (u64, u64) {
    let stats = dhat::HeapStats::get();
    (stats.curr_bytes as u64, stats.total_bytes)
}

/// Fills every slot, then gives each to other keys, using some rows again.
fn use_up(cache: &mut Cache, mut key: u64) {
    let slots = cache.slots() as u64;
    for round in 0..3 * slots {
        key += 1;
        let slot = cache.place(Key(key)).unwrap().slot;
        cache.trained(slot, ONCE);
        cache.unpin(slot);
        let old = SlotIndex((round * 7 % slots.min(round + 1)) as u32);
        cache.pin(old);
        cache.trained(old, ONCE);
        cache.unpin(old);
    }
}

/// A single test, as another one in parallel would be counted, too.
#[test]
fn a_cache_takes_what_the_plan_says() {
    wait_until_alone();
    let _profiler = dhat::Profiler::builder().testing().build();
    metadata();
    known_uses();
}

/// Waits until the thread that started the test sleeps, as its allocations would be counted.
fn wait_until_alone() {
    let starter = std::process::id().to_string();
    let own = std::fs::read_link("/proc/thread-self").unwrap();
    let state = format!("/proc/self/task/{starter}/stat");
    while !own.ends_with(&starter) && !std::fs::read_to_string(&state).unwrap().contains(") S ") {
        std::thread::yield_now();
    }
}

/// Many slots, where mappings dominate; many batches, where lists do; and almost nothing.
fn metadata() {
    // Nothing is freed in between, so each cache's memory is new to the process.
    let mut all = Vec::with_capacity(3 * PolicyKind::ALL.len());
    for (slots, horizon) in [(100_000, 16), (2000, 50_000), (1, 0)] {
        for kind in PolicyKind::ALL {
            let (heap_before, writable_before) = (heap().0, writable());
            let mut cache = Cache::with_policy(slots, horizon, kind);
            let (taken, asked) = (heap().0 - heap_before, heap().1);
            use_up(&mut cache, 0);
            assert_eq!(heap().1, asked, "{kind}: rows that come and go take no memory");
            let grown = writable().saturating_sub(writable_before);
            let bound = metadata_bytes(kind, slots as u64, horizon as u64 + 2);
            let what = format!("{kind}, {slots} slots: {bound} planned, {grown} grown, {taken}");
            assert!(grown <= bound + ROUNDING, "{what}");
            assert!(bound <= grown + ROUNDING, "{what}");
            // The allocator doesn't see mappings: records, buckets and, for some policies, links.
            let mapped = 16 * slots as u64 + slots.div_ceil(9).max(2) as u64 * 64;
            assert!(taken + mapped <= bound + HEADERS, "{what}");
            assert!(bound <= taken + mapped + 8 * (slots as u64 + 600), "{what}");
            all.push(cache);
        }
    }
}

/// Rows with a known next use, noted once each as the planner does, and repeatedly.
fn known_uses() {
    const ROWS: u64 = 10_000;
    const BATCHES: u32 = 3;
    let mut cache = Cache::new(ROWS as usize, BATCHES as usize);
    let slots: Vec<SlotIndex> = (0..ROWS).map(|key| cache.place(Key(key)).unwrap().slot).collect();
    let before = heap().0;
    for slot in &slots {
        cache.expect(*slot, Some(slot.0 % BATCHES));
        cache.unpin(*slot);
    }
    let (bound, taken) = (bytes_of_known_uses(ROWS), heap().0 - before);
    assert!((ROWS * 4..=bound).contains(&taken), "{taken} bytes, {bound} planned");
    assert!(bound <= 2 * taken, "{taken} bytes, {bound} planned");
    for _ in 0..20 {
        for slot in &slots {
            cache.pin(*slot);
            cache.unpin(*slot);
        }
        let taken = heap().0 - before;
        assert!(taken <= 2 * bound, "{taken} bytes, {bound} planned for rows noted once");
    }
    // A row without a next use is not noted.
    for slot in &slots {
        cache.pin(*slot);
        cache.expect(*slot, None);
    }
    assert_eq!(heap().0, before);
}
