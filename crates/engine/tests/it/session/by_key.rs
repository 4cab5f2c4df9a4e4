//! Rows written by key: they are read, trained and saved like rows that training made.

use stepwell_base::{ByteCount, Key};
use stepwell_engine::{
    Admission, Columns, Field, Life, Purpose, SavedSession, Session, Shape, TableSpec, Tiers,
};
use stepwell_optim::Storage;

use super::{EXAMPLES, drawn, open_living, open_one, single, table};

/// Weights for the rows of `keys`, different for each `turn`.
fn weights(keys: std::ops::Range<u64>, width: u64, turn: u64) -> Vec<f32> {
    let of_row = |key| (0..width).map(move |lane| (key * width + lane + turn) as f32 / 64.0);
    keys.flat_map(of_row).collect()
}

fn keys(of: std::ops::Range<u64>) -> Vec<Key> {
    of.map(Key).collect()
}

/// Writes rows before, between and after steps, with other mini-batches fed ahead.
fn train_and_write(tiers: &Tiers, lives: [Option<Life>; 3]) -> String {
    let mut session = open_living(tiers, lives).unwrap();
    session.write(0, &keys(0..900), &weights(0..900, 4, 0)).unwrap();
    let mut fed = 0;
    while session.steps() < 60 {
        while session.has_room() && fed < 60 {
            session.feed(&drawn(fed), &[1.0; EXAMPLES], Purpose::Train).unwrap();
            fed += 1;
        }
        let turn = session.ready().unwrap().unwrap();
        assert_eq!(turn.labels(), [1.0; EXAMPLES]);
        let mut x = turn.embeddings();
        x.iter_mut().for_each(|x| *x -= 0.25);
        turn.push(&x, &[]).unwrap();
        if session.steps() % 20 == 3 {
            let turn = session.steps();
            session.write(1, &keys(500..1500), &weights(500..1500, 2, turn)).unwrap();
            session.write(2, &keys(0..50), &weights(0..50, 4, turn)).unwrap();
        }
    }
    let written = session.read(1, &keys(900..903)).unwrap();
    session.write(1, &keys(900..903), &written).unwrap();
    session.finish().unwrap()
}

#[test]
fn tiers_and_lookahead_do_not_affect_written_rows() {
    let life = |admission, expire_after| Some(Life { admission, expire_after });
    let living = [life(Admission::AtOnce, 9), None, life(Admission::After(2), 9)];
    for lives in [[None; 3], living] {
        let expected = train_and_write(&Tiers { lookahead: 0, ..Tiers::default() }, lives);
        for (memory, lookahead) in [(64 << 20, 3), (20 << 10, 0), (24 << 10, 4)] {
            let tiers = Tiers { dram: Some(ByteCount(memory)), lookahead, ..Tiers::default() };
            assert_eq!(train_and_write(&tiers, lives), expected, "{memory} {lookahead} {lives:?}");
        }
    }
}

#[test]
fn written_rows_are_read_and_the_last_of_several_stays() {
    let mut session = open_one(16 << 10, 1);
    let (first, other) = (weights(0..2000, 4, 0), weights(0..2000, 4, 5));
    session.write(0, &keys(0..2000), &first).unwrap();
    assert_eq!(session.read(0, &keys(0..2000)).unwrap(), first);
    let twice = [keys(0..2000), keys(0..2000)].concat();
    session.write(0, &twice, &[other.clone(), first.clone()].concat()).unwrap();
    assert_eq!(session.read(0, &keys(0..2000)).unwrap(), first);
    session.write(0, &[7, 7].map(Key), &other[..8]).unwrap();
    assert_eq!(session.read(0, &[Key(7)]).unwrap(), other[4..8]);
    assert_eq!(session.steps(), 0, "writing is not a step");
    session.feed(&[single(7..8)], &[0.0], Purpose::Train).unwrap();
    session.ready().unwrap().unwrap().push(&[1.0; 4], &[]).unwrap();
    let trained: Vec<f32> = other[4..8].iter().map(|weight| weight - 0.1).collect();
    assert_eq!(session.read(0, &[Key(7)]).unwrap(), trained);
}

/// A row that is written exists even if it would not have been admitted, and expires later.
#[test]
fn written_rows_are_admitted_and_expire() {
    let life = Life { admission: Admission::After(100), expire_after: 3 };
    let spec = TableSpec { life: Some(life), ..table("items", 4) };
    let columns = Columns { of_fields: vec![vec![Field::sum(0)]], count: 4 };
    let tiers = Tiers::default();
    let mut session = Session::open(vec![spec], columns, Shape::default(), &tiers).unwrap();
    let initial = session.read(0, &[Key(1), Key(2)]).unwrap();
    session.write(0, &[Key(1)], &[1.0; 4]).unwrap();
    for steps in 1..=4 {
        session.feed(&[single(2..3)], &[0.0], Purpose::Train).unwrap();
        session.ready().unwrap().unwrap().push(&[1.0; 4], &[]).unwrap();
        let found = session.read(0, &[Key(1), Key(2)]).unwrap();
        let written = if steps < 4 { &[1.0; 4][..] } else { &initial[..4] };
        assert_eq!((&found[..4], &found[4..]), (written, &initial[4..]), "{steps}");
    }
}

#[test]
fn weights_are_rounded_to_the_storage() {
    for storage in [Storage::F16, Storage::Bf16] {
        let spec = TableSpec { storage, ..table("items", 4) };
        let columns = Columns { of_fields: vec![vec![Field::sum(0)]], count: 4 };
        let tiers = Tiers::default();
        let mut session = Session::open(vec![spec], columns, Shape::default(), &tiers).unwrap();
        session.write(0, &[Key(1)], &[1.0, -0.5, 0.25, 0.1]).unwrap();
        let found = session.read(0, &[Key(1)]).unwrap();
        assert_eq!(found[..3], [1.0, -0.5, 0.25]);
        assert!(found[3] != 0.1 && (found[3] - 0.1).abs() < 0.001, "{found:?}");
        let [most, more] = match storage {
            Storage::F16 => [65504.0, 65505.0],
            _ => [f32::from_bits(0x7F7F_0000), f32::MAX],
        };
        let why = session.write(0, &[Key(1)], &[0.0, 0.0, 0.0, -more]).unwrap_err().to_string();
        assert!(why.contains("not a finite number of"), "{why}");
        assert_eq!(session.read(0, &[Key(1)]).unwrap(), found);
        session.write(0, &[Key(1)], &[most; 4]).unwrap();
        assert_eq!(session.read(0, &[Key(1)]).unwrap(), [most; 4]);
        session.write(0, &[Key(2)], &found).unwrap();
        assert_eq!(session.read(0, &[Key(2)]).unwrap(), found, "{storage:?}");
    }
}

#[test]
fn invalid_rows_are_refused_and_change_nothing() {
    let mut session = open_one(16 << 10, 1);
    session.write(0, &keys(0..3), &[2.0; 12]).unwrap();
    let nan = [[0.5; 8], [0.5, f32::NAN, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5]].concat();
    let cases: [(usize, u64, &[f32], &str); 3] = [
        (1, 3, &[0.0; 12], "no table 1"),
        (0, 3, &[0.0; 11], "11 weights for 3 rows of 4: give 12"),
        (0, 4, &nan, "the weight NaN of row 2"),
    ];
    for (of, count, weights, why) in cases {
        let error = session.write(of, &keys(0..count), weights).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    assert_eq!(session.read(0, &keys(0..3)).unwrap(), [2.0; 12]);
}

/// A checkpoint of the same step isn't taken for one with the rows written since.
#[test]
fn written_rows_are_saved() {
    let home = tempfile::tempdir().unwrap();
    let mut session = open_one(16 << 10, 1);
    session.write(0, &keys(0..1500), &weights(0..1500, 4, 0)).unwrap();
    session.save(home.path(), 2, b"").unwrap();
    session.save(home.path(), 2, b"").unwrap();
    session.write(0, &keys(0..1), &[9.0; 4]).unwrap();
    let error = session.save(home.path(), 2, b"").unwrap_err().to_string();
    assert!(error.contains("of the same step and has other rows"), "{error}");
    let other = tempfile::tempdir().unwrap();
    session.save(other.path(), 2, b"").unwrap();
    let saved = SavedSession::open(other.path()).unwrap();
    let columns = Columns { of_fields: vec![vec![Field::sum(0)]], count: 4 };
    let tiers = Tiers { dram: Some(ByteCount(16 << 10)), ..Tiers::default() };
    let mut resumed = Session::resume(saved, columns, Shape::default(), &tiers).unwrap();
    assert_eq!(resumed.read(0, &keys(0..1)).unwrap(), [9.0; 4]);
    assert_eq!(resumed.read(0, &keys(1..1500)).unwrap(), weights(1..1500, 4, 0));
    assert_eq!(resumed.finish().unwrap(), session.finish().unwrap());
}
