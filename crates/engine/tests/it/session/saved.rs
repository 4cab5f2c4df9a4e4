//! Saved sessions, and other work between two steps: none of it changes the rows.

use stepwell_base::{ByteCount, Key};
use stepwell_engine::{
    Admission, Columns, Field, Life, Pooling, Purpose, SavedSession, Session, Shape, Tiers,
};

use super::{EXAMPLES, drawn, open, open_living, open_one, single, train};

/// Trains the next mini-batches, up to number `end`, with others fed ahead.
fn train_to(session: &mut Session, fed: &mut u64, end: u64) {
    while session.steps() < end {
        while session.has_room() && *fed < 60 {
            session.feed(&drawn(*fed), &[1.0; EXAMPLES], Purpose::Train).unwrap();
            *fed += 1;
        }
        let turn = session.ready().unwrap().unwrap();
        let mut x = turn.embeddings();
        x.iter_mut().for_each(|x| *x -= 0.25);
        turn.push(&x, &[]).unwrap();
    }
}

fn columns_of_three() -> Columns {
    let mean = Field { column: 4, pooling: Pooling::Mean };
    let of_fields = vec![vec![Field::sum(0), mean], vec![Field::sum(8)], vec![Field::sum(10)]];
    Columns { of_fields, count: 14 }
}

/// Sessions that are saved, and ended and resumed from what they saved, have the rows of one that
/// never was.
#[test]
fn a_saved_session_goes_on_with_the_same_rows() {
    let life = |admission, expire_after| Some(Life { admission, expire_after });
    let living = [life(Admission::AtOnce, 9), None, life(Admission::After(2), 9)];
    let shape = Shape { blocks: 4, ..Shape::default() };
    for lives in [[None; 3], living] {
        let mut whole = open_living(&Tiers { lookahead: 0, ..Tiers::default() }, lives).unwrap();
        train_to(&mut whole, &mut 0, 60);
        let expected = whole.finish().unwrap();
        for (memory, lookahead) in [(64 << 20, 0), (20 << 10, 4), (20 << 10, 0)] {
            let home = tempfile::tempdir().unwrap();
            let tiers = Tiers { dram: Some(ByteCount(memory)), lookahead, ..Tiers::default() };
            let (mut fed, mut ended) = (0, 0);
            let mut session = open_living(&tiers, lives).unwrap();
            let nothing = session.digest().unwrap();
            for step in [0, 1, 7, 20, 21, 40] {
                train_to(&mut session, &mut fed, step);
                let extra = format!("model after step {step}").into_bytes();
                let saved = session.save(home.path(), 2, &extra).unwrap();
                // Nothing was lost of what was fed ahead, nor if the same is saved again.
                assert_eq!(session.save(home.path(), 2, &extra).unwrap(), saved);
                if step == 20 || step == 1 {
                    drop(session);
                    let saved = SavedSession::open(home.path()).unwrap();
                    assert_eq!((saved.step(), &saved.extra), (step, &extra));
                    let columns = columns_of_three();
                    session = Session::resume(saved, columns, shape.clone(), &tiers).unwrap();
                    assert_eq!(session.steps(), step);
                    (fed, ended) = (step, ended + 1);
                }
            }
            train_to(&mut session, &mut fed, 60);
            assert!(session.digest().unwrap() == expected && nothing != expected);
            assert_eq!((session.finish().unwrap(), ended), (expected.clone(), 2), "{memory}");
            let names = std::fs::read_dir(home.path()).unwrap();
            let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            assert_eq!(names.filter(|name| name.starts_with("step-")).count(), 2);
        }
    }
}

#[test]
fn a_checkpoint_of_another_session_or_other_bytes_is_not_overwritten() {
    let home = tempfile::tempdir().unwrap();
    let step = |session: &mut Session| {
        session.feed(&[single(0..3)], &[0.0; 3], Purpose::Train).unwrap();
        session.ready().unwrap().unwrap().push(&[1.0; 12], &[]).unwrap();
    };
    let (mut first, mut second) = (open_one(16 << 10, 1), open_one(16 << 10, 1));
    step(&mut first);
    let path = first.save(home.path(), 1, b"model").unwrap();
    let error = first.save(home.path(), 1, b"other").unwrap_err().to_string();
    assert!(error.contains("another extra"), "{error}");
    step(&mut second);
    let error = second.save(home.path(), 1, b"model").unwrap_err().to_string();
    assert!(error.contains("another run"), "{error}");
    // Both go on.
    [&mut first, &mut second].into_iter().for_each(step);
    assert_eq!((first.steps(), second.steps()), (2, 2));
    let mut saved = SavedSession::open(&path).unwrap();
    assert_eq!((saved.step(), &*saved.extra, saved.path()), (1, &b"model"[..], &*path));
    saved.tables[0].dim = 3;
    let columns = || Columns { of_fields: vec![vec![Field::sum(0)]], count: 4 };
    let resume = |saved| Session::resume(saved, columns(), Shape::default(), &Tiers::default());
    let error = resume(saved).map(drop).unwrap_err().to_string();
    assert!(error.contains("table 'items' with sgd has other rows"), "{error}");
    let error = SavedSession::open(&home.path().join("none")).map(drop).unwrap_err().to_string();
    assert!(error.contains("does not exist"), "{error}");
}

#[test]
fn a_learning_rate_is_saved() {
    let home = tempfile::tempdir().unwrap();
    let mut session = open_one(16 << 10, 1);
    session.feed(&[single(0..3)], &[0.0; 3], Purpose::Train).unwrap();
    session.ready().unwrap().unwrap().push(&[1.0; 12], &[]).unwrap();
    for (step, lr) in [0.25, 0.0].into_iter().enumerate() {
        session.set_learning_rate(0, lr).unwrap();
        let directory = home.path().join(step.to_string());
        session.save(&directory, 1, &[]).unwrap();
        let saved = SavedSession::open(&directory).unwrap();
        assert_eq!((saved.tables[0].optimizer.lr(), saved.extra.len()), (lr, 0));
    }
}

/// An evaluation between two steps, with mini-batches fed ahead, leaves no trace.
#[test]
fn mini_batches_fed_ahead_wait_for_an_evaluation() {
    let expected = train(&Tiers::default(), [None; 3], 0);
    let tiers = Tiers { dram: Some(ByteCount(20 << 10)), lookahead: 4, ..Tiers::default() };
    let mut session = open(&tiers).unwrap();
    let (mut fed, mut next, mut evaluated) = (0..300, 0, 0);
    while session.steps() < 300 {
        while session.has_room()
            && let Some(number) = fed.next()
        {
            session.feed(&drawn(number), &[1.0; EXAMPLES], Purpose::Train).unwrap();
        }
        let mut turn = session.ready().unwrap().unwrap();
        if next % 50 == 0 {
            drop(turn);
            let waiting = session.drain().unwrap();
            for number in 0..3 {
                session.feed(&drawn(number), &[1.0; EXAMPLES], Purpose::Evaluate).unwrap();
                assert!(!session.ready().unwrap().unwrap().trains());
                evaluated += 1;
            }
            // The mini-batch of the turn ended untrained.
            session.feed(&drawn(next), &[1.0; EXAMPLES], Purpose::Train).unwrap();
            session.feed_again(waiting).unwrap();
            turn = session.ready().unwrap().unwrap();
        }
        let mut x = turn.embeddings();
        x.iter_mut().for_each(|x| *x -= 0.25);
        turn.push(&x, &[0.0; EXAMPLES]).unwrap();
        next += 1;
    }
    assert_eq!((session.finish().unwrap(), evaluated), (expected, 18));
}

#[test]
fn rows_are_read_by_key_between_steps() {
    let expected = train(&Tiers::default(), [None; 3], 0);
    for (memory, lookahead) in [(64 << 20, 2), (18 << 10, 0)] {
        let tiers = Tiers { dram: Some(ByteCount(memory)), lookahead, ..Tiers::default() };
        let mut session = open(&tiers).unwrap();
        let (mut fed, mut read) = (0..300, Vec::new());
        // More rows than fit at once, some of them several times.
        let keys: Vec<Key> = (0..3000).chain(0..10).map(Key).collect();
        while session.steps() < 300 {
            while session.has_room()
                && let Some(number) = fed.next()
            {
                session.feed(&drawn(number), &[1.0; EXAMPLES], Purpose::Train).unwrap();
            }
            let turn = session.ready().unwrap().unwrap();
            let mut x = turn.embeddings();
            x.iter_mut().for_each(|x| *x -= 0.25);
            turn.push(&x, &[]).unwrap();
            if session.steps().is_multiple_of(150) {
                read.push([0, 1].map(|table| session.read(table, &keys).unwrap()));
            }
        }
        for [items, places] in &read {
            assert_eq!((items.len(), places.len()), (3010 * 4, 3010 * 2));
            assert_eq!(items[..10 * 4], items[3000 * 4..]);
        }
        assert!(read[0] != read[1], "rows change");
        let error = session.read(3, &keys).unwrap_err().to_string();
        assert!(error.contains("no table 3"), "{error}");
        assert_eq!(session.finish().unwrap(), expected);
    }
}
