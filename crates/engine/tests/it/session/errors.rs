//! Invalid input is refused and changes nothing; an error of a stage ends the session without a
//! panic.

use stepwell_base::{ByteCount, Key};
use stepwell_engine::{
    Bags, BagsRef, Columns, Error, Field, Pooling, Purpose, Session, Shape, TableSpec, Tiers,
};

use super::{EXAMPLES, drawn, open, open_one, single, table};

#[test]
fn what_does_not_fit_is_refused_and_changes_nothing() {
    let mut session = open(&Tiers::default()).unwrap();
    let labels = [0.0; EXAMPLES];
    let [items, places, pages] = drawn(1);
    let (mut short, mut loose, mut light) = (items.clone(), items.clone(), pages.clone());
    light.weights.pop();
    short.ends.pop();
    loose.keys.push(Key(1));
    for (bags, why) in [
        ([&items].to_vec(), "bags of 1 tables: give 3"),
        ([&short, &places, &pages].to_vec(), "table 'items': 31 bags, but 32 are needed"),
        ([&items, &items, &pages].to_vec(), "table 'places': 32 bags, but 16 are needed"),
        ([&loose, &places, &pages].to_vec(), "the ends must ascend"),
        ([&items, &places, &light].to_vec(), "weights for"),
    ] {
        let bags: Vec<Bags> = bags.into_iter().cloned().collect();
        let error = session.feed(&bags, &labels, Purpose::Train).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    assert!(session.ready().unwrap().is_none());
    let own = [items.clone(), places.clone(), pages.clone()];
    let of = own.each_ref().map(BagsRef::from);
    let short = session.preparer().prepare(EXAMPLES, &of, Some(&[1.0]), Purpose::Train);
    assert_eq!(short.unwrap_err().to_string(), "1 labels for 16 examples");
    let error = session.feed(&[], &[], Purpose::Train).unwrap_err().to_string();
    assert!(error.contains("no example"), "{error}");
    session.feed(&[items, places, pages], &labels, Purpose::Train).unwrap();
    assert_eq!(session.ready().unwrap().unwrap().examples(), EXAMPLES);
    drop(session);
    let none = open(&Tiers { dram: Some(ByteCount(10)), ..Tiers::default() }).unwrap_err();
    assert!(none.contains("cannot hold even one row of table 'items', 'pages'"), "{none}");
}

#[test]
fn a_model_that_makes_no_sense_is_refused() {
    let table = |name, dim, wide| TableSpec { wide, ..table(name, dim) };
    let none_outside = Field { column: 1, pooling: Pooling::None };
    let shape = Shape::default();
    let blocks = Shape { blocks: 0, ..Shape::default() };
    let two = || vec![vec![Field::sum(0)], vec![Field::sum(0)]];
    for (tables, of_fields, shape, why) in [
        (vec![], vec![], &shape, "0 tables"),
        (vec![table("a", 4, 0)], two(), &shape, "1 tables, and fields for 2"),
        (vec![table("a", 4, 0)], vec![vec![Field::sum(1)]], &shape, "column 1 on, but there are 4"),
        (vec![table("a", 4, 0)], vec![vec![none_outside, Field::sum(0)]], &shape, "column 1 on"),
        (vec![table("a", 4, 0)], vec![vec![]], &shape, "and a field"),
        (vec![table("a", 0, 0)], vec![vec![Field::sum(0)]], &shape, "at least one weight"),
        (vec![table("a", 0, 2)], vec![vec![Field::sum(0)]], &shape, "0 or 1 of them wide"),
        (vec![table("a", 4, 0)], vec![vec![Field::sum(0)]], &blocks, "at least 1 block"),
        (vec![table("a", 4, 0), table("a", 2, 0)], two(), &shape, "the same tag"),
    ] {
        let columns = Columns { of_fields, count: 4 };
        let opened = Session::open(tables, columns, shape.clone(), &Tiers::default());
        let error = opened.map(drop).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn a_directory_with_rows_is_not_taken() {
    let home = tempfile::tempdir().unwrap();
    let directory = Some(home.path().join("rows"));
    let tiers = Tiers { directory, dram: Some(ByteCount(16 << 10)), ..Tiers::default() };
    let session = open(&tiers).unwrap();
    let error = open(&tiers).unwrap_err();
    assert!(error.contains("rows"), "{error}");
    drop(session);
    // Nothing was ever put into the directory.
    assert!(open(&tiers).is_ok());
}

#[test]
fn a_mini_batch_that_memory_cannot_hold_is_refused_and_the_session_goes_on() {
    let mut session = open_one(16 << 10, 1);
    let error = session.feed(&[single(0..5000)], &[0.0; 5000], Purpose::Train).unwrap_err();
    let said = error.to_string();
    assert!(said.contains("5000 distinct rows of table 'items'"), "{said}");
    let needed = said.split("about ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    // The size in the message is enough.
    let mut enough = open_one(needed.parse::<u64>().unwrap() * 11 / 10, 1);
    enough.feed(&[single(0..5000)], &[0.0; 5000], Purpose::Train).unwrap();
    assert_eq!(enough.ready().unwrap().unwrap().examples(), 5000);
    for number in 0..3 {
        session.feed(&[single(number..number + 3)], &[0.0; 3], Purpose::Train).unwrap();
        session.ready().unwrap().unwrap().push(&[1.0; 12], &[]).unwrap();
    }
    assert_eq!(session.steps(), 3);
    session.finish().unwrap();
}

#[test]
fn too_many_mini_batches_are_refused_and_the_session_goes_on() {
    let mut session = open_one(16 << 10, 2);
    let mut fed = 0;
    while session.has_room() {
        session.feed(&[single(fed..fed + 2)], &[0.0; 2], Purpose::Train).unwrap();
        fed += 1;
    }
    let error = session.feed(&[single(0..2)], &[0.0; 2], Purpose::Train).unwrap_err();
    assert!(error.to_string().contains("mini-batches are fed"), "{error}");
    for _ in 0..fed {
        session.ready().unwrap().unwrap().push(&[1.0; 8], &[]).unwrap();
    }
    assert!(session.ready().unwrap().is_none());
    assert_eq!(session.steps(), fed);
}

/// After an error of a stage, here of the store, every call returns an error.
#[test]
fn an_error_of_a_stage_ends_the_session_without_a_panic() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("rows");
    let columns = Columns { of_fields: vec![vec![Field::sum(0)]], count: 4 };
    let tiers = Tiers {
        dram: Some(ByteCount(16 << 10)),
        directory: Some(directory.clone()),
        lookahead: 1,
        ..Tiers::default()
    };
    let mut session =
        Session::open(vec![table("items", 4)], columns, Shape::default(), &tiers).unwrap();
    let mut error = None;
    for number in 0..2000 {
        let keys = single(number * 50..number * 50 + 100);
        let step = session.feed(&[keys], &[0.0; 100], Purpose::Train).and_then(|()| {
            let turn = session.ready()?.unwrap();
            turn.push(&[1.0; 400], &[])
        });
        if number == 5 {
            // New segments can't be made any more.
            std::fs::remove_dir_all(&directory).unwrap();
        }
        if let Err(why) = step {
            error = Some(why);
            break;
        }
    }
    let first = error.unwrap();
    assert!(!matches!(first, Error::Ended(_)), "{first}");
    let ended = |error: Error| match error {
        Error::Ended(why) => assert_eq!(why, first.to_string()),
        other => panic!("{other}"),
    };
    for _ in 0..2 {
        ended(session.feed(&[single(0..3)], &[0.0; 3], Purpose::Train).unwrap_err());
        ended(session.ready().map(drop).unwrap_err());
    }
    ended(session.finish().unwrap_err());
}
