//! Costs of messages and arithmetic: given, measured on this machine, or read from a file.
//!
//! The measurement uses two ranks that are threads: half the round-trip time of an empty message,
//! and the part of it for sending; the time of a large message, from values being put into it to a
//! copy of them at the receiver; and the time of adding one vector to another on one thread, from
//! caches. All are medians.

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use stepwell_base::clock::{Clock, SystemClock};
use stepwell_base::queue::Events;
use stepwell_fabric::{Fabric, Message, Network, Tag, threads};
use stepwell_sim::clock::{Computing, Times};

use crate::{Error, Result};

/// Costs, other than the time of a gradient.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// Bytes per second of a rank's link, each way.
    pub bytes_per_second: f64,
    /// Latency of an empty message after sending, in seconds.
    pub latency_seconds: f64,
    /// Bytes per second that vector additions read and write.
    pub arithmetic_bytes_per_second: f64,
    /// Seconds for sending a message.
    pub seconds_per_message: f64,
}

/// Values in the large message, and in an added vector.
const VALUES: usize = 1 << 20;
const ROUNDS: usize = 41;
/// Empty messages per round.
const EMPTY: usize = 100;
const TAG: Tag = Tag(0x5360);

impl Costs {
    /// EDR InfiniBand, and the copy rate of one core of a contemporary machine.
    pub const GIVEN: Self = Self {
        bytes_per_second: 100e9 / 8.0,
        latency_seconds: 2e-6,
        arithmetic_bytes_per_second: 12e9,
        seconds_per_message: 0.0,
    };

    /// Measures the costs of this machine, which takes seconds on two threads.
    ///
    /// # Errors
    /// Ranks can't communicate.
    pub fn measure() -> Result<Self> {
        let ends = threads(2);
        let [one, other] = &ends[..] else { unreachable!("two ends") };
        std::thread::scope(|scope| {
            let answers = scope.spawn(|| answer(other));
            let measured = Self::measured(one);
            if measured.is_err() {
                one.fail("it could not measure with the other rank");
            }
            let answered = answers.join().unwrap_or_else(|why| std::panic::resume_unwind(why));
            answered.and(measured)
        })
    }

    fn measured(fabric: &Fabric) -> Result<Self> {
        let (clock, events) = (SystemClock::new(), Events::new());
        fabric.wakes(&events);
        let values = vec![1.0_f32; VALUES];
        let (mut empty, mut large, mut sent, mut added) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut sums = vec![0.0_f32; VALUES];
        for _ in 0..ROUNDS {
            let begin = clock.seconds();
            let mut sending = 0.0;
            for _ in 0..EMPTY {
                let begin = clock.seconds();
                fabric.send(1, TAG, fabric.message())?;
                sending += clock.seconds() - begin;
                fabric.keep(receive(fabric, 1, &events)?);
            }
            empty.push((clock.seconds() - begin) / (2 * EMPTY) as f64);
            sent.push(sending / EMPTY as f64);
            let begin = clock.seconds();
            let mut message = fabric.message_of(size_of_val(&values[..]) + 16);
            message.put(&values);
            fabric.send(1, TAG, message)?;
            fabric.keep(receive(fabric, 1, &events)?);
            large.push(clock.seconds() - begin);
            let begin = clock.seconds();
            sums.iter_mut().zip(&values).for_each(|(sum, value)| *sum += value);
            added.push(clock.seconds() - begin);
        }
        assert_eq!(std::hint::black_box(&sums)[0], ROUNDS as f32, "all vectors were added");
        let mut end = fabric.message();
        end.put(&[0_u64]);
        fabric.send(1, TAG, end)?;
        let bytes = size_of_val(&values[..]) as f64;
        let empty = median(empty);
        // Time beyond a round trip of empty messages, at least the clock's resolution.
        let carried = (median(large) - 2.0 * empty).max(1e-9);
        // The receiver may answer while the sender is still waking it.
        let sending = median(sent).min(empty);
        Ok(Self {
            bytes_per_second: bytes / carried,
            latency_seconds: empty - sending,
            arithmetic_bytes_per_second: 3.0 * bytes / median(added).max(1e-9),
            seconds_per_message: sending,
        })
    }

    /// Reads costs from a file.
    ///
    /// # Errors
    /// A file that can't be read, or doesn't contain costs.
    pub fn read(path: &Path) -> Result<Self> {
        let text = stepwell_data::read_text(path)?;
        let wrong = |why: String| Error::Costs { path: path.to_owned(), why };
        let costs: Self = serde_json::from_str(&text).map_err(|why| wrong(why.to_string()))?;
        let above = [costs.bytes_per_second, costs.arithmetic_bytes_per_second];
        let least = [costs.latency_seconds, costs.seconds_per_message];
        let is_one = above.iter().all(|rate| *rate > 0.0 && rate.is_finite())
            && least.iter().all(|seconds| (0.0..=60.0).contains(seconds));
        if !is_one {
            let why = "rates must be finite and above 0, and times from 0 to 60 seconds".to_owned();
            return Err(wrong(why));
        }
        Ok(costs)
    }

    /// Times of a run with these costs; gradients take the time of `computing`.
    pub(crate) fn times(&self, computing: Computing) -> Times {
        Times {
            network: Network {
                bytes_per_second: self.bytes_per_second,
                latency_seconds: self.latency_seconds,
            },
            arithmetic: self.arithmetic_bytes_per_second,
            per_parcel: self.seconds_per_message,
            computing,
        }
    }
}

/// Answers every message with an empty one, after copying its contents, until a message asks to
/// stop.
fn answer(fabric: &Fabric) -> Result<()> {
    let (events, mut copy) = (Events::new(), Vec::new());
    fabric.wakes(&events);
    loop {
        let message = receive(fabric, 0, &events)?;
        if let Ok(values) = message.reader().take_exactly::<f32>(VALUES) {
            copy.clear();
            copy.extend_from_slice(values);
        } else if message.reader().take_exactly::<u64>(1).is_ok() {
            return Ok(());
        }
        fabric.keep(message);
        fabric.send(0, TAG, fabric.message())?;
    }
}

fn receive(fabric: &Fabric, from: usize, events: &Arc<Events>) -> Result<Message> {
    loop {
        let seen = events.count();
        if let Some(message) = fabric.receive(from, TAG)? {
            return Ok(message);
        }
        events.wait_past(seen);
    }
}

/// The median of at least one value; of an even number, the upper of the middle two.
pub(crate) fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_unstable_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_measured_is_read_again_and_nonsense_is_refused() {
        let costs = Costs::measure().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("costs.json");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            Costs::read(&path)
        };
        assert_eq!(read(&serde_json::to_string(&costs).unwrap()).unwrap(), costs);
        for (text, says) in [
            ("", "EOF"),
            ("{}", "missing field"),
            (
                r#"{"bytes_per_second":0,"latency_seconds":0,"arithmetic_bytes_per_second":1,
                    "seconds_per_message":0}"#,
                "above 0",
            ),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains("costs.json") && error.contains(says), "{error}");
        }
    }
}
