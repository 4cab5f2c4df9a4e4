//! Rows next to the dense part, in orders drawn from seeds: gradients can be told apart in the
//! rows, as in the ledger, so each row shows which it has, and how often.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use stepwell_base::Key;
use stepwell_base::random::Stream;
use stepwell_fabric::{Fabric, threads};
use stepwell_sync::{
    Counts, Kind, Learner, OwnedRows, Protocol, RankRows, Rule, Rules, Staleness, drive,
};

use crate::ledger::Job;
use crate::rules::found_without;
use crate::schedule;

/// Gradients of a rank that have a lane.
const PER_RANK: usize = 96;
/// Number of keys.
const KEYS: u64 = 7;

/// All ranks' rows, and which gradients were pushed to which rows.
#[derive(Debug, Default)]
struct Tables {
    rows: BTreeMap<Key, Vec<f64>>,
    pushed: BTreeMap<(Key, usize), u64>,
}

#[derive(Debug)]
struct Ledger {
    lanes: usize,
    tables: Arc<Mutex<Tables>>,
}

impl OwnedRows<f64> for Ledger {
    fn lanes(&self) -> usize {
        self.lanes
    }

    fn read(&mut self, keys: &[Key], weights: &mut Vec<f64>) -> Result<(), String> {
        let tables = self.tables.lock().unwrap();
        for key in keys {
            let row = tables.rows.get(key).cloned();
            weights.extend(row.unwrap_or_else(|| vec![0.0; self.lanes]));
        }
        Ok(())
    }

    fn apply(&mut self, keys: &[Key], gradients: &[f64]) -> Result<(), String> {
        let mut tables = self.tables.lock().unwrap();
        for (key, gradient) in keys.iter().zip(gradients.chunks_exact(self.lanes)) {
            let row = tables.rows.entry(*key).or_insert_with(|| vec![0.0; gradient.len()]);
            row.iter_mut().zip(gradient).for_each(|(row, value)| *row += value);
        }
        Ok(())
    }
}

/// Distinct keys of a mini-batch, in a drawn order.
fn keys_of(rank: usize, step: u64) -> Vec<Key> {
    let name = [(rank as u64).to_le_bytes(), step.to_le_bytes()].concat();
    let mut stream = Stream::named(5, &name);
    let mut keys: Vec<Key> = Vec::new();
    for _ in 0..stream.next_u64() % 5 {
        let key = Key(stream.next_u64() % KEYS);
        keys.extend((!keys.contains(&key)).then_some(key));
    }
    keys
}

#[derive(Clone, Debug)]
struct RowJob {
    job: Job,
    staleness: Staleness,
    rules: Rules,
}

impl RowJob {
    fn drawn(kind: Kind, seed: u64) -> Self {
        let mut stream = Stream::named(seed, b"rows");
        let staleness = match stream.next_u64() % 3 {
            0 if kind == Kind::Bsp => Staleness::Exact,
            0 | 1 => Staleness::Bounded(stream.next_u64() % 4),
            _ => Staleness::Async,
        };
        Self { job: Job::drawn(kind, seed), staleness, rules: Rules::default() }
    }

    fn end(&self, fabric: &Fabric, tables: &Arc<Mutex<Tables>>) -> Box<dyn Protocol<f64>> {
        let Job { kind, ranks, options } = &self.job;
        let dense = kind.begin(fabric, vec![0.0; 3], options).unwrap();
        let rank = fabric.rank();
        let rows = RankRows {
            staleness: self.staleness,
            owned: Box::new(Ledger { lanes: ranks * PER_RANK, tables: Arc::clone(tables) }),
            keys: Box::new(move |step, keys: &mut Vec<Key>| keys.extend(keys_of(rank, step))),
        };
        kind.with_rows(fabric, dense, rows, self.rules).unwrap()
    }

    /// A learner whose gradient identifies its rank, and which checks the rows that it reads.
    fn learner(&self, rank: usize, tables: &Arc<Mutex<Tables>>) -> Box<dyn Learner<f64> + '_> {
        let (job, tables) = (self.clone(), Arc::clone(tables));
        let (lanes, workers) = (job.job.ranks * PER_RANK, job.job.kind.workers(job.job.ranks));
        Box::new(move |step: u64, parameters: &[f64], gradient: &mut [f64]| {
            gradient.fill(0.0);
            let keys = keys_of(rank, step);
            assert_eq!(parameters.len(), 3 + keys.len() * lanes, "weights of all keys");
            job.look_at(step, &keys, &parameters[3..]);
            let own = rank * PER_RANK + step as usize;
            for (key, row) in keys.iter().zip(gradient[3..].chunks_exact_mut(lanes)) {
                row[own] = workers as f64;
                *tables.lock().unwrap().pushed.entry((*key, own)).or_default() += 1;
            }
        })
    }

    /// Under `bsp` the clock is the step, so it is known which gradients rows must contain, and may
    /// not.
    fn look_at(&self, step: u64, keys: &[Key], rows: &[f64]) {
        let slack = match self.staleness {
            Staleness::Exact => 0,
            Staleness::Bounded(slack) => slack,
            Staleness::Async => return,
        };
        if self.job.kind != Kind::Bsp {
            return;
        }
        let ranks = self.job.ranks;
        for (key, row) in keys.iter().zip(rows.chunks_exact(ranks * PER_RANK)) {
            for (lane, value) in row.iter().enumerate() {
                let (of, at) = (lane / PER_RANK, (lane % PER_RANK) as u64);
                let was_there = at < step && keys_of(of, at).contains(key);
                if was_there && at + slack < step {
                    assert_eq!(*value, 1.0, "stale: step {step} has not step {at} of rank {of}");
                }
                if self.staleness == Staleness::Exact && at >= step {
                    assert_eq!(*value, 0.0, "step {step} has step {at} of rank {of}");
                }
            }
        }
    }

    fn check(&self, seed: u64) -> Result<Counts, String> {
        let tables = Arc::default();
        let Job { kind, ranks, .. } = self.job;
        let end = |fabric: &Fabric| self.end(fabric, &tables);
        let learner = |rank| self.learner(rank, &tables);
        let counts = schedule::run_ends((kind, ranks), end, learner, seed)?.counts;
        self.judge(counts, &tables.lock().unwrap())?;
        Ok(counts)
    }

    fn judge(&self, counts: Counts, tables: &Tables) -> Result<(), String> {
        if (counts.lost(), counts.rows_lost()) != (0, 0) {
            return Err(format!("gradients are lost: {counts:?}"));
        }
        if let Staleness::Bounded(most) = self.staleness
            && counts.staleness_max > most
        {
            return Err(format!("stale by {} of {most}", counts.staleness_max));
        }
        let mut gradients = 0;
        for (key, row) in &tables.rows {
            for (lane, value) in row.iter().enumerate() {
                let step = (lane % PER_RANK) as u64;
                let pushed = tables.pushed.get(&(*key, lane)).copied().unwrap_or_default();
                if ![0.0, pushed as f64].contains(value) {
                    return Err(format!("{key:?}: step {step} counts {value} times of {pushed}"));
                }
                gradients += u64::from(*value != 0.0);
            }
        }
        // When the run ends, a rank computes at most one more gradient, which is not used.
        let all = tables.pushed.len() as u64;
        if gradients + 5 * self.job.ranks as u64 <= all && all > 0 {
            return Err(format!("{gradients} of {all} gradients of rows show"));
        }
        Ok(())
    }
}

#[test]
fn no_schedule_loses_a_gradient_of_rows_or_breaks_their_bound() {
    let each = if std::env::var_os("STEPWELL_LONG").is_some() { 2_000 } else { 100 };
    for kind in Kind::ALL {
        let mut all = Vec::new();
        for seed in 0..each {
            let job = RowJob::drawn(kind, seed);
            let counts = job.check(seed).unwrap_or_else(|why| panic!("{seed}: {why}: {job:?}"));
            all.push(counts);
        }
        let sum = Counts::sum(all);
        println!("{kind} with rows: {each} runs, {sum:?}");
        assert!(sum.rows_pushed > each && sum.staleness_max > 0, "{sum:?}");
    }
}

fn breaks(rule: Rule, kind: Kind, staleness: Staleness, says: &str) {
    found_without(rule, says, |seed, rules| {
        let job = RowJob { staleness, rules, ..RowJob::drawn(kind, seed) };
        job.check(seed).map(drop)
    });
}

#[test]
fn sync_i10_rows_that_are_read_at_once_are_too_old() {
    breaks(Rule::WaitForRows, Kind::Bsp, Staleness::Bounded(0), "stale by");
    breaks(Rule::WaitForRows, Kind::Rna, Staleness::Bounded(1), "stale by");
    breaks(Rule::WaitForRows, Kind::RdmaWild, Staleness::Bounded(1), "stale by");
}

#[test]
fn exact_rows_are_those_of_a_plain_loop_in_every_schedule() {
    let job = |ranks| {
        let mut job = Job::drawn(Kind::Bsp, 4);
        (job.ranks, job.options.steps) = (ranks, 9);
        RowJob { job, staleness: Staleness::Exact, rules: Rules::default() }
    };
    for ranks in 2..6 {
        let mut expected: BTreeMap<Key, Vec<f64>> = BTreeMap::new();
        for (rank, step) in (0..9).flat_map(|step| (0..ranks).map(move |rank| (rank, step))) {
            for key in keys_of(rank, step) {
                let row = expected.entry(key).or_insert_with(|| vec![0.0; ranks * PER_RANK]);
                row[rank * PER_RANK + step as usize] = 1.0;
            }
        }
        for seed in 0..10 {
            let (job, tables) = (job(ranks), Arc::default());
            let end = |fabric: &Fabric| job.end(fabric, &tables);
            let learner = |rank| job.learner(rank, &tables);
            schedule::run_ends((Kind::Bsp, ranks), end, learner, seed).unwrap();
            assert_eq!(tables.lock().unwrap().rows, expected, "{ranks} ranks, {seed}");
        }
    }
}

#[test]
fn ranks_on_threads_lose_no_gradient_of_rows() {
    for kind in Kind::ALL {
        for seed in 0..6 {
            let (job, tables) = (RowJob::drawn(kind, seed), Arc::default());
            let ends = threads(job.job.ranks);
            let counts = std::thread::scope(|scope| {
                let one = |fabric: &Fabric| {
                    let mut learner = job.learner(fabric.rank(), &tables);
                    drive(fabric, job.end(fabric, &tables), &mut *learner).unwrap().counts
                };
                let all: Vec<_> = ends.iter().map(|end| scope.spawn(move || one(end))).collect();
                Counts::sum(all.into_iter().map(|rank| rank.join().unwrap()))
            });
            job.judge(counts, &tables.lock().unwrap()).unwrap();
        }
    }
}

#[test]
fn exact_rows_go_with_the_blocking_sum_alone() {
    for kind in Kind::ALL {
        let [fabric, _other] = &threads(2)[..] else { unreachable!("two ends") };
        let job = RowJob::drawn(kind, 0);
        let dense = kind.begin(fabric, vec![0.0; 3], &job.job.options).unwrap();
        let owned = Box::new(Ledger { lanes: 1, tables: Arc::default() });
        let keys = Box::new(|_, _: &mut Vec<Key>| ());
        let rows = RankRows { staleness: Staleness::Exact, owned, keys };
        let outcome = kind.with_rows(fabric, dense, rows, Rules::default());
        assert_eq!(outcome.is_ok(), kind == Kind::Bsp, "{kind}");
        if let Err(error) = outcome {
            assert!(error.to_string().contains("use bounded or async rows"), "{error}");
        }
    }
}

#[test]
fn what_a_rank_would_never_send_is_refused_with_its_name() {
    use stepwell_base::owner::owner;
    use stepwell_fabric::Tag;

    let own: Vec<u64> = (0..20).filter(|key| owner(Key(*key), 2) == 0).collect();
    let other = (0..20).find(|key| owner(Key(*key), 2) == 1).unwrap();
    let (pull, push, clock, end) = (1, 2, 3, 4);
    // Heads and keys of the messages of rank 1, and what is wrong with the last.
    type Sent<'a> = ([u64; 2], &'a [u64]);
    let cases: [(&[Sent<'_>], &str); 8] = [
        (&[([9, 0], &[])], "of an unknown kind"),
        (&[([pull, 0], &[other])], "rows of another owner"),
        (&[([pull, 0], &[own[0], own[0]])], "a row twice"),
        (&[([pull, 0], &own[..1]), ([pull, 1], &own[..1])], "while it has others"),
        (&[([clock, 3], &[]), ([clock, 2], &[])], "goes back"),
        (&[([clock, u64::MAX], &[])], "goes back"),
        (&[([push, 0], &[1])], "not for the rows it has"),
        (&[([end, 0], &[]), ([clock, 1], &[])], "after the rank's last message"),
    ];
    for (messages, says) in cases {
        let [fabric, peer] = &threads(2)[..] else { unreachable!("two ends") };
        let job = RowJob::drawn(Kind::Rna, 0);
        let dense = Kind::Rna.begin(fabric, vec![0.0; 3], &job.job.options).unwrap();
        let owned = Box::new(Ledger { lanes: 1, tables: Arc::default() });
        let keys = Box::new(|_, _: &mut Vec<Key>| ());
        let rows = RankRows { staleness: Staleness::Bounded(0), owned, keys };
        let mut end = Kind::Rna.with_rows(fabric, dense, rows, Rules::default()).unwrap();
        for (head, keys) in messages {
            let mut message = peer.message_of(64);
            message.put(head);
            if [pull, push].contains(&head[0]) {
                message.put(keys);
            }
            peer.send(0, Tag(0x5350), message).unwrap();
        }
        let error = (0..4).find_map(|_| end.poll(fabric).err()).unwrap().to_string();
        assert!(error.contains("rank 1") && error.contains(says), "{says}: {error}");
    }
}
