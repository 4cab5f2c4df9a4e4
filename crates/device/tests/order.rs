//! Copies between host and device in streams, with events for order and without.

use std::time::Duration;

use stepwell_device::emulated::{Machine, Settings, Time};
use stepwell_device::{Device, Error, Result};

fn machines() -> Vec<Machine> {
    let delay_max = Duration::from_millis(3);
    let threads = Settings { devices: 2, delay_max, ..Settings::default() };
    let stepped =
        (0..20).map(|seed| Settings { devices: 2, time: Time::Stepped, seed, ..threads.clone() });
    std::iter::once(threads.clone()).chain(stepped).map(Machine::new).collect()
}

/// Copies numbers up in one stream, to a second buffer in another, and down in a third, without
/// wait number `missing`, if given.
fn round_trip(device: &Device, missing: Option<usize>) -> Result<Vec<u32>> {
    let wants = |wait: usize| missing != Some(wait);
    let len = 1000;
    let [up, over, down] = ["up", "over", "down"].map(|name| device.stream(name));
    let (up, over, down) = (up?, over?, down?);
    let (a, b) = (device.buffer::<u32>(len, "a")?, device.buffer::<u32>(len, "b")?);
    let (mut source, mut target) = (device.pinned(len, "source")?, device.pinned(len, "target")?);
    for (index, word) in source.write(len)?.iter_mut().enumerate() {
        *word = index as u32;
    }
    let [is_up, is_over, is_down] = [device.event()?, device.event()?, device.event()?];
    up.up(&source, 0..len, &a, 0)?;
    up.record(&is_up)?;
    if wants(0) {
        over.wait(&is_up)?;
    }
    over.across(&a, 10..len, &b, 0)?;
    over.across(&a, 0..10, &b, len - 10)?;
    over.record(&is_over)?;
    if wants(1) {
        down.wait(&is_over)?;
    }
    down.down(&b, 0..len, &target, 0)?;
    down.record(&is_down)?;
    if wants(2) {
        is_down.wait()?;
    }
    Ok(target.read(len)?.to_vec())
}

#[test]
fn what_events_put_in_order_arrives() {
    let wanted: Vec<u32> = (10..1000).chain(0..10).collect();
    for machine in machines() {
        for device in machine.devices() {
            assert_eq!(round_trip(device, None).unwrap(), wanted);
        }
    }
}

#[test]
fn every_missing_wait_is_found_whatever_happens_first() {
    for machine in machines() {
        for missing in 0..3 {
            let error = round_trip(&machine.devices()[0], Some(missing)).unwrap_err();
            let text = error.to_string();
            let Error::Unordered { later, earlier, .. } = error else { panic!("{text}") };
            let names = [("over", "up"), ("down", "over"), ("host", "down")][missing];
            assert!(later.contains(names.0) && earlier.contains(names.1), "{text}");
            assert!(text.contains("order.rs:"), "{text}");
        }
    }
}

#[test]
fn memory_is_accounted_for_and_fresh_memory_is_poison() {
    let machine = Machine::new(Settings { memory_bytes: 1 << 20, ..Settings::default() });
    let device = &machine.devices()[0];
    let whole = device.buffer::<f32>(1 << 18, "everything").unwrap();
    let error = device.buffer::<u8>(1, "one more byte").unwrap_err().to_string();
    assert_eq!(error, "emulated:0: no room for one more byte (256 B): 0 B of 1.0 MiB are free");
    drop(whole);
    let some = device.buffer::<f32>(100, "some").unwrap();
    let mut host = device.pinned::<f32>(100, "host").unwrap();
    let stream = device.stream("only").unwrap();
    stream.down(&some, 0..100, &host, 0).unwrap();
    stream.finish().unwrap();
    assert!(host.read(100).unwrap().iter().all(|lane| lane.is_nan()));
    assert_eq!(device.memory().map(|bytes| bytes.0), [1 << 20, (1 << 20) - 512, 1 << 20]);
}

#[test]
fn a_device_that_is_lost_stays_lost_and_nobody_hangs() {
    for machine in machines() {
        let device = &machine.devices()[0];
        let stream = device.stream("only").unwrap();
        let event = device.event().unwrap();
        let buffer = device.buffer::<u8>(10, "some").unwrap();
        stream.clear(&buffer, 0..10).unwrap();
        stream.record(&event).unwrap();
        machine.lose(0);
        for error in [event.wait(), stream.finish(), stream.clear(&buffer, 0..1)] {
            let text = error.unwrap_err().to_string();
            assert_eq!(text, "emulated:0 is lost: it has fallen off the bus");
        }
        round_trip(&machine.devices()[1], None).unwrap();
    }
}
