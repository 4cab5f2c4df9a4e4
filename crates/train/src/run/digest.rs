//! The digest of the model, over all ranks; it can be abandoned at any time.
//!
//! Every rank sends one message: its digest, or that it gave up. Only these messages count: if one
//! rank gave up, all end without a digest; else all have one. A rank that has sent its digest and
//! is asked to stop asks the others to give up, which they do unless they are also done.

use std::sync::Arc;

use stepwell_base::queue::Events;
use stepwell_base::stop::StopRequest;
use stepwell_engine::{Error as EngineError, Group, ModelDigest, Planner};
use stepwell_fabric::collective::Collective;
use stepwell_fabric::{Error as FabricError, Fabric, Malformed, Message};
use stepwell_ssd::Error as StoreError;

use super::surroundings::Surroundings;
use crate::{Error, Result, talk};

/// Rows between two checks for messages.
const ROWS_BETWEEN: u64 = 1024;

/// The digest of the model; `None` if it is not wanted, or was abandoned.
pub(super) fn digest(
    around: &Surroundings,
    groups: &[Arc<Group>],
    planners: &[Planner],
) -> Result<Option<ModelDigest>> {
    if !around.digest {
        return Ok(None);
    }
    around.observer.digesting();
    let visit = |go_on: &mut dyn FnMut() -> stepwell_ssd::Result<()>| {
        let mut digest = ModelDigest::default();
        for (group, planner) in groups.iter().zip(planners) {
            match group.digest(planner.cache(), &mut digest, go_on) {
                Err(EngineError::Store(StoreError::Stopped)) => return Ok(None),
                other => other?,
            }
        }
        Ok(Some(digest))
    };
    match &around.machine.ranks {
        None => visit(&mut || match around.stop.is_made() {
            true => Err(StoreError::Stopped),
            false => Ok(()),
        }),
        Some(ranks) => of_all(&ranks.fabric, &ranks.stop, visit),
    }
}

/// The digest of all ranks; `visit` computes this one's, as long as it may continue.
fn of_all(
    fabric: &Fabric,
    stop: &StopRequest,
    visit: impl FnOnce(&mut dyn FnMut() -> stepwell_ssd::Result<()>) -> Result<Option<ModelDigest>>,
) -> Result<Option<ModelDigest>> {
    let (mut said, mut rows, mut broken) = (Said::new(fabric), 0, None);
    let own = visit(&mut || {
        rows += 1;
        if rows % ROWS_BETWEEN != 1 {
            return Ok(());
        }
        let ends = stop.is_made()
            || said.gives_up(fabric).unwrap_or_else(|why| {
                broken = Some(why);
                true
            });
        if ends { Err(StoreError::Stopped) } else { Ok(()) }
    })?;
    broken.map_or(Ok(()), |why| Err(Error::Fabric(why)))?;
    said.say(fabric, own.as_ref())?;
    let events = Events::new();
    stop.notifies(&events);
    fabric.wait_at(Waiting { said, stop, has_asked: false }, &events).map_err(Error::Fabric)
}

/// A rank's part: the digest of its rows, or `None` if it gave up.
type Part = Option<[u64; 3]>;

/// The parts that ranks have sent.
struct Said(Vec<Option<Part>>);

impl Said {
    fn new(fabric: &Fabric) -> Self {
        Self(vec![None; fabric.size()])
    }

    /// Sends this rank's part.
    fn say(&mut self, fabric: &Fabric, own: Option<&ModelDigest>) -> Result<()> {
        let part = own.map(ModelDigest::of_rows);
        self.0[fabric.rank()] = Some(part);
        let words = part.map_or_else(Vec::new, |rows| rows.to_vec());
        tell(fabric, talk::DIGEST, &words)
    }

    /// Receives parts.
    fn hear(&mut self, fabric: &Fabric) -> stepwell_fabric::Result<()> {
        for (rank, said) in self.0.iter_mut().enumerate().filter(|(_, said)| said.is_none()) {
            if rank == fabric.rank() {
                continue;
            }
            if let Some(message) = fabric.receive(rank, talk::DIGEST)? {
                *said = Some(read(&message).map_err(|why| FabricError::malformed(rank, why))?);
                fabric.keep(message);
            }
        }
        Ok(())
    }

    /// Whether this rank's digest is no longer needed, or another rank asks to give up.
    fn gives_up(&mut self, fabric: &Fabric) -> stepwell_fabric::Result<bool> {
        self.hear(fabric)?;
        let mut asked = self.0.contains(&Some(None));
        for rank in (0..fabric.size()).filter(|rank| *rank != fabric.rank()) {
            asked |= fabric.receive(rank, talk::ASKED)?.is_some();
        }
        Ok(asked)
    }

    /// The combined digest, once all parts have arrived.
    fn united(&self) -> Option<Option<ModelDigest>> {
        let parts: Vec<Part> = self.0.iter().copied().collect::<Option<_>>()?;
        let rows: Option<Vec<[u64; 3]>> = parts.into_iter().collect();
        Some(rows.map(|rows| {
            let mut united = ModelDigest::default();
            rows.into_iter().for_each(|rows| united.add_rows(rows));
            united
        }))
    }
}

/// Waits until all parts have arrived, and asks the others to give up once `stop` is made.
struct Waiting<'a> {
    said: Said,
    stop: &'a StopRequest,
    has_asked: bool,
}

impl Collective for Waiting<'_> {
    type Output = Option<ModelDigest>;

    fn poll(&mut self, fabric: &Fabric) -> stepwell_fabric::Result<Option<Self::Output>> {
        self.said.hear(fabric)?;
        let united = self.said.united();
        if united.is_none() && self.stop.is_made() && !self.has_asked {
            self.has_asked = true;
            tell(fabric, talk::ASKED, &[])?;
        }
        Ok(united)
    }
}

/// Sends a message to all others.
fn tell<E: From<FabricError>>(
    fabric: &Fabric,
    tag: stepwell_fabric::Tag,
    words: &[u64],
) -> std::result::Result<(), E> {
    for to in (0..fabric.size()).filter(|to| *to != fabric.rank()) {
        let mut message = fabric.message();
        message.put(words);
        fabric.send(to, tag, message)?;
    }
    Ok(())
}

fn read(message: &Message) -> std::result::Result<Part, Malformed> {
    match message.reader().take::<u64>()? {
        [] => Ok(None),
        &[low, high, rows] => Ok(Some([low, high, rows])),
        _ => Err(Malformed::Wrong("it is not part of a digest")),
    }
}

#[cfg(test)]
mod tests {
    use std::thread::scope;
    use std::time::Duration;

    use stepwell_base::{Key, TableId};
    use stepwell_fabric::threads;

    use super::*;

    /// A digest of `rows` rows of rank `rank`.
    fn of_rows(
        rank: usize,
        rows: u64,
        go_on: &mut dyn FnMut() -> stepwell_ssd::Result<()>,
    ) -> Result<Option<ModelDigest>> {
        let mut digest = ModelDigest::default();
        for row in 0..rows {
            if go_on().is_err() {
                return Ok(None);
            }
            digest.add_row(TableId(0), Key(row << 8 | rank as u64), &[7]);
        }
        Ok(Some(digest))
    }

    /// The outcomes of ranks with `rows` rows each; if `asked`, rank 0 is asked to stop.
    fn outcomes(rows: &[u64], asked: bool) -> Vec<Result<Option<[u64; 3]>>> {
        let stops: Vec<StopRequest> = rows.iter().map(|_| StopRequest::new()).collect();
        scope(|scope| {
            let ranks: Vec<_> = threads(rows.len())
                .into_iter()
                .zip(rows.iter().zip(&stops))
                .map(|(fabric, (rows, stop))| {
                    scope.spawn(move || {
                        let visit =
                            |go_on: &mut dyn FnMut() -> _| of_rows(fabric.rank(), *rows, go_on);
                        let united = of_all(&fabric, stop, visit)?;
                        Ok(united.map(|digest| digest.of_rows()))
                    })
                })
                .collect();
            if asked {
                std::thread::sleep(Duration::from_millis(50));
                stops[0].make();
            }
            ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
        })
    }

    #[test]
    fn all_have_the_digest_of_all() {
        let mut together = ModelDigest::default();
        for (rank, rows) in [3000, 0, 1].into_iter().enumerate() {
            let own = of_rows(rank, rows, &mut || Ok(())).unwrap().unwrap();
            together.add_rows(own.of_rows());
        }
        for outcome in outcomes(&[3000, 0, 1], false) {
            assert_eq!(outcome.unwrap(), Some(together.of_rows()));
        }
    }

    /// No rank visits all of its rows, whether the asked one is at work or waiting.
    #[test]
    fn all_give_up_where_one_is_asked_to_stop() {
        for rows in [[u64::MAX, u64::MAX], [5, u64::MAX], [u64::MAX, 5]] {
            for outcome in outcomes(&rows, true) {
                assert_eq!(outcome.unwrap(), None, "{rows:?}");
            }
        }
    }

    #[test]
    fn a_rank_that_fails_ends_the_digests_of_the_others() {
        let ends = threads(2);
        let error = scope(|scope| {
            let (fabric, stop) = (&ends[0], StopRequest::new());
            let rank = scope.spawn(move || {
                let visit = |go_on: &mut dyn FnMut() -> _| of_rows(0, u64::MAX, go_on);
                of_all(fabric, &stop, visit).map(|_| ())
            });
            ends[1].fail("its disk is gone");
            rank.join().unwrap().unwrap_err()
        });
        assert_eq!(error.to_string(), "rank 1 failed: its disk is gone");
    }
}
