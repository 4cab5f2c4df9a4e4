use std::collections::HashMap;

use stepwell_base::random::Stream as Random;
use stepwell_device::emulated::{Machine, Settings, Time};

use super::*;

const SLOTS: [usize; 3] = [1, 9, 200];
const ROWS: usize = 40;
/// Number of keys removed or inserted at once.
const MOVED: usize = 3 * ROWS + 1;

/// An emulated device with tables.
struct One {
    machine: Machine,
    stream: Stream,
    lists: Buffer<u32>,
    lists_host: Pinned<u32>,
    tables: Tables,
}

impl One {
    fn new(seed: u64) -> Result<Self> {
        let machine = Machine::new(Settings { time: Time::Stepped, seed, ..Settings::default() });
        let device = &machine.devices()[0];
        let before = device.memory()[1].0;
        let stream = device.stream("step")?;
        let mut tables = Tables::new(device, &stream, &SLOTS, ROWS, MOVED)?;
        let bytes = tables_bytes(&SLOTS) + keys_bytes(ROWS, MOVED);
        assert_eq!(before - device.memory()[1].0, bytes, "as planned");
        let lists = device.buffer(MOVED, "lists")?;
        let lists_host = device.pinned(MOVED, "lists")?;
        for group in 0..SLOTS.len() {
            tables.change(&stream, &lists, group, &TableChanges::all_leave())?;
        }
        Ok(Self { machine, stream, lists, lists_host, tables })
    }

    fn change(&mut self, group: usize, changes: &TableChanges) -> Result<usize> {
        self.tables.change(&self.stream, &self.lists, group, changes)
    }

    /// Looks up the slots of `keys` in the table of group `group`.
    fn find(&mut self, group: usize, keys: &[Key]) -> Result<Vec<u32>> {
        let mut counts = [0; SLOTS.len()];
        counts[group] = keys.len();
        let keys = keys.iter().copied();
        let words = self.tables.find(&self.stream, &self.lists, keys, &counts)?;
        self.stream.down(&self.lists, 0..words / 2, &self.lists_host, 0)?;
        self.stream.finish()?;
        self.tables.check(&self.machine.devices()[0].about().name)?;
        Ok(self.lists_host.read(words / 2)?.to_vec())
    }
}

/// A random key, sometimes one that looks like a mark of the table.
fn any_key(dice: &mut Random) -> Key {
    let hard = [0, u64::MAX, u64::MAX - 1, u64::MAX - 2];
    let drawn = dice.next_u64();
    Key(if drawn.is_multiple_of(9) { hard[(dice.next_u64() % 4) as usize] } else { drawn % 5000 })
}

/// Changes in which some or all rows of `had` leave and others are lifted.
fn draw(dice: &mut Random, had: &mut HashMap<Key, SlotIndex>, slots: usize) -> TableChanges {
    let mut changes = TableChanges::default();
    let mut free: Vec<SlotIndex> = (0..slots as u32).map(SlotIndex).collect();
    let (some, rounds) = (dice.next_u64() % 4, dice.next_u64().is_multiple_of(40));
    if rounds {
        changes.all_leave = true;
        had.clear();
    }
    had.retain(|key, slot| {
        let stays = dice.next_u64() % 4 >= some;
        if !stays {
            changes.left.push(Placed { key: *key, slot: *slot });
        }
        stays
    });
    free.retain(|slot| !had.values().any(|taken| taken == slot));
    while let Some(slot) = free.pop() {
        // A key that has just left may return to another slot.
        let again = changes.left.first().filter(|_| dice.next_u64().is_multiple_of(3));
        let key = again.map_or_else(|| any_key(dice), |placed| placed.key);
        if let std::collections::hash_map::Entry::Vacant(place) = had.entry(key) {
            place.insert(slot);
            changes.came.push(Placed { key, slot });
        }
    }
    changes
}

#[test]
fn tables_find_what_came_last() {
    let mut dice = Random::named(11, b"tables");
    for seed in 0..4 {
        let mut one = One::new(seed).unwrap();
        let mut had: Vec<HashMap<Key, SlotIndex>> = vec![HashMap::new(); SLOTS.len()];
        for _ in 0..150 {
            let group = (dice.next_u64() % 3) as usize;
            let changes = draw(&mut dice, &mut had[group], SLOTS[group]);
            one.change(group, &changes).unwrap();
            if dice.next_u64().is_multiple_of(3) {
                // Without a look-up in between.
                continue;
            }
            let all: Vec<(Key, SlotIndex)> =
                had[group].iter().map(|(key, slot)| (*key, *slot)).collect();
            for some in all.chunks(ROWS) {
                let (keys, slots): (Vec<Key>, Vec<u32>) =
                    some.iter().map(|(key, slot)| (*key, slot.0)).unzip();
                assert_eq!(one.find(group, &keys).unwrap(), slots);
            }
        }
    }
}

#[test]
fn a_table_of_which_many_keys_left_is_made_anew() {
    let mut one = One::new(1).unwrap();
    let slots = SLOTS[2] as u64;
    let placed = |key: u64| Placed { key: Key(key), slot: SlotIndex((key % slots) as u32) };
    let fill = TableChanges { came: (0..slots).map(placed).collect(), ..TableChanges::default() };
    assert_eq!(one.change(2, &fill).unwrap() as u64, 3 * slots);
    for key in 0..3 * slots {
        // A key leaves its slot to another.
        let (left, came) = (vec![placed(key)], vec![placed(key + slots)]);
        let words = one.change(2, &TableChanges { left, came, all_leave: false }).unwrap();
        // Rebuilt after half of the slots plus one keys, a quarter of the places, were removed.
        let is_anew = (key + 1).is_multiple_of(slots / 2 + 1);
        assert_eq!(words as u64, if is_anew { 3 * slots } else { 5 }, "{key}");
        assert_eq!(one.find(2, &[Key(key + slots)]).unwrap(), [(key % slots) as u32]);
    }
}

/// The panic message for a disagreement between planner and table.
fn said(what: impl FnOnce(&mut One)) -> String {
    let mut one = One::new(1).unwrap();
    let placed = [(Key(5), SlotIndex(3)), (Key(6), SlotIndex(4))];
    let came = placed.map(|(key, slot)| Placed { key, slot }).to_vec();
    one.change(1, &TableChanges { came, ..TableChanges::default() }).unwrap();
    let what = std::panic::AssertUnwindSafe(|| what(&mut one));
    let panic = std::panic::catch_unwind(what).unwrap_err();
    panic.downcast_ref::<String>().cloned().unwrap_or_default()
}

#[test]
fn a_table_that_differs_from_the_planner_is_noticed() {
    let placed = |key, slot| vec![Placed { key: Key(key), slot: SlotIndex(slot) }];
    let none = TableChanges::default;
    let missing = said(|one| drop(one.find(1, &[Key(5), Key(7)])));
    assert!(missing.contains("[2, 0, 0, 1]") && missing.contains("emulated:0"), "{missing}");
    let other_group = said(|one| drop(one.find(2, &[Key(5)])));
    assert!(other_group.contains("[2, 0, 0, 1]"), "{other_group}");
    let left = said(|one| drop(one.change(1, &TableChanges { left: placed(5, 4), ..none() })));
    assert!(left.contains("key 0000000000000005 leaves slot 4 of group 1"), "{left}");
    let came = said(|one| drop(one.change(1, &TableChanges { came: placed(9, 3), ..none() })));
    assert!(came.contains("key 0000000000000009 gets slot 3 of group 1"), "{came}");
    // A key that is already there keeps its slot; it isn't counted as new.
    let twice = said(|one| {
        one.change(1, &TableChanges { came: placed(5, 0), ..none() }).unwrap();
        one.find(1, &[]).unwrap();
    });
    assert!(twice.contains("[2, 0, 0, 0]") && twice.contains("[3, 0, 0, 0]"), "{twice}");
}
