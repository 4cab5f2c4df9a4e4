//! The conformance suite on every available device.

use std::time::Duration;

use stepwell_device::conformance;
use stepwell_device::emulated::{Machine, Settings, Time};

#[test]
fn emulated_devices_whose_streams_have_threads_conform() {
    let delay_max = Duration::from_micros(200);
    let machine = Machine::new(Settings { devices: 2, delay_max, ..Settings::default() });
    assert_eq!(conformance::run(machine.devices()), [""; 0]);
}

#[test]
fn emulated_devices_that_make_steps_conform() {
    let seeds = if std::env::var_os("STEPWELL_LONG").is_some() { 3 } else { 1 };
    for seed in 0..seeds {
        let time = Time::Stepped;
        let machine = Machine::new(Settings { devices: 2, seed, time, ..Settings::default() });
        assert_eq!(conformance::run(machine.devices()), [""; 0]);
    }
}

#[cfg(feature = "cuda")]
#[test]
fn devices_of_nvidia_conform() {
    use stepwell_device::cuda::{self, Settings};

    let settings = Settings { memory_bytes: Some(1 << 30), ..Settings::default() };
    for check_order in [false, true] {
        match cuda::find(&Settings { check_order, ..settings.clone() }) {
            Ok(devices) => conformance::run(&devices).iter().for_each(stepwell_skip::skipped),
            Err(lacks) => stepwell_skip::skipped(lacks),
        }
    }
}

/// Missing libraries cause no panic.
#[cfg(feature = "cuda")]
#[test]
fn what_is_missing_is_said_in_one_line() {
    use stepwell_device::cuda::{self, Settings};

    for lacks in [cuda::find(&Settings::default()).err(), cuda::look().err()].iter().flatten() {
        assert!(!lacks.is_empty() && !lacks.contains('\n'), "{lacks}");
    }
}
