//! Processing of streams: by threads, or step by step.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use stepwell_base::random::{self, Stream as Random};
use stepwell_kernels::host::Schedule;

use super::machine::Inner;
use super::run;
use super::stream::{StreamState, Work};
use crate::Error;

impl Inner {
    /// Processes a stream of device `device` until it ends.
    pub(super) fn drive(&self, device: usize, stream: &StreamState) {
        let name = format!("{device} {} {}", stream.number, stream.name);
        let mut random = Random::named(self.settings.seed, name.as_bytes());
        while let Some(work) = stream.take() {
            let delay_max = self.settings.delay_max.as_secs_f64();
            if delay_max > 0.0 && matches!(work, Work::Do(_)) {
                // Usually short, occasionally near the maximum.
                let share = random.next_f64().powi(4);
                std::thread::sleep(Duration::from_secs_f64(share * delay_max));
            }
            if let Work::Await(event, number) = &work {
                event.wait(*number);
            }
            self.work(device, work);
        }
    }

    /// Does the next work of a random stream; `false` if none can continue.
    pub(super) fn step(&self) -> bool {
        let streams: Vec<(usize, Arc<StreamState>)> = {
            let mut streams = self.streams();
            streams.retain(|(_, stream)| !stream.is_done());
            streams.iter().map(|(device, stream)| (*device, Arc::clone(stream))).collect()
        };
        if streams.is_empty() {
            return false;
        }
        let first = self.draw() as usize % streams.len();
        let (before, after) = streams.split_at(first);
        for (device, stream) in after.iter().chain(before) {
            if let Some(work) = stream.take_runnable() {
                self.work(*device, work);
                return true;
            }
        }
        false
    }

    /// The next random number of the machine.
    pub(super) fn draw(&self) -> u64 {
        static GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;
        let drawn: &AtomicU64 = &self.drawn;
        random::finalize(drawn.fetch_add(GAMMA, Ordering::Relaxed))
    }

    fn work(&self, device: usize, work: Work) {
        match work {
            Work::Do(operation) => {
                let state = &self.devices[device];
                if state.failure().is_some() {
                    return;
                }
                let time = run::duration(&operation.what, self.settings.rate);
                if !time.is_zero() && self.has_threads() {
                    std::thread::sleep(time);
                }
                let (seed, workers) = (self.draw(), self.settings.workers);
                let outcome = match state.fault_for(&operation.what) {
                    Some(fault) => Err(fault),
                    None => {
                        let products = &*self.settings.products;
                        run::run(&operation.what, Schedule { seed, workers }, products)
                    }
                };
                if let Err((kernel, why)) = outcome {
                    let device = state.about.name.clone();
                    state.fail(Error::Kernel { device, kernel, why });
                }
                // Free the operation's memory before anyone can learn that the operation is over.
                drop(operation);
            }
            Work::Signal(event, number) => event.signal(number),
            Work::Await(..) => {}
        }
    }
}
