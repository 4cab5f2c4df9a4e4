//! The promises of every carrier, as a program that all ranks run concurrently.

#![expect(clippy::unwrap_used, reason = "a suite of tests: a failure is a panic")]

use stepwell_base::random::Stream;

use crate::carrier::{Tag, WindowNumber};
use crate::collective::{AllToAll, Barrier, Broadcast, Collective, Gather, all_gather};
use crate::fabric::Fabric;
use crate::message::Message;
use crate::{Error, Result};

const BARRIER: Tag = Tag(0);
const TAG: Tag = Tag(1);
const OTHER: Tag = Tag(2);

/// Runs the whole suite as one of the ranks of `fabric`, which it ends.
///
/// # Panics
/// If a promise does not hold.
pub fn run(fabric: &Fabric) {
    let _tells = Tells(fabric);
    messages_of_a_pair_keep_their_order(fabric);
    tags_do_not_wait_for_each_other(fabric);
    messages_have_any_size(fabric);
    everybody_sends_everybody(fabric);
    several_are_under_way(fabric);
    the_root_has_what_all_sent(fabric);
    every_root_is_heard(fabric);
    what_is_put_shows_before_what_is_sent(fabric);
    who_waits_is_told_of_what_is_put(fabric);
    drawn_traffic_arrives(fabric);
    fabric.wait(Barrier::start(BARRIER)).unwrap();
    nothing_comes_of_who_has_ended(fabric);
}

/// Reports a panic to the other ranks, which would wait forever.
struct Tells<'a>(&'a Fabric);

impl Drop for Tells<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail("a test failed");
        }
    }
}

/// Runs a job in which rank 0 fails: all others learn why.
///
/// # Panics
/// If they do not.
pub fn run_failing(fabric: &Fabric) {
    if fabric.rank() == 0 {
        return fabric.fail("the disk is full");
    }
    let error = fabric.wait(Receive(0, TAG)).unwrap_err();
    assert_eq!(error, Error::Failed { rank: 0, why: "the disk is full".to_owned() });
    let from_another = fabric.receive(fabric.rank(), TAG);
    assert_eq!(from_another, Err(error.clone()), "nobody goes on");
    assert_eq!(fabric.send(0, TAG, Message::new()), Err(error));
}

/// The next message of a rank.
struct Receive(usize, Tag);

impl Collective for Receive {
    type Output = Message;

    fn poll(&mut self, fabric: &Fabric) -> Result<Option<Message>> {
        fabric.receive(self.0, self.1)
    }
}

/// A message of `count` numbers that only `from` would send as its number `number`.
fn message(fabric: &Fabric, from: usize, number: usize, count: usize) -> Message {
    let mut message = fabric.message();
    message.put(&[from as u64, number as u64]);
    let values = message.room::<u32>(count);
    let first = (from * 31 + number * 7) as u32;
    (first..).zip(values).for_each(|(value, place)| *place = value);
    message
}

fn check(fabric: &Fabric, came: Message, (from, number, count): (usize, usize, usize)) {
    let wanted = message(fabric, from, number, count);
    assert!(came == wanted, "message {number} of rank {from} with {count} numbers");
    fabric.keep(came);
    fabric.keep(wanted);
}

fn receive(fabric: &Fabric, from: usize, tag: Tag, (number, count): (usize, usize)) {
    let came = fabric.wait(Receive(from, tag)).unwrap();
    check(fabric, came, (from, number, count));
}

fn messages_of_a_pair_keep_their_order(fabric: &Fabric) {
    let rank = fabric.rank();
    for number in 0..20 {
        for to in 0..fabric.size() {
            fabric.send(to, TAG, message(fabric, rank, number, number)).unwrap();
        }
    }
    for from in (0..fabric.size()).rev() {
        (0..20).for_each(|number| receive(fabric, from, TAG, (number, number)));
        assert_eq!(fabric.receive(from, TAG), Ok(None), "each arrives once");
    }
    fabric.wait(Barrier::start(BARRIER)).unwrap();
}

fn tags_do_not_wait_for_each_other(fabric: &Fabric) {
    let (rank, next) = (fabric.rank(), (fabric.rank() + 1) % fabric.size());
    let before = (rank + fabric.size() - 1) % fabric.size();
    fabric.send(next, TAG, message(fabric, rank, 1, 5)).unwrap();
    fabric.send(next, OTHER, message(fabric, rank, 2, 6)).unwrap();
    receive(fabric, before, OTHER, (2, 6));
    receive(fabric, before, TAG, (1, 5));
}

/// More than carriers send at once, and nothing at all.
fn messages_have_any_size(fabric: &Fabric) {
    let (rank, next) = (fabric.rank(), (fabric.rank() + 1) % fabric.size());
    let before = (rank + fabric.size() - 1) % fabric.size();
    let sizes = [0, 1, 2, 1021, 1022, 1023, 1024, 65_536, 3_000_000];
    for (number, count) in sizes.into_iter().enumerate() {
        fabric.send(next, TAG, message(fabric, rank, number, count)).unwrap();
        fabric.send(next, TAG, fabric.message()).unwrap();
    }
    for (number, count) in sizes.into_iter().enumerate() {
        receive(fabric, before, TAG, (number, count));
        let empty = fabric.wait(Receive(before, TAG)).unwrap();
        assert_eq!(empty.bytes(), 0);
    }
}

/// Number of values that `from` sends `to` in round `round`: many, few or none.
fn share(from: usize, to: usize, round: usize) -> usize {
    (from * 7 + to * 3 + round * 5) % 4 * 1000
}

fn exchange(fabric: &Fabric, round: usize) -> AllToAll {
    let rank = fabric.rank();
    let to = |to| message(fabric, rank, round, share(rank, to, round));
    AllToAll::start(fabric, TAG, (0..fabric.size()).map(to).collect()).unwrap()
}

fn check_exchange(fabric: &Fabric, came: Vec<Message>, round: usize) {
    assert_eq!(came.len(), fabric.size());
    for (from, came) in came.into_iter().enumerate() {
        check(fabric, came, (from, round, share(from, fabric.rank(), round)));
    }
}

fn everybody_sends_everybody(fabric: &Fabric) {
    for round in 0..10 {
        let came = fabric.wait(exchange(fabric, round)).unwrap();
        check_exchange(fabric, came, round);
    }
    let came = fabric.wait(all_gather(fabric, TAG, message(fabric, fabric.rank(), 3, 4)).unwrap());
    for (from, came) in came.unwrap().into_iter().enumerate() {
        check(fabric, came, (from, 3, 4));
    }
}

fn several_are_under_way(fabric: &Fabric) {
    let exchanges: Vec<_> = (0..8).map(|round| exchange(fabric, round)).collect();
    for (round, exchange) in exchanges.into_iter().enumerate() {
        let came = fabric.wait(exchange).unwrap();
        check_exchange(fabric, came, round);
    }
}

fn the_root_has_what_all_sent(fabric: &Fabric) {
    for root in 0..fabric.size() {
        let own = message(fabric, fabric.rank(), root, 100 * fabric.rank());
        let came = fabric.wait(Gather::start(fabric, TAG, root, own).unwrap()).unwrap();
        assert_eq!(came.len(), if fabric.rank() == root { fabric.size() } else { 0 });
        for (from, came) in came.into_iter().enumerate() {
            check(fabric, came, (from, root, 100 * from));
        }
    }
}

fn every_root_is_heard(fabric: &Fabric) {
    for root in 0..fabric.size() {
        let own = (fabric.rank() == root).then(|| message(fabric, root, root, 1000));
        let came = fabric.wait(Broadcast::start(fabric, TAG, root, own)).unwrap();
        check(fabric, came, (root, root, 1000));
    }
}

fn what_is_put_shows_before_what_is_sent(fabric: &Fabric) {
    let (rank, size, window) = (fabric.rank(), fabric.size(), WindowNumber(3));
    fabric.open_window(window, 8 * size);
    fabric.wait(Barrier::start(BARRIER)).unwrap();
    for round in 1..=5u64 {
        for to in 0..size {
            let bytes = (round * 100 + rank as u64).to_ne_bytes();
            fabric.put(to, window, 8 * rank, &bytes).unwrap();
            fabric.send(to, TAG, message(fabric, rank, 0, 1)).unwrap();
        }
        for from in 0..size {
            receive(fabric, from, TAG, (0, 1));
            let found = word(fabric, window, from);
            // A neighbour may be a round ahead, and never behind.
            let ahead = (found - from as u64) / 100;
            assert!((round..=round + 1).contains(&ahead), "{found} of rank {from} in {round}");
        }
    }
}

fn word(fabric: &Fabric, window: WindowNumber, number: usize) -> u64 {
    let mut word = [0];
    fabric.read(window, 8 * number, &mut word);
    word[0]
}

/// Waits until the least of the words that all ranks put reaches a value.
struct Reaches(WindowNumber, u64);

impl Collective for Reaches {
    type Output = ();

    fn poll(&mut self, fabric: &Fabric) -> Result<Option<()>> {
        fabric.check()?;
        let all = (0..fabric.size()).all(|from| word(fabric, self.0, from) >= self.1);
        Ok(all.then_some(()))
    }
}

/// All ranks put data and then its number into all windows, and no messages are sent.
fn who_waits_is_told_of_what_is_put(fabric: &Fabric) {
    const ROOM: usize = 1 << 18;
    let (rank, size, window) = (fabric.rank(), fabric.size(), WindowNumber(4));
    fabric.open_window(window, (8 + ROOM) * size);
    fabric.wait(Barrier::start(BARRIER)).unwrap();
    let data = |from: usize, round: usize, count: usize| -> Vec<u8> {
        (0..count).map(|at| (from * 31 + round * 7 + at) as u8).collect()
    };
    for (round, count) in [(1, 1), (2, 0), (3, 13), (4, 4099), (5, ROOM - 3), (6, ROOM), (7, 8)] {
        let start = 8 * size + ROOM * rank;
        let odd = if count < ROOM { 3 } else { 0 };
        for to in 0..size {
            fabric.put(to, window, start + odd, &data(rank, round, count)).unwrap();
            fabric.put(to, window, 8 * rank, &(round as u64).to_ne_bytes()).unwrap();
        }
        fabric.wait(Reaches(window, round as u64)).unwrap();
        for from in 0..size {
            let mut found = vec![0u8; odd + count];
            fabric.read(window, 8 * size + ROOM * from, &mut found);
            let is_whole = found[odd..] == data(from, round, count);
            assert!(is_whole, "{count} bytes of rank {from} in {round}");
        }
        fabric.wait(Barrier::start(BARRIER)).unwrap();
    }
}

/// Every rank draws the traffic of all ranks, so that it knows the messages that it will receive.
fn drawn_traffic_arrives(fabric: &Fabric) {
    const MESSAGES: u64 = 200;
    let (rank, size) = (fabric.rank(), fabric.size());
    let drawn = |from: usize, number: u64| {
        let stream = Stream::named(from as u64, &number.to_le_bytes());
        let draw = |at| stream.at(at);
        let to = (draw(0) % size as u64) as usize;
        let tag = Tag(10 + (draw(1) % 3) as u16);
        let count = if draw(2).is_multiple_of(16) { draw(3) % 40_000 } else { draw(3) % 40 };
        (to, tag, count as usize)
    };
    // A few at a time: an inbox holds no more.
    for first in (0..MESSAGES).step_by(20) {
        for number in first..first + 20 {
            let (to, tag, count) = drawn(rank, number);
            fabric.send(to, tag, message(fabric, rank, number as usize, count)).unwrap();
        }
        for from in 0..size {
            for number in first..first + 20 {
                let (to, tag, count) = drawn(from, number);
                if to == rank {
                    receive(fabric, from, tag, (number as usize, count));
                }
            }
        }
        fabric.wait(Barrier::start(BARRIER)).unwrap();
    }
}

fn nothing_comes_of_who_has_ended(fabric: &Fabric) {
    let (rank, size) = (fabric.rank(), fabric.size());
    for to in 0..size {
        fabric.send(to, TAG, message(fabric, rank, 1, 1)).unwrap();
    }
    fabric.end();
    for from in (0..size).filter(|from| *from != rank) {
        // Earlier messages arrive.
        receive(fabric, from, TAG, (1, 1));
        let error = fabric.wait(Receive(from, TAG)).unwrap_err();
        assert_eq!(error, Error::Ended { rank: from });
    }
}
