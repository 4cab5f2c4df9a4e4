//! The conformance suite on every device that a process can have.

use std::time::Duration;

use stepwell_device::conformance;
use stepwell_device::emulated::{Machine, Settings, Time};

#[test]
fn emulated_devices_whose_streams_have_threads_conform() {
    let delay_max = Duration::from_micros(200);
    let machine = Machine::new(Settings { devices: 2, delay_max, ..Settings::default() });
    conformance::run(machine.devices());
}

#[test]
fn emulated_devices_that_make_steps_conform() {
    for seed in 0..3 {
        let time = Time::Stepped;
        let machine = Machine::new(Settings { devices: 2, seed, time, ..Settings::default() });
        conformance::run(machine.devices());
    }
}
