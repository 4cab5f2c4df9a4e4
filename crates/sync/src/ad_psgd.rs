//! Asynchronous decentralised SGD: a rank averages its parameters with a drawn neighbour's while it
//! computes, and then takes its step.
//!
//! ```text
//! even rank (asks)     begin ─┬─ gradient ───────────────────┬─► x = (x + theirs) / 2 - rate g
//!                             └─ x ─► a drawn odd rank ─► theirs ─┘
//! odd rank (answers)   whenever asked: sends its x, and x = (x + theirs) / 2
//! ```
//!
//! Even ranks ask and odd ranks answer, so that no two wait for each other.
//!
//! - **Invariants.** Averaging keeps the sum of all ranks' parameters: an asking rank changes
//!   nothing between asking and averaging (SYNC-I8), an answering rank averages at once. So each
//!   gradient moves the mean of the parameters, which is the model, by rate / N of it, once.
//! - **Source.** Lian, Zhang, Zhang, Liu, "Asynchronous decentralized parallel stochastic gradient
//!   descent" (2018), with which the RNA thesis compares.

use stepwell_base::random::Stream;
use stepwell_fabric::{Error, Fabric, Malformed, Result, Tag};

use crate::all_reduce::{slice_message, slice_of};
use crate::hazard_rules::Rule;
use crate::number::Number;
use crate::optimizers::{Optimizer, Share};
use crate::options::Options;
use crate::protocol::{Counts, OpenEnded, Protocol, Work, replace};

const ASK: Tag = Tag(0x5330);
const ANSWER: Tag = Tag(0x5331);

#[derive(Debug)]
pub(crate) struct AdPsgd<T> {
    options: Options,
    rank: usize,
    ranks: usize,
    parameters: Vec<T>,
    gradient: Vec<T>,
    optimizer: Box<dyn Optimizer<T>>,
    computing: bool,
    /// Whether a gradient waits for the averaging of its step.
    given: bool,
    averaging: Averaging,
    /// Asking ranks that have reported their end.
    through: Vec<bool>,
    said_so: bool,
    counts: Counts,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Averaging {
    /// Nothing to do.
    Rest,
    /// The rank to ask.
    Due(usize),
    /// The rank that was asked.
    Asked(usize),
}

impl<T: Number> AdPsgd<T> {
    pub(crate) fn new(
        fabric: &Fabric,
        parameters: Vec<T>,
        optimizer: Box<dyn Optimizer<T>>,
        options: &Options,
    ) -> Self {
        Self {
            rank: fabric.rank(),
            ranks: fabric.size(),
            gradient: vec![T::ZERO; parameters.len()],
            optimizer,
            options: options.clone(),
            parameters,
            computing: false,
            given: false,
            averaging: Averaging::Rest,
            through: vec![false; fabric.size()],
            said_so: false,
            counts: Counts::default(),
        }
    }

    fn asks(&self) -> bool {
        self.rank.is_multiple_of(2)
    }

    /// The odd rank that this one averages with in its current step.
    fn neighbour(&self) -> usize {
        let name = [b"sync/neighbour/".as_slice(), &(self.rank as u64).to_le_bytes()].concat();
        let drawn = Stream::named(self.options.seed, &name).at(self.counts.given);
        2 * (drawn % (self.ranks / 2) as u64) as usize + 1
    }

    fn ask(&mut self, fabric: &Fabric, to: usize) -> Result<Work> {
        fabric.send(to, ASK, slice_message(fabric, [0, 0], &self.parameters))?;
        self.averaging = Averaging::Asked(to);
        Ok(Work::STEP)
    }

    fn hear_answer(&mut self, fabric: &Fabric, from: usize) -> Result<Work> {
        let Some(message) = fabric.receive(from, ANSWER)? else { return Ok(Work::NONE) };
        let (_, theirs) = slice_of::<T>(from, &message)?;
        average(&mut self.parameters, theirs, from)?;
        fabric.keep(message);
        self.averaging = Averaging::Rest;
        Ok(Work::additions::<T>(1, self.parameters.len()))
    }

    /// Answers the asking ranks whose messages have arrived.
    fn answer(&mut self, fabric: &Fabric) -> Result<Work> {
        for from in (0..self.ranks).step_by(2) {
            if self.through[from] {
                continue;
            }
            let Some(message) = fabric.receive(from, ASK)? else { continue };
            let (head, theirs) = slice_of::<T>(from, &message)?;
            if head[0] == 1 {
                self.through[from] = true;
                continue;
            }
            fabric.send(from, ANSWER, slice_message(fabric, [0, 0], &self.parameters))?;
            average(&mut self.parameters, theirs, from)?;
            fabric.keep(message);
            return Ok(Work::additions::<T>(1, self.parameters.len()));
        }
        Ok(Work::NONE)
    }

    fn update(&mut self) -> Work {
        let rounds = self.counts.used as f64;
        self.optimizer.apply(&mut self.parameters, &self.gradient, Share::whole(1), rounds);
        self.given = false;
        self.counts.used += 1;
        self.counts.updates += 1;
        Work::additions::<T>(1, self.parameters.len())
    }

    /// Reports an asking rank's end to the answering ranks.
    fn say_so(&mut self, fabric: &Fabric) -> Result<Work> {
        for to in (1..self.ranks).step_by(2) {
            fabric.send(to, ASK, slice_message::<T>(fabric, [1, 0], &[]))?;
        }
        self.said_so = true;
        Ok(Work::STEP)
    }

    fn is_through(&self) -> bool {
        self.counts.used == self.options.steps && self.averaging == Averaging::Rest
    }
}

/// Sets `parameters` to the mean of both vectors.
fn average<T: Number>(parameters: &mut [T], theirs: &[T], from: usize) -> Result<()> {
    if parameters.len() != theirs.len() {
        let why = Malformed::Wrong("it has a different number of parameters");
        return Err(Error::malformed(from, why));
    }
    parameters.iter_mut().zip(theirs).for_each(|(x, y)| *x = (*x + *y) * T::HALF);
    Ok(())
}

impl<T: Number> Protocol<T> for AdPsgd<T> {
    fn poll(&mut self, fabric: &Fabric) -> Result<Work> {
        fabric.check()?;
        match self.averaging {
            Averaging::Due(to) => return self.ask(fabric, to),
            Averaging::Asked(to) => {
                let work = self.hear_answer(fabric, to)?;
                if work.progressed {
                    return Ok(work);
                }
            }
            Averaging::Rest if !self.asks() => {
                let work = self.answer(fabric)?;
                if work.progressed {
                    return Ok(work);
                }
            }
            Averaging::Rest => {}
        }
        let rests = self.averaging == Averaging::Rest;
        if self.given && (rests || !self.options.rules.hold(Rule::AverageAtomically)) {
            return Ok(self.update());
        }
        if self.asks() && self.is_through() && !self.said_so {
            return self.say_so(fabric);
        }
        Ok(Work::NONE)
    }

    fn begin(&mut self) -> Option<u64> {
        let busy = self.computing || self.given || self.averaging != Averaging::Rest;
        if busy || self.counts.given == self.options.steps {
            return None;
        }
        self.computing = true;
        if self.asks() {
            self.averaging = Averaging::Due(self.neighbour());
        }
        Some(self.counts.given)
    }

    fn parameters(&self) -> &[T] {
        &self.parameters
    }

    fn give(&mut self, gradient: &mut Vec<T>) {
        assert!(std::mem::take(&mut self.computing), "the gradient was begun");
        assert_eq!(gradient.len(), self.gradient.len(), "the gradient covers all parameters");
        std::mem::swap(&mut self.gradient, gradient);
        self.given = true;
        self.counts.given += 1;
    }

    fn ended(&self) -> bool {
        let heard = || (0..self.ranks).step_by(2).all(|from| self.through[from]);
        self.is_through() && if self.asks() { self.said_so } else { heard() }
    }

    fn counts(&self) -> Counts {
        Counts { left: u64::from(self.given), ..self.counts }
    }
}

impl<T: Number> OpenEnded<T> for AdPsgd<T> {
    fn end_after(&mut self, gradients: u64) {
        assert!(self.counts.given <= gradients, "more gradients than the last one");
        self.options.steps = gradients;
    }

    fn resume(&mut self, parameters: &[T]) {
        replace(self.ended(), &mut self.parameters, parameters);
        self.options.steps = u64::MAX;
        self.through.fill(false);
        self.said_so = false;
    }
}
