//! RNA: the first of a few probed ranks starts the sum, and all take part with their gradients.
//!
//! ```text
//! controller   draw q ranks ─► probe k ─► first answer ─► go k, to all members ─► …
//! member       probe k: a gradient waits? ─► answer
//!              go k: drop what is too old, add up the rest ─► sum ─► step ─► k + 1
//! learner      computes on, while less than `waiting_max` gradients wait
//! ```
//!
//! The step is `rate / N Σ g`: the mean of Σ w gradients has W = 1 / Σ w, and the rate of one
//! rank's share grows by Σ w (linear scaling). If a rank has several gradients in a sum, each
//! counts, unless [`Several`](crate::Several) says otherwise ([`local`]). With groups of ranks,
//! each group does this among its members; after each sum, its initiator sends a server the group's
//! changes and returns with the parameters of all groups ([`server`]).
//!
//! A member that gives no more gradients announces it with its last ones, and is not probed again;
//! until that is known it answers probes without a gradient, so that no rank waits for it. A member
//! whose buffer of gradients is full announces that it is ready without being probed, if probed
//! ranks may be resting ([`Options::may_rest`]).
//!
//! - **Invariants.** The controller starts sum k + 1 after it has completed k itself. An answer to
//!   a probe only counts for the iteration that the probe names (SYNC-I5); so some rank has a
//!   gradient in every sum, or gives no more. A gradient is in one sum (SYNC-I6), or is dropped if
//!   it is older than `age_max` updates (SYNC-I4), and counted. All members of a group have the
//!   same parameters after equally many sums.
//! - **Cost.** A sum takes as long as the faster of two drawn ranks needs for its gradient, a
//!   probe, an answer and a go; no rank waits for the slowest.
//! - **Source.** Yang's thesis, chapter 5: RNA, sections 5.1 and 5.2.

mod controller;
mod local;
mod messages;
mod server;

use stepwell_fabric::{Error, Fabric, Malformed, Result};

use self::controller::Controller;
use self::local::Waiting;
use self::messages::{GO, PROBE, PULL, PUSH, READY, REDUCE, SERVER, SPREAD, number, send_numbers};
use self::server::Server;
use crate::all_reduce::{AllReduce, Member, slice_message, slice_of};
use crate::hazard_rules::Rule;
use crate::number::Number;
use crate::optimizers::{Optimizer, Share};
use crate::options::Options;
use crate::protocol::{Counts, OpenEnded, Protocol, Work, replace};

#[derive(Debug)]
pub(crate) struct Rna<T> {
    options: Options,
    ranks: usize,
    members: Vec<usize>,
    parameters: Vec<T>,
    optimizer: Box<dyn Optimizer<T>>,
    reduce: AllReduce<T>,
    waiting: Waiting<T>,
    /// The version of the gradient being computed.
    computing: Option<u64>,
    /// Number of gradients that this rank gives in all, once known.
    last: Option<u64>,
    /// The iteration that this rank was probed for.
    probe: Option<u64>,
    /// The iteration for which it announced, without a probe, that it is ready.
    unasked: Option<u64>,
    controller: Option<Controller>,
    phase: Phase,
    /// The parameters that the server returned last; empty with a single group.
    base: Vec<T>,
    server: Option<Server<T>>,
    /// Gradients of the members in the sums so far, over the members: the progress of the rate's
    /// schedule.
    seen: f64,
    counts: Counts,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Between sums.
    Rest,
    /// In a sum that this rank initiated.
    Sum(usize),
    /// Waits for the server's answer.
    Pull,
    /// Waits for this initiator to pass on the server's answer.
    Spread(usize),
}

impl<T: Number> Rna<T> {
    pub(crate) fn new(
        fabric: &Fabric,
        parameters: Vec<T>,
        optimizer: Box<dyn Optimizer<T>>,
        options: &Options,
    ) -> Self {
        let members = options.groups.members(fabric.place());
        let (lanes, groups) = (parameters.len(), options.groups.count());
        let leads = members.first() == Some(&fabric.rank());
        let serves = groups > 1 && fabric.rank() == SERVER;
        Self {
            ranks: fabric.size(),
            optimizer,
            reduce: AllReduce::new(fabric, members.clone(), REDUCE, lanes),
            waiting: Waiting::new(lanes),
            computing: None,
            last: None,
            probe: None,
            unasked: None,
            controller: leads.then(|| Controller::new(members.clone(), options)),
            phase: Phase::Rest,
            base: if groups > 1 { parameters.clone() } else { Vec::new() },
            server: serves
                .then(|| Server::new(parameters.clone(), fabric.size(), groups, options.steps)),
            seen: 0.0,
            counts: Counts::default(),
            members,
            parameters,
            options: options.clone(),
        }
    }

    /// Number of completed sums.
    fn iteration(&self) -> u64 {
        self.counts.updates
    }

    fn is_grouped(&self) -> bool {
        !self.base.is_empty()
    }

    /// Takes a probe, and answers it as soon as a gradient waits.
    fn hear_probe(&mut self, fabric: &Fabric) -> Result<Work> {
        let controller = self.members[0];
        let mut work = Work::NONE;
        while let Some(message) = fabric.receive(controller, PROBE)? {
            let [iteration] = number(controller, &message)?;
            self.probe = Some(iteration);
            fabric.keep(message);
            work.progressed = true;
        }
        let Some(iteration) = self.probe else { return Ok(work) };
        let begun = iteration < self.iteration() || self.phase != Phase::Rest;
        if begun && self.options.rules.hold(Rule::ExpireProbes) {
            if iteration <= self.iteration() {
                self.probe = None;
            }
            return Ok(work);
        }
        self.drop_stale(iteration.max(self.iteration()));
        if self.waiting.is_empty() && !self.gives_no_more() {
            return Ok(work);
        }
        self.probe = None;
        send_numbers(fabric, controller, READY, &[iteration])?;
        Ok(Work::STEP)
    }

    /// Announces, without a probe, that it is ready, if it cannot continue before a sum.
    fn urge(&mut self, fabric: &Fabric) -> Result<Work> {
        let iteration = self.iteration();
        if !self.options.may_rest || !self.is_full() || self.unasked == Some(iteration) {
            return Ok(Work::NONE);
        }
        self.drop_stale(iteration);
        if !self.is_full() {
            return Ok(Work::STEP);
        }
        self.unasked = Some(iteration);
        send_numbers(fabric, self.members[0], READY, &[iteration])?;
        Ok(Work::STEP)
    }

    fn is_full(&self) -> bool {
        self.waiting.len() == self.options.waiting_max
    }

    fn drop_stale(&mut self, updates: u64) {
        if self.options.rules.hold(Rule::DropStale) {
            self.counts.dropped += self.waiting.drop_older(updates, self.options.age_max);
        }
    }

    /// Takes part in the sum that the controller has started.
    fn hear_go(&mut self, fabric: &Fabric) -> Result<Work> {
        let controller = self.members[0];
        let Some(message) = fabric.receive(controller, GO)? else { return Ok(Work::NONE) };
        let [iteration, initiator] = number(controller, &message)?;
        fabric.keep(message);
        let wrong = |why| Err(Error::malformed(controller, Malformed::Wrong(why)));
        if iteration != self.iteration() {
            return wrong("it starts an iteration that is not the next one");
        }
        if !self.members.contains(&(initiator as usize)) {
            return wrong("it names an initiator that is not a member");
        }
        self.drop_stale(iteration);
        self.counts.age_max = self.counts.age_max.max(self.waiting.age_max(iteration));
        let (count, lanes) = (self.waiting.len(), self.parameters.len());
        let member = if self.gives_no_more() { Member::Ends } else { Member::Continues };
        let (counts_as, sum) = self.waiting.sum(self.options.several);
        self.reduce.start(fabric, counts_as, member, sum)?;
        self.counts.used += count as u64;
        if self.options.rules.hold(Rule::TakeOnce) {
            self.waiting.forget();
        }
        self.phase = Phase::Sum(initiator as usize);
        Ok(if count > 1 { Work::additions::<T>(count, lanes) } else { Work::STEP })
    }

    fn sum(&mut self, fabric: &Fabric, initiator: usize) -> Result<Work> {
        let (work, reduced) = self.reduce.poll(fabric)?;
        let Some(reduced) = reduced else { return Ok(work) };
        let place = self.members.iter().position(|member| *member == initiator);
        let was_through = place.is_some_and(|place| self.reduce.through()[place]);
        if reduced.gradients == 0 && !was_through {
            let why = Malformed::Wrong("it starts a sum without a gradient");
            return Err(Error::malformed(initiator, why));
        }
        if reduced.gradients > 0 {
            let share = Share::of(reduced.gradients, self.ranks);
            self.optimizer.apply(&mut self.parameters, self.reduce.sum(), share, self.seen);
        }
        self.seen += reduced.gradients as f64 / self.members.len() as f64;
        let work = work.and(Work::additions::<T>(1, self.parameters.len()));
        self.phase = Phase::Rest;
        if !self.is_grouped() {
            self.counts.updates += 1;
            return Ok(work);
        }
        Ok(work.and(self.meet_server(fabric, initiator)?))
    }

    /// The initiator sends the server its group's changes; the other members wait for it.
    fn meet_server(&mut self, fabric: &Fabric, initiator: usize) -> Result<Work> {
        self.phase = Phase::Spread(initiator);
        if initiator == fabric.rank() {
            let mut message = fabric.message_of(size_of_val(&self.base[..]) + 40);
            message.put(&[self.iteration(), u64::from(self.reduce.all_are_through())]);
            let change = message.room::<T>(self.base.len());
            let lanes = change.iter_mut().zip(&self.parameters).zip(&self.base);
            lanes.for_each(|((change, now), before)| *change = *now - *before);
            fabric.send(SERVER, PUSH, message)?;
            self.phase = Phase::Pull;
        }
        Ok(Work::additions::<T>(1, self.parameters.len()))
    }

    /// Receives the server's answer at the initiator, which passes it on.
    fn pull(&mut self, fabric: &Fabric) -> Result<Work> {
        let Some(message) = fabric.receive(SERVER, PULL)? else { return Ok(Work::NONE) };
        let (_, values) = slice_of::<T>(SERVER, &message)?;
        for to in self.members.iter().filter(|to| **to != fabric.rank()) {
            fabric.send(*to, SPREAD, slice_message(fabric, [self.iteration(), 0], values))?;
        }
        self.adopt(fabric.rank(), values)?;
        fabric.keep(message);
        self.phase = Phase::Rest;
        self.counts.updates += 1;
        Ok(Work::additions::<T>(1, self.parameters.len()))
    }

    fn hear_spread(&mut self, fabric: &Fabric, initiator: usize) -> Result<Work> {
        let Some(message) = fabric.receive(initiator, SPREAD)? else { return Ok(Work::NONE) };
        let (_, values) = slice_of::<T>(initiator, &message)?;
        self.adopt(initiator, values)?;
        fabric.keep(message);
        self.phase = Phase::Rest;
        self.counts.updates += 1;
        Ok(Work::additions::<T>(1, self.parameters.len()))
    }

    /// Continues with the parameters of all groups.
    fn adopt(&mut self, from: usize, values: &[T]) -> Result<()> {
        if values.len() != self.parameters.len() {
            let why = Malformed::Wrong("it has a different number of parameters");
            return Err(Error::malformed(from, why));
        }
        self.parameters.copy_from_slice(values);
        if self.options.rules.hold(Rule::PushOnce) {
            self.base.copy_from_slice(values);
        }
        Ok(())
    }

    fn is_through(&self) -> bool {
        let all_are_through = self.phase == Phase::Rest && self.reduce.all_are_through();
        self.counts.updates == self.options.steps || all_are_through
    }

    /// Whether this rank gives no more gradients.
    fn gives_no_more(&self) -> bool {
        self.computing.is_none() && self.last == Some(self.counts.given)
    }

    /// Advances the member's part.
    fn take_part(&mut self, fabric: &Fabric) -> Result<Work> {
        if self.is_through() {
            return Ok(Work::NONE);
        }
        match self.phase {
            Phase::Rest => {
                let work = self.hear_probe(fabric)?.and(self.hear_go(fabric)?);
                Ok(work.and(self.urge(fabric)?))
            }
            Phase::Sum(initiator) => Ok(self.hear_probe(fabric)?.and(self.sum(fabric, initiator)?)),
            Phase::Pull => self.pull(fabric),
            Phase::Spread(initiator) => self.hear_spread(fabric, initiator),
        }
    }
}

impl<T: Number> Protocol<T> for Rna<T> {
    fn poll(&mut self, fabric: &Fabric) -> Result<Work> {
        fabric.check()?;
        let mut work = Work::NONE;
        if let Some(server) = &mut self.server {
            work = server.poll(fabric)?;
        }
        let (iteration, rests) = (self.iteration(), self.phase == Phase::Rest);
        if let Some(controller) = &mut self.controller
            && rests
        {
            work = work.and(controller.poll(fabric, iteration, self.reduce.through())?);
        }
        Ok(work.and(self.take_part(fabric)?))
    }

    fn begin(&mut self) -> Option<u64> {
        if self.computing.is_some() || self.is_full() || self.is_through() || self.gives_no_more() {
            return None;
        }
        self.computing = Some(self.iteration());
        Some(self.counts.given)
    }

    fn parameters(&self) -> &[T] {
        &self.parameters
    }

    fn model(&self) -> &[T] {
        self.server.as_ref().map_or(&self.parameters, Server::parameters)
    }

    fn give(&mut self, gradient: &mut Vec<T>) {
        let Some(version) = self.computing.take() else { unreachable!("the gradient was begun") };
        self.waiting.push(version, gradient);
        self.counts.given += 1;
    }

    fn ended(&self) -> bool {
        self.is_through() && self.server.as_ref().is_none_or(Server::ended)
    }

    fn counts(&self) -> Counts {
        Counts { left: self.waiting.len() as u64, ..self.counts }
    }
}

impl<T: Number> OpenEnded<T> for Rna<T> {
    fn end_after(&mut self, gradients: u64) {
        assert!(self.counts.given <= gradients, "more gradients than the last one");
        self.last = Some(gradients);
    }

    fn resume(&mut self, parameters: &[T]) {
        replace(self.ended(), &mut self.parameters, parameters);
        if self.is_grouped() {
            self.base.copy_from_slice(parameters);
        }
        self.server.iter_mut().for_each(|server| server.resume(parameters));
        self.last = None;
        self.reduce.go_on();
    }
}
