//! Order within a stream, between streams, and with the host.

use super::support::{contents, drawn, filled};
use crate::device::Device;
use crate::driver::STREAM_OPERATIONS_MAX;

const LEN: usize = 100_000;

pub(super) fn a_stream_keeps_its_order(device: &Device) {
    let stream = device.stream("in order").unwrap();
    let values = drawn(LEN, 1);
    let a = filled(device, &stream, &values);
    let b = device.buffer::<u8>(LEN, "b").unwrap();
    for round in 0..20 {
        stream.clear(&b, 0..LEN).unwrap();
        stream.across(&a, 0..LEN, &b, 0).unwrap();
        stream.clear(&a, 0..LEN).unwrap();
        stream.across(&b, 0..LEN, &a, 0).unwrap();
        stream.clear(&a, round..round + 1).unwrap();
    }
    let wanted = [vec![0; 20], values[20..].to_vec()].concat();
    assert!(contents(device, &stream, &a) == wanted);
}

/// A value is copied around a ring of streams, each of which waits for the previous one.
pub(super) fn streams_meet_at_events(device: &Device) {
    let names = ["first", "second", "third"];
    let streams = names.map(|name| device.stream(name).unwrap());
    let events = names.map(|_| device.event().unwrap());
    let values = drawn(LEN, 2);
    let first = filled(device, &streams[0], &values);
    let rest = names.map(|_| device.buffer::<u8>(LEN, "ring").unwrap());
    streams[0].across(&first, 0..LEN, &rest[0], 0).unwrap();
    for round in 0..30 {
        let (from, to) = (round % 3, (round + 1) % 3);
        streams[from].record(&events[from]).unwrap();
        streams[to].wait(&events[from]).unwrap();
        streams[to].across(&rest[from], 0..LEN, &rest[to], 0).unwrap();
        streams[to].clear(&rest[from], 0..LEN).unwrap();
        streams[to].clear(&rest[to], round..round + 1).unwrap();
    }
    let wanted = [vec![0; 30], values[30..].to_vec()].concat();
    assert!(contents(device, &streams[0], &rest[0]) == wanted);
}

/// A wait is for the last recording before it, not for later ones.
pub(super) fn an_event_stands_for_its_last_record(device: &Device) {
    let [one, other] = ["one", "other"].map(|name| device.stream(name).unwrap());
    let [event, done] = [device.event().unwrap(), device.event().unwrap()];
    let values = drawn(LEN, 3);
    let source = filled(device, &one, &values);
    let [a, b] = ["a", "b"].map(|name| device.buffer::<u8>(LEN, name).unwrap());
    let mut host = device.pinned::<u8>(LEN, "host").unwrap();
    for round in 0..10 {
        one.across(&source, 0..LEN, &a, 0).unwrap();
        one.record(&event).unwrap();
        other.wait(&event).unwrap();
        // If the wait above were for this recording, this would never end.
        other.down(&a, 0..LEN, &host, 0).unwrap();
        other.record(&done).unwrap();
        one.wait(&done).unwrap();
        one.clear(&b, 0..LEN).unwrap();
        one.record(&event).unwrap();
        event.wait().unwrap();
        assert!(host.read(LEN).unwrap() == values, "round {round}");
        host.write(LEN).unwrap().fill(0);
    }
}

/// A stream waits for another device's, and the host for both.
pub(super) fn devices_meet_at_events(from: &Device, to: &Device) {
    let (there, here) = (from.stream("there").unwrap(), to.stream("here").unwrap());
    let [sent, taken] = [from.event().unwrap(), to.event().unwrap()];
    let target = to.buffer::<u8>(LEN, "target").unwrap();
    let source = from.buffer::<u8>(LEN, "source").unwrap();
    let mut values = from.pinned::<u8>(LEN, "values").unwrap();
    let mut came = to.pinned::<u8>(LEN, "came").unwrap();
    for round in 0..5 {
        values.write(LEN).unwrap().copy_from_slice(&drawn(LEN, round));
        there.wait(&taken).unwrap();
        there.up(&values, 0..LEN, &source, 0).unwrap();
        there.record(&sent).unwrap();
        here.wait(&sent).unwrap();
        here.across(&source, 0..LEN, &target, 0).unwrap();
        here.down(&target, 0..LEN, &came, 0).unwrap();
        here.record(&taken).unwrap();
        // This is the only wait for the other device.
        taken.wait().unwrap();
        assert!(came.read(LEN).unwrap() == drawn(LEN, round), "round {round}");
    }
}

pub(super) fn an_event_nobody_recorded_is_over(device: &Device) {
    let stream = device.stream("idle").unwrap();
    let event = device.event().unwrap();
    assert!(event.is_over().unwrap());
    event.wait().unwrap();
    stream.wait(&event).unwrap();
    stream.finish().unwrap();
}

pub(super) fn an_event_comes_to_be_over(device: &Device) {
    let stream = device.stream("asked").unwrap();
    let event = device.event().unwrap();
    let buffer = device.buffer::<u8>(LEN, "asked").unwrap();
    let mut host = device.pinned::<u8>(LEN, "asked").unwrap();
    for round in 0..10 {
        stream.clear(&buffer, 0..LEN).unwrap();
        stream.down(&buffer, 0..LEN, &host, 0).unwrap();
        stream.record(&event).unwrap();
        while !event.is_over().unwrap() {
            std::thread::yield_now();
        }
        assert!(host.read(LEN).unwrap().iter().all(|byte| *byte == 0), "round {round}");
        host.write(LEN).unwrap().fill(1);
    }
}

/// After waiting for an event, everything before it may be used, also in streams it waited for.
pub(super) fn what_an_event_covers_is_free(device: &Device) {
    let streams = ["a", "b", "c"].map(|name| device.stream(name).unwrap());
    let events = [(); 3].map(|()| device.event().unwrap());
    let buffer = device.buffer::<u8>(LEN, "covered").unwrap();
    let mut hosts = [(); 3].map(|()| device.pinned::<u8>(LEN, "covered").unwrap());
    for round in 0..10u8 {
        hosts.iter_mut().for_each(|host| host.write(LEN).unwrap().fill(round));
        for (index, stream) in streams.iter().enumerate() {
            if let Some(before) = index.checked_sub(1) {
                stream.wait(&events[before]).unwrap();
            }
            stream.up(&hosts[index], 0..LEN, &buffer, 0).unwrap();
            stream.record(&events[index]).unwrap();
        }
        events[2].wait().unwrap();
        // The first two streams are waited for only through the third.
    }
    assert!(contents(device, &streams[2], &buffer).iter().all(|byte| *byte == 9));
}

pub(super) fn streams_hold_more_than_they_have_room_for(device: &Device) {
    let stream = device.stream("full").unwrap();
    let count = 3 * STREAM_OPERATIONS_MAX + 7;
    let source = filled(device, &stream, &drawn(count, 4));
    let buffer = device.buffer::<u8>(count, "full").unwrap();
    let event = device.event().unwrap();
    for at in 0..count {
        stream.across(&source, at..at + 1, &buffer, count - 1 - at).unwrap();
        if at % 100 == 0 {
            stream.record(&event).unwrap();
        }
    }
    event.wait().unwrap();
    let mut wanted = drawn(count, 4);
    wanted.reverse();
    assert!(contents(device, &stream, &buffer) == wanted);
}
