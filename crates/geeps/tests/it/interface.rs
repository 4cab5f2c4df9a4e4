//! The calls of the paper's table 1, one at a time, and their statistics.

#![expect(clippy::unwrap_used, reason = "test helpers panic like the tests")]

use std::sync::Arc;
use std::task::Poll;

use stepwell_base::clock::ManualClock;
use stepwell_base::stage::{BoxedStage, Progress};
use stepwell_base::{Key, TableId};
use stepwell_device::Device;
use stepwell_fabric::{Fabric, Post, threads};
use stepwell_geeps::{
    Access, Applies, Error, Fetch, Geeps, Initial, LocalId, LocalSettings, Request, Save, Settings,
    Staleness, TableSettings,
};

const BELOW: TableId = TableId(0);
const ABOVE: TableId = TableId(1);
const LOCAL: LocalId = LocalId(0);
const FLOATS: usize = 100;

fn keys(count: u64) -> Vec<Key> {
    (0..count).map(Key).collect()
}

fn settings() -> Settings {
    let table = |name: &str| TableSettings {
        name: name.to_owned(),
        row_floats: FLOATS,
        keys: keys(8),
        initial: Initial::Zeros,
        applies: Applies::ByClock,
    };
    let local = LocalSettings { name: "local".to_owned(), row_floats: FLOATS, keys: keys(4) };
    Settings {
        tables: vec![table("below"), table("above")],
        locals: vec![local],
        ..Settings::default()
    }
}

struct End {
    geeps: Geeps,
    machines: Vec<BoxedStage<Error>>,
    clock: Arc<ManualClock>,
}

impl End {
    fn new(settings: &Settings, fabric: Fabric) -> Self {
        let clock = Arc::new(ManualClock::default());
        let (geeps, machines) = Geeps::new(settings, fabric, Arc::clone(&clock) as _).unwrap();
        Self { geeps, machines, clock }
    }

    fn alone(settings: &Settings) -> Self {
        Self::new(settings, threads(1).remove(0))
    }

    /// Polls machines until none progresses.
    fn settle(&mut self) {
        let moves =
            |machine: &mut BoxedStage<Error>| machine.poll().unwrap() == Progress::Progressed;
        while self.machines.iter_mut().any(moves) {}
    }

    fn get(&mut self, mut request: Request) -> Access {
        self.settle();
        let Poll::Ready(access) = request.poll().unwrap() else {
            panic!("the request is not ready")
        };
        access
    }

    fn read(&mut self, table: TableId, keys: &[Key]) -> Vec<f32> {
        let request = self.geeps.read(table, keys, Staleness::BSP).unwrap();
        let mut read = self.get(request);
        let values = read.values().unwrap().to_vec();
        self.geeps.post_read(read).unwrap();
        values
    }

    fn update_virtually(&mut self, table: TableId) {
        let mut request = self.geeps.pre_update(table, &keys(8)).unwrap();
        let Poll::Ready(update) = request.poll().unwrap() else {
            panic!("a virtual request is ready")
        };
        self.geeps.update(update).unwrap();
    }

    fn update(&mut self, table: TableId, keys: &[Key], value: f32) {
        let request = self.geeps.pre_update(table, keys).unwrap();
        let mut update = self.get(request);
        assert!(update.values().unwrap().iter().all(|value| *value == 0.0), "the buffer is zeroed");
        update.values().unwrap().fill(value);
        self.geeps.update(update).unwrap();
    }
}

#[test]
fn updates_show_after_their_clock_and_not_before() {
    let mut end = End::alone(&settings());
    let (some, others) = ([Key(5), Key(2)], [Key(1)]);
    end.update(ABOVE, &some, 1.0);
    end.update(ABOVE, &some, 0.5);
    assert_eq!(end.read(ABOVE, &some), [0.0; 2 * FLOATS], "the clock goes on");
    end.geeps.table_clock(ABOVE).unwrap();
    assert_eq!(end.read(ABOVE, &some), [1.5; 2 * FLOATS]);
    assert_eq!(end.read(ABOVE, &others), [0.0; FLOATS]);
    assert_eq!(end.read(BELOW, &some), [0.0; 2 * FLOATS], "another table");
    let ages = [ABOVE, BELOW].map(|table| end.geeps.data_age(table).unwrap());
    assert_eq!(ages, [1, 0], "tables have clocks of their own");
    // Dropped buffers change nothing.
    let request = end.geeps.pre_update(BELOW, &some).unwrap();
    let mut update = end.get(request);
    update.values().unwrap().fill(9.0);
    drop(update);
    end.geeps.table_clock(BELOW).unwrap();
    assert_eq!(end.read(BELOW, &some), [0.0; 2 * FLOATS]);
}

#[test]
fn local_data_is_saved_and_fetched_unless_the_application_says_otherwise() {
    let mut end = End::alone(&settings());
    let access = |end: &mut End, keys: &[Key], fetch| {
        let request = end.geeps.local_access(LOCAL, keys, fetch).unwrap();
        end.get(request)
    };
    let mut local = access(&mut end, &keys(4), Fetch::NoFetch);
    local.values().unwrap().fill(3.0);
    end.geeps.post_local_access(local, Save::Save).unwrap();
    let mut some = access(&mut end, &[Key(3), Key(1)], Fetch::Fetch);
    assert_eq!(some.values().unwrap(), [3.0; 2 * FLOATS]);
    some.values().unwrap()[..FLOATS].fill(7.0);
    end.geeps.post_local_access(some, Save::Save).unwrap();
    let mut all = access(&mut end, &keys(4), Fetch::Fetch);
    let rows: Vec<f32> = all.values().unwrap().chunks(FLOATS).map(|row| row[99]).collect();
    assert_eq!(rows, [3.0, 3.0, 3.0, 7.0]);
    all.values().unwrap().fill(1.0);
    end.geeps.post_local_access(all, Save::NoSave).unwrap();
    end.settle();
    let statistics = end.geeps.statistics();
    let bytes = Device::bytes_counted(4 * 4 * FLOATS as u64);
    assert_eq!((statistics.fetches_avoided, statistics.fetch_bytes_avoided), (1, bytes));
    assert_eq!((statistics.saves_avoided, statistics.save_bytes_avoided), (1, bytes));
    // Fetched: two rows and four; saved: four and two.
    assert_eq!((statistics.bytes_up, statistics.bytes_down), (6 * 400, 6 * 400));
    assert_eq!(statistics.handed_out, 0, "nothing is pinned");
}

#[test]
fn local_data_that_is_only_read_need_not_be_saved() {
    for pins in [true, false] {
        let mut end = End::alone(&Settings { pins, ..settings() });
        let fetches = [Fetch::NoFetch, Fetch::Fetch, Fetch::Fetch];
        for is_virtual in [true, false] {
            if is_virtual {
                end.geeps.begin_virtual().unwrap();
            }
            for fetch in fetches {
                let request = end.geeps.local_access(LOCAL, &keys(4), fetch).unwrap();
                let mut local = end.get(request);
                let save = match (is_virtual, fetch) {
                    (false, Fetch::NoFetch) => {
                        local.values().unwrap().fill(3.0);
                        Save::Save
                    }
                    (false, Fetch::Fetch) => {
                        assert_eq!(local.values().unwrap(), [3.0; 4 * FLOATS]);
                        Save::NoSave
                    }
                    _ => Save::NoSave,
                };
                end.geeps.post_local_access(local, save).unwrap();
            }
            if is_virtual {
                end.geeps.end_virtual().unwrap();
            }
        }
    }
}

#[test]
fn what_an_application_waits_is_counted_by_call() {
    let mut end = End::alone(&settings());
    let mut read = end.geeps.read(ABOVE, &keys(8), Staleness::BSP).unwrap();
    assert!(read.poll().unwrap().is_pending());
    end.clock.advance(2.5);
    end.settle();
    assert!(read.poll().unwrap().is_ready());
    drop(read);
    // A buffer that is ready at the first poll counts no wait.
    let request = end.geeps.read(ABOVE, &keys(8), Staleness::BSP).unwrap();
    end.clock.advance(1.0);
    drop(end.get(request));
    let statistics = end.geeps.statistics();
    let seconds = [statistics.read_seconds, statistics.pre_update_seconds];
    assert_eq!(seconds, [2.5, 0.0]);
}

#[test]
fn a_table_travels_as_soon_as_it_is_clocked() {
    let (post, mut ends) = Post::new(2);
    let mut end = End::new(&settings(), ends.remove(0));
    end.update(ABOVE, &keys(8), 1.0);
    end.update(BELOW, &keys(8), 1.0);
    end.settle();
    assert_eq!(post.under_way(), 0);
    end.geeps.table_clock(ABOVE).unwrap();
    end.settle();
    assert_eq!(post.under_way(), 1, "the part of the other rank, of this table alone");
    end.geeps.table_clock(BELOW).unwrap();
    end.settle();
    assert_eq!(post.under_way(), 2);
}

#[test]
fn what_will_be_asked_for_is_there_before_it_is() {
    let mut end = End::alone(&settings());
    let iterate = |end: &mut End, settles: bool| {
        for table in [BELOW, ABOVE] {
            for _ in 0..2 {
                let mut request = end.geeps.read(table, &keys(5), Staleness::BSP).unwrap();
                let Poll::Ready(read) = request.poll().unwrap() else {
                    panic!("the request was foreseen")
                };
                end.geeps.post_read(read).unwrap();
            }
            end.geeps.table_clock(table).unwrap();
            if settles {
                end.settle();
            }
        }
    };
    end.geeps.begin_virtual().unwrap();
    iterate(&mut end, false);
    end.geeps.end_virtual().unwrap();
    for _ in 0..4 {
        end.settle();
        iterate(&mut end, true);
    }
    let statistics = end.geeps.statistics();
    assert_eq!((statistics.foreseen, statistics.not_foreseen), (16, 0));
    assert_eq!(statistics.read_seconds, 0.0);
}

#[test]
fn data_is_placed_again_when_another_iteration_is_gathered() {
    let mut settings = settings();
    let row = Device::bytes_counted(4 * FLOATS as u64);
    settings.budget_bytes = 2 * 8 * row + 4 * row;
    let mut end = End::alone(&settings);
    let local = |end: &mut End, keys: &[Key], value: Option<f32>| {
        let request = end.geeps.local_access(LOCAL, keys, Fetch::Fetch).unwrap();
        let mut local = end.get(request);
        let before =
            local.is_virtual() || local.values().unwrap().iter().all(|value| *value == 4.0);
        if let Some(value) = value {
            local.values().unwrap().fill(value);
        }
        end.geeps.post_local_access(local, Save::Save).unwrap();
        before
    };
    local(&mut end, &keys(4), Some(4.0));
    end.update(BELOW, &keys(8), 2.0);
    end.geeps.table_clock(BELOW).unwrap();
    end.settle();
    let mut placed = Vec::new();
    for all in [true, false, true] {
        end.geeps.begin_virtual().unwrap();
        local(&mut end, &keys(if all { 4 } else { 3 }), None);
        let tables = if all { [BELOW; 2] } else { [ABOVE, BELOW] };
        for table in tables {
            let request = end.geeps.read(table, &keys(8), Staleness::BSP).unwrap();
            let read = end.get(request);
            end.geeps.post_read(read).unwrap();
        }
        placed.push(end.geeps.end_virtual().unwrap().pinned);
        assert!(local(&mut end, &keys(4), None), "local data is unchanged");
        assert_eq!(end.read(BELOW, &keys(8)), [2.0; 8 * FLOATS]);
        assert!(local(&mut end, &keys(3), Some(4.0)));
        assert!(end.geeps.statistics().peak_bytes <= settings.budget_bytes);
    }
    assert!(placed.iter().all(|pinned| pinned[2]), "local data comes first: {placed:?}");
}

#[test]
fn what_is_foreseen_goes_no_further_ahead_of_shards_than_what_is_asked_for() {
    let mut end = End::alone(&Settings { clocks_ahead: 1, ..settings() });
    end.geeps.begin_virtual().unwrap();
    end.update_virtually(ABOVE);
    end.geeps.table_clock(ABOVE).unwrap();
    end.geeps.end_virtual().unwrap();
    for _ in 0..5 {
        // The request of the next clock is in line by now.
        end.settle();
        let mut request = end.geeps.pre_update(ABOVE, &keys(8)).unwrap();
        let update = loop {
            match request.poll().unwrap() {
                Poll::Ready(update) => break update,
                Poll::Pending => end.settle(),
            }
        };
        end.geeps.update(update).unwrap();
        end.geeps.table_clock(ABOVE).unwrap();
        let mut next = end.geeps.pre_update(ABOVE, &keys(8)).unwrap();
        assert!(next.poll().unwrap().is_pending(), "no shard has answered");
    }
}

#[test]
fn a_table_is_not_clocked_while_a_read_of_it_waits() {
    let mut end = End::alone(&settings());
    let mut read = end.geeps.read(ABOVE, &keys(8), Staleness::BSP).unwrap();
    end.geeps.table_clock(BELOW).unwrap();
    let error = end.geeps.table_clock(ABOVE).unwrap_err().to_string();
    assert_eq!(error, "table_clock: a read of 'above' is pending: take it first");
    end.settle();
    end.geeps.table_clock(ABOVE).unwrap();
    assert!(read.poll().unwrap().is_ready(), "it was served before");
}
