//! Eager SGD with majorities: a drawn rank starts the sum as soon as it has a gradient.
//!
//! ```text
//! round r    its initiator has a gradient ─► go, to all ─► sum of available gradients ─► step
//!            a rank without one adds nothing; a late gradient stays for round r + 1
//! ```
//!
//! All ranks draw the same initiator for a round, so on average half of them have a gradient by
//! then. A rank whose gradient was in time waits for the sum; a late one continues at once. A rank
//! that gives no more announces it with its last gradient and is not drawn again; if it was drawn
//! for the next round before it knew, it starts that round without a gradient. So does a resting
//! rank ([`Options::may_rest`]) when it learns that another waits for the round.
//!
//! - **Invariants.** All ranks have the same parameters after equally many rounds. A late gradient
//!   is added to its rank's next one (SYNC-I9), none is lost; its age is unbounded.
//! - **Source.** Li, Ben-Nun, Di Girolamo, Alistarh, Hoefler, "Taming unbalanced training workloads
//!   in deep learning with partial collective operations" (2020), majority allreduce, with which
//!   the RNA thesis compares.

use stepwell_base::random::Stream;
use stepwell_fabric::{Error, Fabric, Malformed, Result, Tag};

use crate::all_reduce::{AllReduce, Member, Reduced};
use crate::hazard_rules::Rule;
use crate::number::Number;
use crate::optimizers::{Optimizer, Share};
use crate::options::Options;
use crate::protocol::{Counts, OpenEnded, Protocol, Work, replace};

const TAGS: [Tag; 2] = [Tag(0x5320), Tag(0x5321)];
const GO: Tag = Tag(0x5322);
/// To the initiator of a round, from a rank that cannot continue before it.
const WAITS: Tag = Tag(0x5323);

#[derive(Debug)]
pub(crate) struct EagerMajority<T> {
    options: Options,
    ranks: usize,
    parameters: Vec<T>,
    /// The sum of the waiting gradients, and the rounds in which they began.
    waiting: Vec<T>,
    waiting_since: Vec<u64>,
    optimizer: Box<dyn Optimizer<T>>,
    reduce: AllReduce<T>,
    /// The round in which the last gradient began.
    began: Option<u64>,
    computing: bool,
    /// Whether this rank started the current round.
    told: bool,
    /// The last round in which this rank was refused another gradient, and the last for which it
    /// has announced that.
    refused: Option<u64>,
    urged: Option<u64>,
    /// The last round that another rank waits for.
    awaited: Option<u64>,
    /// Number of gradients that this rank gives in all, once known.
    last: Option<u64>,
    /// Gradients of all ranks in the sums so far, over the ranks: the progress of the rate's
    /// schedule.
    seen: f64,
    counts: Counts,
}

impl<T: Number> EagerMajority<T> {
    pub(crate) fn new(
        fabric: &Fabric,
        parameters: Vec<T>,
        optimizer: Box<dyn Optimizer<T>>,
        options: &Options,
    ) -> Self {
        let members = (0..fabric.size()).collect();
        Self {
            ranks: fabric.size(),
            waiting: vec![T::ZERO; parameters.len()],
            waiting_since: Vec::new(),
            optimizer,
            reduce: AllReduce::new(fabric, members, TAGS, parameters.len()),
            options: options.clone(),
            parameters,
            began: None,
            computing: false,
            told: false,
            refused: None,
            urged: None,
            awaited: None,
            last: None,
            seen: 0.0,
            counts: Counts::default(),
        }
    }

    /// Number of completed rounds.
    fn round(&self) -> u64 {
        self.counts.updates
    }

    /// Initiator of the current round, which all ranks draw from the ranks that continue.
    fn initiator(&self) -> usize {
        let drawn = Stream::named(self.options.seed, b"sync/initiator").at(self.round());
        let through = self.reduce.through();
        let left: Vec<usize> = (0..self.ranks).filter(|rank| !through[*rank]).collect();
        left[(drawn % left.len() as u64) as usize]
    }

    /// Whether this rank gives no more gradients.
    fn is_through(&self) -> bool {
        !self.computing && self.last == Some(self.counts.given)
    }

    /// The initiator starts the round on all ranks, including itself.
    fn tell(&mut self, fabric: &Fabric) -> Result<Work> {
        let mine = self.initiator() == fabric.rank();
        let rests = !self.computing && self.awaited == Some(self.round());
        let has_none = self.waiting_since.is_empty() && !self.is_through() && !rests;
        if self.told || !mine || has_none {
            return Ok(Work::NONE);
        }
        for to in 0..self.ranks {
            let mut message = fabric.message();
            message.put(&[self.round()]);
            fabric.send(to, GO, message)?;
        }
        self.told = true;
        Ok(Work::STEP)
    }

    /// Tells the initiator that this rank waits for it, and reads such messages from others.
    fn urge(&mut self, fabric: &Fabric) -> Result<Work> {
        if !self.options.may_rest {
            return Ok(Work::NONE);
        }
        let mut work = Work::NONE;
        for from in 0..self.ranks {
            while let Some(message) = fabric.receive(from, WAITS)? {
                let round = message.reader().take_exactly::<u64>(1).map(|round| round[0]);
                fabric.keep(message);
                self.awaited =
                    self.awaited.max(Some(round.map_err(|why| Error::malformed(from, why))?));
                work = Work::STEP;
            }
        }
        let round = Some(self.round());
        if self.refused != round || self.urged == round {
            return Ok(work);
        }
        let mut message = fabric.message();
        message.put(&[self.round()]);
        fabric.send(self.initiator(), WAITS, message)?;
        self.urged = round;
        Ok(Work::STEP)
    }

    /// Takes part in the round as soon as its initiator starts it.
    fn take_part(&mut self, fabric: &Fabric) -> Result<Work> {
        let from = self.initiator();
        let Some(message) = fabric.receive(from, GO)? else { return Ok(Work::NONE) };
        let round = message.reader().take_exactly::<u64>(1).map(|round| round[0]);
        fabric.keep(message);
        if round.map_err(|why| Error::malformed(from, why))? != self.round() {
            return Err(Error::malformed(from, Malformed::Wrong("it belongs to another round")));
        }
        let count = self.waiting_since.len() as u64;
        let member = if self.is_through() { Member::Ends } else { Member::Continues };
        self.reduce.start(fabric, count, member, &self.waiting)?;
        let ages = self.waiting_since.iter().map(|since| self.counts.updates - since);
        self.counts.age_max = ages.fold(self.counts.age_max, u64::max);
        self.counts.used += count;
        self.forget();
        Ok(Work::STEP)
    }

    fn forget(&mut self) {
        self.waiting.fill(T::ZERO);
        self.waiting_since.clear();
    }

    fn update(&mut self, reduced: Reduced) -> Work {
        if reduced.gradients > 0 {
            // As in the paper, whose sum has zeros for late ranks: a mean over all ranks, at the
            // whole rate.
            let share = Share::whole(self.ranks);
            self.optimizer.apply(&mut self.parameters, self.reduce.sum(), share, self.seen);
        }
        self.seen += reduced.gradients as f64 / self.ranks as f64;
        self.counts.updates += 1;
        self.told = false;
        if !self.options.rules.hold(Rule::KeepLate) {
            self.forget();
        }
        Work::additions::<T>(1, self.parameters.len())
    }
}

impl<T: Number> Protocol<T> for EagerMajority<T> {
    fn poll(&mut self, fabric: &Fabric) -> Result<Work> {
        if self.ended() {
            return Ok(Work::NONE);
        }
        if self.reduce.is_under_way() {
            let (work, reduced) = self.reduce.poll(fabric)?;
            return Ok(reduced.map_or(work, |reduced| work.and(self.update(reduced))));
        }
        let urged = self.urge(fabric)?;
        let told = urged.and(self.tell(fabric)?);
        Ok(told.and(self.take_part(fabric)?))
    }

    fn begin(&mut self) -> Option<u64> {
        if self.computing || self.ended() || self.is_through() {
            return None;
        }
        if self.began == Some(self.round()) {
            if !self.reduce.is_under_way() {
                self.refused = self.began;
            }
            return None;
        }
        (self.computing, self.began) = (true, Some(self.round()));
        Some(self.counts.given)
    }

    fn parameters(&self) -> &[T] {
        &self.parameters
    }

    fn give(&mut self, gradient: &mut Vec<T>) {
        assert!(std::mem::take(&mut self.computing), "the gradient was begun");
        assert_eq!(gradient.len(), self.waiting.len(), "the gradient covers all parameters");
        self.waiting.iter_mut().zip(&*gradient).for_each(|(sum, value)| *sum += *value);
        self.waiting_since.extend(self.began);
        self.counts.given += 1;
    }

    fn ended(&self) -> bool {
        let all_are_through = !self.reduce.is_under_way() && self.reduce.all_are_through();
        self.counts.updates == self.options.steps || all_are_through
    }

    fn counts(&self) -> Counts {
        Counts { left: self.waiting_since.len() as u64, ..self.counts }
    }
}

impl<T: Number> OpenEnded<T> for EagerMajority<T> {
    fn end_after(&mut self, gradients: u64) {
        assert!(self.counts.given <= gradients, "more gradients than the last one");
        self.last = Some(gradients);
    }

    fn resume(&mut self, parameters: &[T]) {
        replace(self.ended(), &mut self.parameters, parameters);
        self.last = None;
        self.reduce.go_on();
    }
}
