use super::*;

fn slots(of: &[u32]) -> Vec<SlotIndex> {
    of.iter().copied().map(SlotIndex).collect()
}

#[test]
fn rows_keep_what_was_written() {
    let slab = Slab::new(5, 3).unwrap();
    let list = slots(&[4, 0, 2]);
    let mut held = slab.hold(&list);
    let (mut left, mut right) = held.rows_mut().split_at(1);
    left.row(0).fill(4.0);
    right.row(0).fill(1.0);
    right.row(1).copy_from_slice(&[7.0, 8.0, 9.0]);
    drop(held);
    let list = slots(&[0, 1, 2, 3, 4]);
    let held = slab.hold(&list);
    assert_eq!(held.row(0), [1.0; 3]);
    assert_eq!(held.row(1), [0.0; 3]);
    assert_eq!(held.row(2), [7.0, 8.0, 9.0]);
    assert_eq!(held.row(4), [4.0; 3]);
}

#[test]
fn a_slot_is_held_once() {
    let slab = Slab::new(4, 2).unwrap();
    let (first, second) = (slots(&[1, 2]), slots(&[3, 2]));
    let held = slab.hold(&first);
    let clash = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        drop(slab.hold(&second));
    }));
    assert!(clash.is_err());
    drop(held);
    // The failed attempt freed what it had marked, so both lists can be held again.
    drop(slab.hold(&second));
    drop(slab.hold(&first));
    let twice = slots(&[0, 0]);
    let clash = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        drop(slab.hold(&twice));
    }));
    assert!(clash.is_err());
}

#[test]
fn what_nobody_holds_is_known() {
    let slab = Slab::new(70, 1).unwrap();
    let (held, asked) = (slots(&[0, 63, 64]), slots(&[64, 1, 0, 69]));
    let of = |slab: &Slab| {
        let mut free = Vec::new();
        slab.which_are_free(&asked, &mut free);
        free
    };
    let guard = slab.hold(&held);
    assert_eq!(of(&slab), [false, true, false, true]);
    drop(guard);
    assert_eq!(of(&slab), [true; 4]);
}

#[test]
fn threads_write_disjoint_parts() {
    let slab = Slab::new(64, 4).unwrap();
    let list = slots(&(0..64).rev().collect::<Vec<_>>());
    let mut held = slab.hold(&list);
    let (mut left, mut right) = held.rows_mut().split_at(32);
    std::thread::scope(|scope| {
        scope.spawn(|| (0..left.len()).for_each(|i| left.row(i).fill(i as f32)));
        scope.spawn(|| (0..right.len()).for_each(|i| right.row(i).fill(-(i as f32))));
    });
    assert_eq!(held.row(5), [5.0; 4]);
    assert_eq!(held.row(37), [-5.0; 4]);
}

#[test]
fn every_slot_has_a_bit_of_its_own() {
    let slab = Slab::new(200, 1).unwrap();
    let is_free = |slot: u32| {
        let attempt = || drop(slab.hold(&[SlotIndex(slot)]));
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(attempt)).is_ok()
    };
    for held in [0, 63, 64, 130, 199] {
        let list = slots(&[held]);
        let guard = slab.hold(&list);
        assert!((0..200).all(|slot| is_free(slot) == (slot != held)), "{held}");
        drop(guard);
        assert!(is_free(held), "a guard that goes frees what it held");
    }
    assert!(!is_free(200), "there is no such slot");
}

#[test]
fn bytes_are_those_that_are_taken() {
    for (slots, lanes) in [(0, 1), (1, 3), (64, 34), (65, 34), (1000, 1)] {
        let mut slab = Slab::new(slots, lanes).unwrap();
        let taken = size_of_val(slab.lanes_mut()) + size_of_val(&**slab.states());
        assert_eq!(Slab::bytes_for(slots as u64, lanes), taken as u64, "{slots} x {lanes}");
    }
}

#[test]
fn parts_know_how_many_rows_they_have() {
    let slab = Slab::new(5, 2).unwrap();
    let list = slots(&[3, 1, 4]);
    let mut held = slab.hold(&list);
    assert_eq!((held.len(), held.is_empty()), (3, false));
    let (left, right) = held.rows_mut().split_at(1);
    assert_eq!((left.len(), right.len(), right.is_empty()), (1, 2, false));
    let (none, all) = right.split_at(0);
    assert_eq!((none.len(), none.is_empty(), all.len()), (0, true, 2));
    assert_eq!((slab.slots(), slab.row_lanes()), (5, 2));
    assert!(slab.hold(&[]).is_empty());
}

#[test]
fn all_rows_lie_one_after_the_other() {
    let mut slab = Slab::new(3, 2).unwrap();
    slab.lanes_mut().copy_from_slice(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    let list = slots(&[2, 0, 1]);
    let held = slab.hold(&list);
    assert_eq!([held.row(0), held.row(1), held.row(2)], [[4.0, 5.0], [0.0, 1.0], [2.0, 3.0]]);
}
