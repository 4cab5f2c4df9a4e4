//! The conformance suite on every carrier that works in one process, and the effects of faults.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use stepwell_base::clock::{Clock, SystemClock};
use stepwell_base::random::Stream;
use stepwell_fabric::collective::{AllToAll, Barrier};
use stepwell_fabric::{
    Carrier, Error, Fabric, Faults, FaultyCarrier, Malformed, Message, Network, Parcel, Post,
    QUEUED_MAX, Sent, Tag, WindowNumber, conformance, threads,
};

/// Runs `job` as each of `ranks`, on a thread each.
fn on_threads(ranks: Vec<Fabric>, job: impl Fn(&Fabric) + Sync) {
    std::thread::scope(|scope| {
        for rank in &ranks {
            scope.spawn(|| job(rank));
        }
    });
}

/// The same, with parcels delivered in an order drawn from `seed`.
fn on_post(size: usize, seed: u64, job: impl Fn(&Fabric) + Sync) {
    let (post, ranks) = Post::new(size);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (stream, mut at) = (Stream::named(seed, b"post"), 0);
            while !over.load(Ordering::Acquire) || post.under_way() > 0 {
                at += 1;
                if !post.deliver(|pairs| (stream.at(at) % pairs as u64) as usize) {
                    std::thread::yield_now();
                }
            }
        });
        // Set even if a rank panics, or the post would deliver forever.
        struct Over<'a>(&'a AtomicBool);
        impl Drop for Over<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Release);
            }
        }
        let _over = Over(&over);
        on_threads(ranks, job);
    });
}

#[test]
fn threads_keep_the_promises() {
    for size in [1, 2, 3, 5, 8] {
        on_threads(threads(size), conformance::run);
    }
}

#[test]
fn a_simulated_network_keeps_the_promises() {
    for (size, seed) in [(1, 1), (2, 2), (3, 3), (5, 4), (8, 5)] {
        on_post(size, seed, conformance::run);
    }
}

#[test]
fn a_faulty_carrier_without_faults_keeps_the_promises() {
    on_threads(faulty(3, Faults::default()), conformance::run);
}

/// Ranks on a network that is fast enough for tests, and slow enough to delay all of them.
#[expect(clippy::unwrap_used, reason = "without a thread there is nothing to test")]
fn slow(size: usize) -> Vec<Fabric> {
    let network = Network { bytes_per_second: 1e9, latency_seconds: 2e-5 };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    threads(size).into_iter().map(|end| network.slow_down(end, &clock).unwrap()).collect()
}

#[test]
fn a_slow_network_keeps_the_promises() {
    for size in [1, 2, 3, 5] {
        on_threads(slow(size), conformance::run);
    }
}

#[test]
fn all_hear_why_one_failed() {
    on_threads(slow(3), conformance::run_failing);
    on_threads(threads(4), conformance::run_failing);
    on_post(4, 7, conformance::run_failing);
}

#[test]
fn nobody_passes_a_barrier_before_all_have_come() {
    let come = AtomicUsize::new(0);
    let job = |fabric: &Fabric| {
        for round in 1..=20 {
            come.fetch_add(1, Ordering::SeqCst);
            fabric.wait(Barrier::start(Tag(1))).unwrap();
            assert!(come.load(Ordering::SeqCst) >= round * fabric.size());
        }
    };
    on_threads(threads(3), job);
    come.store(0, Ordering::SeqCst);
    on_post(5, 9, job);
}

/// Ranks on threads, the first with a faulty carrier.
fn faulty(size: usize, faults: Faults) -> Vec<Fabric> {
    let wrap = |fabric: Fabric| match fabric.rank() {
        0 => fabric.carried_by(|inner| Arc::new(FaultyCarrier::new(inner, faults))),
        _ => fabric,
    };
    threads(size).into_iter().map(wrap).collect()
}

fn numbers(count: u64) -> Message {
    let mut message = Message::new();
    message.put(&(0..count).collect::<Vec<u64>>());
    message
}

#[test]
fn what_goes_to_others_is_counted_and_what_stays_is_not() {
    let ranks = faulty(3, Faults { refused: Some(3), ..Faults::default() });
    ranks[1].open_window(WindowNumber(1), 16);
    ranks[0].send(0, Tag(1), numbers(100)).unwrap();
    assert_eq!(ranks[0].sent(), Sent::default());
    ranks[0].send(2, Tag(1), numbers(3)).unwrap();
    ranks[0].clone().put(1, WindowNumber(1), 0, &[1, 2, 3]).unwrap();
    // A section is its length and whole words.
    let sent = Sent { messages: 2, bytes: (8 + 24) + (8 + 8) };
    assert_eq!(ranks[0].sent(), sent);
    ranks[0].send(1, Tag(1), numbers(1)).unwrap_err();
    ranks[0].end();
    assert_eq!(ranks[0].sent(), sent, "nothing of what did not leave, or says nothing");
    assert_eq!(ranks[2].sent(), Sent::default());
}

#[test]
fn what_is_refused_is_an_error_and_names_the_rank() {
    let ranks = faulty(2, Faults { refused: Some(2), ..Faults::default() });
    ranks[0].send(1, Tag(1), numbers(1)).unwrap();
    let error = ranks[0].send(1, Tag(1), numbers(2)).unwrap_err();
    assert_eq!(error.to_string(), "cannot send to rank 1: as it was told to");
    ranks[0].send(1, Tag(1), numbers(3)).unwrap();
    assert_eq!(ranks[1].receive(0, Tag(1)), Ok(Some(numbers(1))));
    assert_eq!(ranks[1].receive(0, Tag(1)), Ok(Some(numbers(3))));
}

/// Refuses parcels to another rank, which fails at that moment.
#[derive(Debug)]
struct FailsMeanwhile(Fabric);

impl Carrier for FailsMeanwhile {
    fn carry(&self, to: usize, _: Parcel) -> Result<Option<Message>, Error> {
        self.0.fail("its disk is full");
        Err(Error::Refused { rank: to, why: "it is lost".to_owned() })
    }
}

#[test]
fn a_refusal_because_a_rank_went_meanwhile_says_why_it_went() {
    let mut ranks = threads(2);
    let other = ranks.remove(1);
    let rank = ranks.remove(0).carried_by(|_| Arc::new(FailsMeanwhile(other)));
    let error = rank.put(1, WindowNumber(1), 0, &[1]).unwrap_err();
    assert_eq!(error.to_string(), "rank 1 failed: its disk is full");
}

#[test]
fn what_was_damaged_is_found_by_who_reads_it() {
    let ranks = faulty(2, Faults { damaged: Some(1), ..Faults::default() });
    ranks[0].send(1, Tag(1), numbers(3)).unwrap();
    let came = ranks[1].receive(0, Tag(1)).unwrap().unwrap();
    let why = came.reader().take::<u64>().unwrap_err();
    assert_eq!(why, Malformed::Section { section: 0, bytes: 24 });
    let error = Error::malformed(0, why).to_string();
    assert!(error.contains("rank 0") && error.contains("section 0 of 24 bytes"), "{error}");
}

#[test]
fn who_falls_silent_holds_up_the_others_and_nothing_else() {
    let ranks = faulty(2, Faults { silent: Some(1), ..Faults::default() });
    let start = |rank: &Fabric| AllToAll::start(rank, Tag(1), vec![numbers(1), numbers(2)]);
    let exchanges: Vec<_> = ranks.iter().map(|rank| start(rank).unwrap()).collect();
    let mut exchanges = exchanges.into_iter();
    let came = ranks[0].wait(exchanges.next().unwrap()).unwrap();
    assert_eq!(came, [numbers(1), numbers(1)], "rank 0 hears rank 1");
    assert_eq!(ranks[1].receive(0, Tag(1)), Ok(None));
}

#[test]
fn who_sends_without_end_is_named() {
    let ranks = threads(2);
    for _ in 0..QUEUED_MAX {
        ranks[0].send(1, Tag(5), numbers(1)).unwrap();
    }
    ranks[0].send(1, Tag(6), numbers(1)).unwrap();
    assert!(ranks[1].receive(0, Tag(6)).is_ok());
    ranks[0].send(1, Tag(5), numbers(1)).unwrap();
    let error = ranks[1].receive(0, Tag(5)).unwrap_err().to_string();
    assert!(error.contains("rank 0 has 65 messages of tag 5 waiting"), "{error}");
}

#[test]
fn what_is_put_beyond_a_window_breaks_nothing_but_the_fabric() {
    for (window, offset) in [(1, 13), (1, usize::MAX), (2, 0)] {
        let ranks = threads(2);
        ranks[1].open_window(WindowNumber(1), 16);
        ranks[0].put(1, WindowNumber(window), offset, &[1, 2, 3, 4]).unwrap();
        let error = ranks[1].receive(0, Tag(1)).unwrap_err().to_string();
        assert!(error.contains("a message from rank 0 makes no sense"), "{error}");
        let mut bytes = [1u8; 16];
        ranks[1].read(WindowNumber(1), 0, &mut bytes);
        assert_eq!(bytes, [0; 16]);
    }
}
