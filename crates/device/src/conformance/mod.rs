//! Test suite of what every driver must guarantee.
//!
//! Refusals and lost devices aren't covered; each driver tests its own faults. The suite also runs
//! on devices that check the order of accesses, so every access here is ordered.

#![expect(clippy::unwrap_used, reason = "a suite of tests: a failure is a panic")]

mod copies;
mod events;
mod kernels;
mod products;
mod support;

use crate::device::Device;

/// Runs the whole suite on `devices` of one kind.
///
/// Returns what devices lack for it, one line each.
///
/// # Panics
/// On the first failure.
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
        match device.check_can_multiply() {
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
