//! The controller of a group: it probes ranks, and starts a sum at the first answer.

use stepwell_base::random::Stream;
use stepwell_fabric::{Fabric, Result};

use super::messages::{GO, PROBE, READY, number, send_numbers};
use crate::hazard_rules::{Rule, Rules};
use crate::options::Options;
use crate::protocol::Work;

#[derive(Debug)]
pub(crate) struct Controller {
    members: Vec<usize>,
    probes: usize,
    steps: u64,
    rules: Rules,
    draws: Stream,
    /// The iteration for which ranks were probed, and whether one has answered.
    probed: Option<u64>,
    started: bool,
}

impl Controller {
    pub(crate) fn new(members: Vec<usize>, options: &Options) -> Self {
        let lead = members.first().map_or(0, |lead| *lead as u64);
        let name = [b"sync/probes/".as_slice(), &lead.to_le_bytes()].concat();
        Self {
            probes: options.probes.min(members.len()),
            members,
            steps: options.steps,
            rules: options.rules,
            draws: Stream::named(options.seed, &name),
            probed: None,
            started: false,
        }
    }

    /// Probes members that are not `through` for `iteration`, the next one, or takes answers to its
    /// probes. To be polled only between sums.
    pub(crate) fn poll(
        &mut self,
        fabric: &Fabric,
        iteration: u64,
        through: &[bool],
    ) -> Result<Work> {
        if iteration == self.steps || through.iter().all(|through| *through) {
            return Ok(Work::NONE);
        }
        if self.probed != Some(iteration) {
            for member in self.drawn(through) {
                send_numbers(fabric, member, PROBE, &[iteration])?;
            }
            (self.probed, self.started) = (Some(iteration), false);
            return Ok(Work::STEP);
        }
        self.hear(fabric, iteration)
    }

    fn hear(&mut self, fabric: &Fabric, iteration: u64) -> Result<Work> {
        let mut work = Work::NONE;
        for place in 0..self.members.len() {
            let from = self.members[place];
            while let Some(message) = fabric.receive(from, READY)? {
                let [ready] = number(from, &message)?;
                fabric.keep(message);
                work.progressed = true;
                let expired = ready != iteration && self.rules.hold(Rule::ExpireProbes);
                if self.started || expired {
                    continue;
                }
                self.started = true;
                for to in &self.members {
                    send_numbers(fabric, *to, GO, &[iteration, from as u64])?;
                }
            }
        }
        Ok(work)
    }

    /// Draws different members that are not `through`: as many as are probed, or all.
    fn drawn(&mut self, through: &[bool]) -> Vec<usize> {
        let members = self.members.iter().zip(through).filter(|(_, through)| !**through);
        let mut left: Vec<usize> = members.map(|(member, _)| *member).collect();
        let probes = self.probes.min(left.len());
        let mut draw = |_| left.swap_remove((self.draws.next_u64() % left.len() as u64) as usize);
        (0..probes).map(&mut draw).collect()
    }
}
