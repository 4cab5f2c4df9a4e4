//! Measures how long ranks take to exchange messages, for benchmarks.

use stepwell_base::clock::{Clock, SystemClock};

use crate::Result;
use crate::carrier::Tag;
use crate::collective::AllToAll;
use crate::fabric::Fabric;
use crate::message::Message;

/// Exchanges that are not measured: they allocate buffers and connect.
pub const WARM_UP: usize = 10;
const TAG: Tag = Tag(1);

/// Seconds of `times` exchanges in which every rank sends `bytes` bytes to every other. All ranks
/// call this with the same arguments. No rank sends to itself, and received messages are sent back,
/// so that only the exchange is measured.
///
/// # Errors
/// If a rank is gone.
pub fn all_to_all_seconds(fabric: &Fabric, bytes: usize, times: usize) -> Result<f64> {
    let message = |peer| {
        // A section is a word longer than its bytes.
        let mut message = fabric.message_of(bytes + size_of::<u64>());
        if peer != fabric.rank() {
            message.room::<u8>(bytes).fill(1);
        }
        message
    };
    let mut messages: Vec<Message> = (0..fabric.size()).map(message).collect();
    let mut exchange = || -> Result<()> {
        let all = AllToAll::start(fabric, TAG, std::mem::take(&mut messages))?;
        messages = fabric.wait(all)?;
        Ok(())
    };
    (0..WARM_UP).try_for_each(|_| exchange())?;
    let clock = SystemClock::new();
    (0..times).try_for_each(|_| exchange())?;
    let seconds = clock.seconds();
    messages.into_iter().for_each(|message| fabric.keep(message));
    Ok(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads;

    #[test]
    fn all_ranks_exchange_as_often() {
        let ranks = threads(3);
        let seconds: Vec<f64> = std::thread::scope(|scope| {
            let run = |rank| scope.spawn(move || all_to_all_seconds(rank, 1000, 5).unwrap());
            let threads: Vec<_> = ranks.iter().map(run).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(seconds.iter().all(|seconds| *seconds > 0.0), "{seconds:?}");
        for rank in &ranks {
            let sent = rank.sent();
            assert_eq!(sent.messages, 2 * (WARM_UP as u64 + 5));
            assert_eq!(sent.bytes, sent.messages * 1008);
        }
    }
}
