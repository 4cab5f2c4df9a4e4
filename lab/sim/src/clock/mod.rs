//! Ranks on a virtual clock: real gradients, with times from a cost model.
//!
//! ```text
//! begin ─► gradient (really computed, on any core) ─► given after Computing::seconds
//! poll  ─► parcels leave after its arithmetic ─► arrive when the links have carried them
//! ```
//!
//! - **Why.** Who waits for whom depends only on time. Sixteen or a hundred ranks can run on two
//!   cores, and every result repeats from its seed.
//! - **How.** A rank computes on one side and communicates on the other, as under `sync::drive`,
//!   and each side does one thing at a time. Events are processed in the order of their times, ties
//!   in the order of their creation. Protocols and learners are the real ones.
//! - **Invariants.** Times, and so the order of all events, depend only on the protocol's messages
//!   and the cost model, never on real time.
//! - **Bounds.** At most one gradient per rank is computed at a time.

mod agenda;
mod carrier;
mod times;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use stepwell_fabric::{Error, Fabric, Inbox, Parcel, Result};
use stepwell_sync::{Counts, Kind, Learner, Number, Options, OptionsError, Protocol};

pub use self::agenda::Agenda;
pub use self::carrier::{Outbox, Sent, Traffic, ends};
pub use self::times::{Computing, Delay, DelayKind, Times};

/// A learner that can run on any thread.
pub type BoxedLearner<T> = Box<dyn Learner<T> + Send + 'static>;

/// A run on the virtual clock.
pub struct ClockedRun<T> {
    kind: Kind,
    times: Times,
    ranks: Vec<Rank<T>>,
    inboxes: Vec<Arc<Inbox>>,
    outbox: Outbox,
    traffic: Traffic,
    agenda: Agenda<What>,
    now: f64,
}

/// Both sides of a rank.
struct Rank<T> {
    fabric: Fabric,
    protocol: Box<dyn Protocol<T>>,
    learning: Learning<T>,
    /// When its communicating side is free, and whether a poll is scheduled then.
    free: f64,
    to_be_polled: bool,
    computed: f64,
}

/// The computing side.
enum Learning<T> {
    /// The learner, with buffers for parameters and a gradient.
    Idle(Desk<T>),
    Busy(Receiver<Desk<T>>),
    /// Temporarily taken.
    Away,
}

/// A learner with its buffers.
struct Desk<T> {
    learner: BoxedLearner<T>,
    parameters: Vec<T>,
    gradient: Vec<T>,
}

#[derive(Debug)]
enum What {
    Arrives {
        to: usize,
        from: usize,
        parcel: Parcel,
    },
    /// The rank's gradient is complete.
    Computed(usize),
    /// The rank's communicating side continues.
    Polled(usize),
}

impl<T: Number> ClockedRun<T> {
    /// All ranks before the first event, with one learner each; learners of servers are never used.
    ///
    /// # Errors
    /// Invalid options.
    pub fn new(
        kind: Kind,
        options: &Options,
        parameters: &[T],
        learners: Vec<BoxedLearner<T>>,
        times: Times,
    ) -> std::result::Result<Self, OptionsError> {
        let end = |fabric: &Fabric| kind.begin(fabric, parameters.to_vec(), options);
        Self::of_ends(kind, end, learners, times)
    }

    /// Like [`Self::new`], but `end` creates each rank's end of the protocol, which must be of
    /// `kind`.
    ///
    /// # Errors
    /// The errors of `end`.
    pub fn of_ends(
        kind: Kind,
        mut end: impl FnMut(&Fabric) -> std::result::Result<Box<dyn Protocol<T>>, OptionsError>,
        learners: Vec<BoxedLearner<T>>,
        times: Times,
    ) -> std::result::Result<Self, OptionsError> {
        let count = learners.len();
        let (fabrics, inboxes, outbox) = ends(count);
        let begin = |(fabric, learner): (Fabric, BoxedLearner<T>)| {
            let protocol = end(&fabric)?;
            let desk = Desk { learner, parameters: Vec::new(), gradient: Vec::new() };
            let learning = Learning::Idle(desk);
            let (free, to_be_polled, computed) = (0.0, false, 0.0);
            Ok(Rank { fabric, protocol, learning, free, to_be_polled, computed })
        };
        let ranks = fabrics
            .into_iter()
            .zip(learners)
            .map(begin)
            .collect::<std::result::Result<Vec<Rank<T>>, OptionsError>>()?;
        let traffic = Traffic::new(times.network, count);
        let (agenda, now) = (Agenda::default(), 0.0);
        let mut run = Self { kind, times, ranks, inboxes, outbox, traffic, agenda, now };
        (0..count).for_each(|rank| run.poll_later(rank));
        Ok(run)
    }

    /// Seconds on the virtual clock.
    pub fn seconds(&self) -> f64 {
        self.now
    }

    /// Counts of all ranks' gradients.
    pub fn counts(&self) -> Counts {
        Counts::sum(self.ranks.iter().map(|rank| rank.protocol.counts()))
    }

    /// Updates that a rank has seen.
    pub fn updates_of(&self, rank: usize) -> u64 {
        self.ranks[rank].protocol.counts().updates
    }

    /// Gradients of all ranks that reached a model.
    pub fn used(&self) -> u64 {
        self.ranks.iter().map(|rank| rank.protocol.counts().used).sum()
    }

    /// The model: the mean over the ranks that have it.
    pub fn model(&self) -> Vec<T> {
        let of = self.kind.model_of(self.ranks.len());
        let share = T::ONE / T::from_f64(of.len() as f64);
        let mut models = self.ranks[of].iter().map(|rank| rank.protocol.model());
        let mut sum = models.next().map(<[T]>::to_vec).unwrap_or_default();
        for model in models {
            sum.iter_mut().zip(model).for_each(|(sum, value)| *sum += *value);
        }
        sum.iter_mut().for_each(|value| *value *= share);
        sum
    }

    /// Seconds that each rank has spent computing gradients that it gave.
    pub fn computed(&self) -> impl Iterator<Item = f64> {
        self.ranks.iter().map(|rank| rank.computed)
    }

    /// Bytes sent so far by all ranks.
    pub fn bytes_sent(&self) -> u64 {
        self.ranks.iter().map(|rank| rank.fabric.sent().bytes).sum()
    }

    /// Whether all ranks have ended.
    pub fn ended(&self) -> bool {
        self.ranks.iter().all(|rank| rank.protocol.ended())
    }

    /// Processes the next event; returns false if the run has ended.
    ///
    /// # Errors
    /// A rank fails, or no events are left although not all ranks have ended.
    pub fn advance(&mut self) -> Result<bool> {
        if self.ended() {
            return Ok(false);
        }
        let Some((at, what)) = self.agenda.take_next() else {
            let why = "no event is left: a protocol is deadlocked".to_owned();
            return Err(Error::Carrier { why });
        };
        assert!(at >= self.now, "time never goes back");
        self.now = at;
        match what {
            What::Arrives { to, from, parcel } => {
                self.inboxes[to].deliver(from, parcel);
                self.poll_later(to);
            }
            What::Computed(rank) => {
                self.take_gradient(rank);
                self.poll_later(rank);
            }
            What::Polled(rank) => self.poll(rank)?,
        }
        Ok(true)
    }

    /// Schedules a poll of a rank for when its communicating side is free.
    fn poll_later(&mut self, rank: usize) {
        if !std::mem::replace(&mut self.ranks[rank].to_be_polled, true) {
            let at = self.ranks[rank].free.max(self.now);
            self.agenda.add(at, What::Polled(rank));
        }
    }

    /// Runs the communicating side until its arithmetic takes time.
    fn poll(&mut self, number: usize) -> Result<()> {
        self.ranks[number].to_be_polled = false;
        loop {
            self.begin(number);
            let rank = &mut self.ranks[number];
            if rank.protocol.ended() {
                return Ok(());
            }
            let work = rank.protocol.poll(&rank.fabric)?;
            let sent = self.outbox.take();
            let takes = work.bytes as f64 / self.times.arithmetic
                + sent.len() as f64 * self.times.per_parcel;
            self.ranks[number].free = self.now + takes;
            for sent in sent {
                let at = self.traffic.arrival(&sent, self.now + takes);
                let (to, from, parcel) = (sent.to, sent.from, sent.parcel);
                self.agenda.add(at, What::Arrives { to, from, parcel });
            }
            if takes > 0.0 {
                self.poll_later(number);
                return Ok(());
            }
            if !work.progressed {
                return Ok(());
            }
        }
    }

    /// Starts the next gradient on the computing side, if possible.
    fn begin(&mut self, number: usize) {
        let rank = &mut self.ranks[number];
        if !matches!(rank.learning, Learning::Idle(_)) || rank.protocol.ended() {
            return;
        }
        let Some(step) = rank.protocol.begin() else { return };
        let learning = std::mem::replace(&mut rank.learning, Learning::Away);
        let Learning::Idle(mut desk) = learning else { unreachable!("the learner was idle") };
        // The length only changes if there are rows.
        desk.parameters.clear();
        desk.parameters.extend_from_slice(rank.protocol.parameters());
        desk.gradient.resize(desk.parameters.len(), T::ZERO);
        let cost = desk.learner.cost(step);
        let (send, receive) = channel();
        rayon::spawn(move || {
            desk.learner.gradient(step, &desk.parameters, &mut desk.gradient);
            // If the run was abandoned, nothing receives it.
            let _ = send.send(desk);
        });
        rank.learning = Learning::Busy(receive);
        let seconds = self.times.computing.seconds(number, step, cost);
        rank.computed += seconds;
        self.agenda.add(self.now + seconds, What::Computed(number));
    }

    fn take_gradient(&mut self, number: usize) {
        let rank = &mut self.ranks[number];
        let learning = std::mem::replace(&mut rank.learning, Learning::Away);
        let Learning::Busy(receive) = learning else { unreachable!("the learner was computing") };
        let Ok(mut desk) = receive.recv() else { panic!("the learner of rank {number} panicked") };
        if !rank.protocol.ended() {
            rank.protocol.give(&mut desk.gradient);
        }
        rank.learning = Learning::Idle(desk);
    }
}
