//! Copies, fills, and the memory that they use.

use super::support::{contents, drawn, filled};
use crate::device::Device;

/// Sizes at which copies may fail.
const SIZES: [usize; 9] = [0, 1, 3, 255, 256, 257, 4096, 1_000_003, 8 << 20];

pub(super) fn sizes_and_offsets(device: &Device) {
    let stream = device.stream("copies").unwrap();
    for (seed, len) in SIZES.into_iter().enumerate() {
        let values = drawn(len, seed as u64);
        let buffer = filled(device, &stream, &values);
        assert_eq!(contents(device, &stream, &buffer), values, "{len} bytes");
    }
    let values = drawn(5000, 99);
    let buffer = filled(device, &stream, &values);
    let mut host = device.pinned::<u8>(6000, "parts").unwrap();
    let mut wanted = vec![0; 6000];
    for (from, len, to) in [(0, 1, 1), (1, 2, 7), (255, 258, 511), (4999, 1, 5999), (13, 1000, 77)]
    {
        stream.down(&buffer, from..from + len, &host, to).unwrap();
        wanted[to..to + len].copy_from_slice(&values[from..from + len]);
    }
    stream.finish().unwrap();
    assert_eq!(host.read(6000).unwrap(), wanted, "parts come down where they belong");
    let mut wanted = values;
    for (from, len, to) in [(5999, 1, 0), (511, 300, 1), (0, 600, 4400)] {
        stream.up(&host, from..from + len, &buffer, to).unwrap();
        let part = &host.read(6000).unwrap()[from..from + len];
        wanted[to..to + len].copy_from_slice(part);
    }
    assert_eq!(contents(device, &stream, &buffer), wanted, "parts go up where they belong");
}

pub(super) fn what_is_cleared_is_zero(device: &Device) {
    let stream = device.stream("clears").unwrap();
    let values = vec![0xa5a5_a5a5_u32; 3000];
    let buffer = filled(device, &stream, &values);
    let mut wanted = values;
    for range in [0..0, 0..1, 5..6, 100..1357, 2999..3000, 3000..3000] {
        stream.clear(&buffer, range.clone()).unwrap();
        wanted[range].fill(0);
    }
    assert_eq!(contents(device, &stream, &buffer), wanted);
}

pub(super) fn fresh_pinned_memory_is_zero(device: &Device) {
    for round in 0..3 {
        let mut pinned = device.pinned::<u64>(1000, "fresh").unwrap();
        assert!(pinned.read(1000).unwrap().iter().all(|word| *word == 0), "round {round}");
        pinned.write(1000).unwrap().fill(u64::MAX);
    }
}

pub(super) fn memory_is_accounted_for(device: &Device) {
    let [all, free, _] = device.memory().map(|bytes| bytes.0);
    let some = device.buffer::<u8>(1000, "some").unwrap();
    let none = device.buffer::<u64>(0, "none").unwrap();
    let left = device.memory()[1].0;
    assert_eq!(free - left, Device::bytes_counted(1000) + Device::bytes_counted(0));
    drop((some, none));
    assert_eq!(device.memory()[1].0, free, "what is dropped is given back");
    assert!(device.memory()[2].0 >= all - left, "the peak is remembered");
    let error = device.buffer::<u8>(all as usize + 1, "too much").unwrap_err();
    assert!(matches!(error, crate::Error::OutOfMemory { .. }), "{error}");
    assert_eq!(device.memory()[1].0, free, "what is refused takes nothing");
}

/// Buffers are dropped while operations use them, and their memory isn't reused before these end.
pub(super) fn memory_lives_as_long_as_operations(device: &Device) {
    let free = device.memory()[1];
    let stream = device.stream("dropped").unwrap();
    let len = 1 << 20;
    let target = device.buffer::<u8>(len, "what stays").unwrap();
    for round in 0..8u64 {
        let values = drawn(len, round);
        {
            let on_the_way = device.buffer::<u8>(len, "what is dropped").unwrap();
            let mut host = device.pinned::<u8>(len, "what is dropped, too").unwrap();
            host.write(len).unwrap().copy_from_slice(&values);
            stream.up(&host, 0..len, &on_the_way, 0).unwrap();
            stream.across(&on_the_way, 0..len, &target, 0).unwrap();
        }
        let mut other = device.pinned::<u8>(len, "another").unwrap();
        other.write(len).unwrap().fill(0xee);
        drop(device.buffer::<u8>(len, "another").unwrap());
        assert_eq!(contents(device, &stream, &target), values, "round {round}");
    }
    drop(target);
    assert_eq!(device.memory()[1], free, "all of it is given back");
}

pub(super) fn across(from: &Device, to: &Device) {
    let (there, here) = (from.stream("there").unwrap(), to.stream("here").unwrap());
    for (seed, len) in [0, 1, 4097, 3 << 20].into_iter().enumerate() {
        let values = drawn(len + 10, seed as u64);
        let source = filled(from, &there, &values);
        let target = to.buffer::<u8>(len + 3, "target").unwrap();
        here.clear(&target, 0..len + 3).unwrap();
        here.across(&source, 7..7 + len, &target, 2).unwrap();
        let wanted = [&[0, 0], &values[7..7 + len], &[0]].concat();
        // The source is dropped before anyone waited.
        drop(source);
        let came = contents(to, &here, &target);
        assert!(came == wanted, "{len} bytes from {} to {}", from.about().name, to.about().name);
    }
}
