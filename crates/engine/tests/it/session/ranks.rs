//! Sessions of several ranks: each has the rows of its key shards, and all together have those of a
//! single session. They save together, and any number of ranks goes on from there.

use std::path::Path;
use std::sync::{Barrier, Mutex};

use stepwell_base::owner::{RankOf, owner};
use stepwell_base::random::Stream;
use stepwell_base::{ByteCount, Key};
use stepwell_engine::{
    Admission, Bags, Columns, DenseView, Error, Field, Life, ModelDigest, Pooling, Purpose, Result,
    SavedSession, Session, Shape, TableSpec, Tiers,
};

use super::table;

const STEPS: u64 = 40;
/// Keys of a step.
const KEYS: usize = 120;

/// Messages that ranks exchange.
struct Meeting {
    said: Mutex<Vec<Vec<u8>>>,
    barrier: Barrier,
}

impl Meeting {
    fn new(ranks: usize) -> Self {
        Self { said: Mutex::new(vec![Vec::new(); ranks]), barrier: Barrier::new(ranks) }
    }

    /// Every rank's bytes.
    fn meet(&self, rank: usize, bytes: Vec<u8>) -> Vec<Vec<u8>> {
        self.said.lock().unwrap()[rank] = bytes;
        self.barrier.wait();
        let all = self.said.lock().unwrap().clone();
        self.barrier.wait();
        all
    }
}

fn spec() -> TableSpec {
    let life = Life { admission: Admission::After(2), expire_after: 12 };
    TableSpec { life: Some(life), ..table("rows", 4) }
}

fn columns() -> Columns {
    let field = Field { column: 0, pooling: Pooling::None };
    Columns { of_fields: vec![vec![field]], count: 0 }
}

fn tiers(of: RankOf) -> Tiers {
    Tiers { dram: Some(ByteCount(24 << 10)), of, ..Tiers::default() }
}

/// Trains steps `steps` on the rows that `of` has of the same mini-batches: each rank asks for a
/// part of the keys. Every row gets the same gradient, whatever the number of ranks.
fn train(session: &mut Session, of: RankOf, steps: std::ops::Range<u64>) {
    let salt = spec().salt();
    for step in steps {
        let mut dice = Stream::named(step, b"ranks");
        let keys: Vec<Key> = (0..KEYS).map(|_| Key(dice.next_u64() % 900)).collect();
        let mut bags = Bags::default();
        for rank in 0..of.ranks {
            let asked = &keys[rank * KEYS / of.ranks..(rank + 1) * KEYS / of.ranks];
            bags.keys
                .extend(asked.iter().filter(|key| owner(key.salted(salt), of.ranks) == of.rank));
            bags.ends.push(bags.keys.len() as u32);
        }
        session.feed(&[bags], &vec![0.0; of.ranks], Purpose::Train).unwrap();
        let turn = session.ready().unwrap().unwrap();
        let gradient = |key: Key| [0.25, 0.5, (key.0 % 3) as f32, step as f32];
        let d_rows: Vec<f32> = turn.keys(0).flat_map(gradient).collect();
        turn.push_all(&[], &[], &[(0, &d_rows)]).unwrap();
    }
}

/// Runs `work` as each of `ranks` ranks; returns the digest of all rows.
fn digest_of(ranks: usize, work: impl Fn(RankOf, &Meeting) -> Session + Sync) -> String {
    let (meeting, whole) = (Meeting::new(ranks), Mutex::new(ModelDigest::default()));
    std::thread::scope(|scope| {
        for rank in 0..ranks {
            let (meeting, whole, work) = (&meeting, &whole, &work);
            scope.spawn(move || {
                let mut session = work(RankOf { rank, ranks }, meeting);
                let part = session.digest_rows().unwrap();
                whole.lock().unwrap().add_rows(part.of_rows());
            });
        }
    });
    let whole = whole.into_inner().unwrap();
    assert!(whole.rows() > 200, "{} rows", whole.rows());
    whole.finish(&DenseView::default())
}

fn open(of: RankOf) -> Session {
    Session::open(vec![spec()], columns(), Shape::default(), &tiers(of)).unwrap()
}

fn save(session: &mut Session, of: RankOf, to: &Path, meeting: &Meeting) -> Result<String> {
    let mut meet = |bytes| Ok(meeting.meet(of.rank, bytes));
    let path = session.save_with(to, 2, b"all", &mut meet)?;
    Ok(path.display().to_string())
}

#[test]
fn ranks_have_the_rows_of_one_and_go_on_in_any_number() {
    let expected = digest_of(1, |of, _| {
        let mut session = open(of);
        train(&mut session, of, 0..STEPS);
        session
    });
    for ranks in [1, 2, 3] {
        let home = tempfile::tempdir().unwrap();
        let found = digest_of(ranks, |of, meeting| {
            let mut session = open(of);
            train(&mut session, of, 0..STEPS / 2);
            let saved = save(&mut session, of, home.path(), meeting).unwrap();
            assert!(saved.ends_with("step-000000000020"), "{saved}");
            // The same step is there already, on all ranks.
            assert_eq!(save(&mut session, of, home.path(), meeting).unwrap(), saved);
            train(&mut session, of, STEPS / 2..STEPS);
            session
        });
        assert_eq!(found, expected, "{ranks} ranks");
        for others in [1, 2, 3] {
            let resumed = digest_of(others, |of, _| {
                let saved = SavedSession::open(home.path()).unwrap();
                assert_eq!((saved.step(), &saved.extra[..]), (STEPS / 2, &b"all"[..]));
                let shape = Shape::default();
                let mut session = Session::resume(saved, columns(), shape, &tiers(of)).unwrap();
                train(&mut session, of, STEPS / 2..STEPS);
                session
            });
            assert_eq!(resumed, expected, "from {ranks} ranks on {others}");
        }
    }
}

#[test]
fn a_save_that_fails_on_one_rank_fails_on_all_and_they_go_on() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("file");
    std::fs::write(&file, "no directory").unwrap();
    digest_of(2, |of, meeting| {
        let mut session = open(of);
        train(&mut session, of, 0..STEPS / 2);
        let why = save(&mut session, of, &file, meeting).unwrap_err().to_string();
        assert_eq!(why.starts_with("rank 0: "), of.rank == 1, "{why}");
        let mut gone = |bytes| {
            meeting.meet(of.rank, bytes);
            Err(Error::Refused("the others are gone".to_owned()))
        };
        let why = session.save_with(home.path(), 2, &[], &mut gone).unwrap_err();
        assert_eq!(why.to_string(), "the others are gone");
        save(&mut session, of, &home.path().join("saved"), meeting).unwrap();
        train(&mut session, of, STEPS / 2..STEPS);
        session
    });
    let saved = SavedSession::open(&home.path().join("saved")).unwrap();
    assert_eq!(saved.step(), STEPS / 2);
}
