//! Matrix factorization over tables that may exceed memory: users and items have vectors, whose
//! product is a rating. Ratings are drawn from planted vectors, so the answer is known.
//!
//! ```text
//! cargo run --release -p stepwell-engine --example factors -- [DIR]
//! ```
//!
//! With `DIR`, a session is saved there half-way and another one goes on.

#![expect(clippy::print_stdout, reason = "the example prints its results")]

use std::path::{Path, PathBuf};

use stepwell_base::initial::Initial;
use stepwell_base::random::Stream;
use stepwell_base::{ByteCount, Namespace};
use stepwell_engine::{
    Bags, Columns, Field, Purpose, Result, SavedSession, Session, Shape, TableSpec, Tiers,
};
use stepwell_optim::{RowOptimizer, Rule};

const DIM: usize = 4;
const EXAMPLES: usize = 256;

/// Mean squared error of the last tenth of `steps` mini-batches of ratings by `users` of `items`,
/// and a digest of all rows, with `dram` for the rows of both tables. If `saves` names a
/// directory, the session is saved there half-way and resumed.
fn factors(
    (users, items): (u64, u64),
    steps: usize,
    dram: ByteCount,
    saves: Option<&Path>,
) -> Result<(f64, String)> {
    let optimizer = RowOptimizer::new(Rule::adagrad(0.3)).unwrap_or_else(|_| unreachable!());
    let table = |id, name| TableSpec {
        initial: Initial::Uniform { range: 0.5 },
        seed: 1,
        ..TableSpec::new(id, name, DIM, optimizer)
    };
    // The user's vector comes first, then the item's.
    let columns =
        || Columns { of_fields: vec![vec![Field::sum(0)], vec![Field::sum(DIM)]], count: 2 * DIM };
    let shape = Shape { blocks: 8, ..Shape::default() };
    let tiers = Tiers { dram: Some(dram), ..Tiers::default() };
    let mut session = Session::open(
        vec![table(0, "users"), table(1, "items")],
        columns(),
        shape.clone(),
        &tiers,
    )?;
    let (mut fed, mut taken, mut late) = (0, 0, 0.0);
    while taken < steps {
        while fed < steps && session.has_room() {
            let (bags, ratings) = draw(fed, users, items);
            session.feed(&bags, &ratings, Purpose::Train)?;
            fed += 1;
        }
        let Some(turn) = session.ready()? else { break };
        let mut d_x = turn.embeddings();
        let mut squares = 0.0;
        for (x, rating) in d_x.chunks_exact_mut(2 * DIM).zip(turn.labels()) {
            let (user, item) = x.split_at_mut(DIM);
            let error = user.iter().zip(&*item).map(|(u, i)| u * i).sum::<f32>() - rating;
            squares += f64::from(error * error);
            for (user, item) in user.iter_mut().zip(item) {
                (*user, *item) = (error * *item, error * *user);
            }
        }
        turn.push(&d_x, &[0.0; EXAMPLES])?;
        late += if taken >= steps - steps / 10 { squares / EXAMPLES as f64 } else { 0.0 };
        taken += 1;
        if let Some(directory) = saves.filter(|_| taken == steps / 2) {
            // A model's own parameters would be among the bytes that are saved with the rows.
            session.save(directory, 1, b"half-way")?;
            let saved = SavedSession::open(directory)?;
            session = Session::resume(saved, columns(), shape.clone(), &tiers)?;
            // Mini-batches fed ahead are lost with the first session.
            fed = taken;
        }
    }
    Ok((late / (steps / 10) as f64, session.finish()?))
}

/// Ratings of mini-batch `number`, by user and item, from the planted vectors.
fn draw(number: usize, users: u64, items: u64) -> ([Bags; 2], Vec<f32>) {
    let mut dice = Stream::named(number as u64, b"ratings");
    let names =
        ["user", "item"].map(|name| Namespace::new(name).unwrap_or_else(|_| unreachable!()));
    let (mut bags, mut ratings) = ([Bags::default(), Bags::default()], Vec::new());
    for _ in 0..EXAMPLES {
        let ids = [dice.next_u64() % users, dice.next_u64() % items];
        for ((bags, name), id) in bags.iter_mut().zip(&names).zip(ids) {
            bags.keys.push(name.key_of(id.to_string().as_bytes()));
            bags.ends.push(bags.keys.len() as u32);
        }
        let planted = |name: &str, id: u64| {
            let mut stream = Stream::named(id, name.as_bytes());
            [0; DIM].map(|_: i32| stream.next_symmetric(1.0))
        };
        let (user, item) = (planted("user", ids[0]), planted("item", ids[1]));
        ratings.push(user.iter().zip(&item).map(|(u, i)| u * i).sum());
    }
    (bags, ratings)
}

fn main() -> Result<()> {
    let (counts, steps) = ((2_000, 500), 4_000);
    let (roomy, digest) = factors(counts, steps, ByteCount(64 << 20), None)?;
    println!("all rows in memory       mean squared error {roomy:.5}, rows {digest}");
    let saves = std::env::args_os().nth(1).map(PathBuf::from);
    let (tight, again) = factors(counts, steps, ByteCount(64 << 10), saves.as_deref())?;
    println!("a part of them in memory mean squared error {tight:.5}, rows {again}");
    assert_eq!((digest, roomy.to_bits()), (again, tight.to_bits()), "tiers do not change results");
    assert!(roomy < 0.01, "the planted vectors are found: ratings have a variance of 0.44");
    Ok(())
}
