//! What every driver promises, as a suite that runs on its devices.
//!
//! What a driver may refuse or lose is not in it: faults are the business of whoever makes them.
//! It is run on devices that check the order of accesses, too, so every access here is in order.

#![expect(clippy::unwrap_used, reason = "a suite of tests: a failure is a panic")]

mod copies;
mod events;
mod kernels;
mod products;

use bytemuck::Pod;
use stepwell_base::random;

use crate::{Buffer, Device, Stream};

/// Runs the whole suite on `devices`, which are of one kind.
///
/// Says what devices lack of it, a line each.
///
/// # Panics
/// On the first promise that does not hold.
#[must_use]
pub fn run(devices: &[Device]) -> Vec<String> {
    let mut lacking = Vec::new();
    for device in devices {
        copies::sizes_and_offsets(device);
        copies::what_is_cleared_is_zero(device);
        copies::fresh_pinned_memory_is_zero(device);
        copies::memory_is_accounted_for(device);
        copies::memory_lives_as_long_as_operations(device);
        events::a_stream_keeps_its_order(device);
        events::streams_meet_at_events(device);
        events::an_event_stands_for_its_last_record(device);
        events::an_event_nobody_recorded_is_over(device);
        events::an_event_comes_to_be_over(device);
        events::what_an_event_covers_is_free(device);
        events::streams_hold_more_than_they_have_room_for(device);
        kernels::of_rows(device);
        kernels::of_numbers(device);
        kernels::again_and_again(device);
        match device.multiplies() {
            Ok(()) => products::all(device),
            Err(lacks) => lacking.push(lacks.to_string()),
        }
    }
    for from in devices {
        for to in devices {
            copies::across(from, to);
            events::devices_meet_at_events(from, to);
        }
    }
    lacking
}

/// Numbers that look like nothing else.
fn drawn(len: usize, seed: u64) -> Vec<u8> {
    (0..len as u64).map(|at| (random::finalize(at ^ seed << 32) >> 24) as u8).collect()
}

/// Puts `values` into a fresh buffer, and waits until they are there.
fn filled<T: Pod>(device: &Device, stream: &Stream, values: &[T]) -> Buffer<T> {
    let buffer = device.buffer(values.len(), "a buffer of the suite").unwrap();
    let mut staging = device.pinned(values.len(), "values of the suite").unwrap();
    staging.write(values.len()).unwrap().copy_from_slice(values);
    stream.up((&staging, 0..values.len()), (&buffer, 0)).unwrap();
    stream.finish().unwrap();
    buffer
}

/// What a buffer holds, behind all that `stream` was given.
fn contents<T: Pod>(device: &Device, stream: &Stream, buffer: &Buffer<T>) -> Vec<T> {
    let mut staging = device.pinned(buffer.len(), "results of the suite").unwrap();
    stream.down((buffer, 0..buffer.len()), (&staging, 0)).unwrap();
    stream.finish().unwrap();
    staging.read(buffer.len()).unwrap().to_vec()
}
