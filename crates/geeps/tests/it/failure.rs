//! Failures are reported in one line, on all ranks; wrong calls of an application are refused.

#![expect(clippy::unwrap_used, reason = "test helpers panic like the tests")]

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use stepwell_base::clock::{ManualClock, SystemClock};
use stepwell_base::stage::{BoxedStage, Progress};
use stepwell_base::{Key, TableId};
use stepwell_device::emulated::{self, Machine};
use stepwell_fabric::{Fabric, Faults, FaultyCarrier, Post, threads};
use stepwell_geeps::{
    Access, Applies, Error, Fetch, Geeps, Initial, LocalId, LocalSettings, Place, Request, Running,
    Save, Settings, Staleness, TableSettings,
};

const TABLE: TableId = TableId(0);
const LOCAL: LocalId = LocalId(0);

fn keys() -> Vec<Key> {
    (0..8).map(Key).collect()
}

fn settings() -> Settings {
    let table = TableSettings {
        name: "weights".to_owned(),
        row_floats: 4,
        keys: keys(),
        initial: Initial::Zeros,
        applies: Applies::ByClock,
    };
    let local = LocalSettings { name: "state".to_owned(), row_floats: 4, keys: keys() };
    Settings { tables: vec![table], locals: vec![local], budget_bytes: 4096, ..Settings::default() }
}

fn start(settings: &Settings, end: Fabric) -> Running {
    Running::start(settings, end, Arc::new(SystemClock::new())).unwrap()
}

/// One rank whose machines are polled by `settle`.
struct Alone {
    geeps: Geeps,
    machines: Vec<BoxedStage<Error>>,
}

impl Alone {
    fn new(settings: &Settings) -> Self {
        let end = threads(1).remove(0);
        let (geeps, machines) =
            Geeps::new(settings, end, Arc::new(ManualClock::default())).unwrap();
        Self { geeps, machines }
    }

    /// Polls machines until none progresses.
    fn settle(&mut self) {
        while self.machines.iter_mut().any(|machine| {
            let progress = machine.poll().unwrap();
            progress == Progress::Progressed
        }) {}
    }

    fn get(&mut self, mut request: Request) -> Access {
        self.settle();
        match request.poll().unwrap() {
            Poll::Ready(access) => access,
            Poll::Pending => panic!("the request is not ready"),
        }
    }
}

/// One clock of a worker.
fn clock(geeps: &Geeps) -> Result<(), Error> {
    let read = geeps.read(TABLE, &keys(), Staleness::BSP)?.wait()?;
    geeps.post_read(read)?;
    let update = geeps.pre_update(TABLE, &keys())?.wait()?;
    geeps.update(update)?;
    geeps.table_clock(TABLE)
}

#[test]
fn a_rank_that_fails_ends_all_with_its_reason() {
    let mut ends = threads(3);
    let last = ends.pop().unwrap();
    let errors: Vec<String> = std::thread::scope(|scope| {
        let train = |end| {
            scope.spawn(move || {
                let running = start(&settings(), end);
                loop {
                    if let Err(error) = clock(&running) {
                        return error.to_string();
                    }
                }
            })
        };
        let others: Vec<_> = ends.into_iter().map(train).collect();
        let running = start(&settings(), last);
        (0..3).for_each(|_| clock(&running).unwrap());
        running.fail("the data ended early");
        others.into_iter().map(|other| other.join().unwrap()).collect()
    });
    for error in errors {
        assert_eq!(error, "rank 2 failed: fail: the data ended early");
    }
}

#[test]
fn a_rank_that_is_dropped_ends_all() {
    let mut ends = threads(2);
    let running = start(&settings(), ends.pop().unwrap());
    drop(running);
    let other = start(&settings(), ends.pop().unwrap());
    let error = (0..3).find_map(|_| clock(&other).err()).unwrap().to_string();
    assert!(error.starts_with("rank 1 failed: ") && error.contains("before the others"), "{error}");
    assert!(other.finish().unwrap_err().to_string().starts_with("rank 1 failed: "));
}

#[test]
fn a_rank_that_dies_is_named() {
    let (post, ends) = Post::new(2);
    post.deliver_at_once();
    let mut running: Vec<_> = ends.into_iter().map(|end| start(&settings(), end)).collect();
    post.kill(1, 0);
    let read = {
        let running = &running[0];
        let update = running.pre_update(TABLE, &keys()).unwrap().wait().unwrap();
        running.update(update).unwrap();
        running.table_clock(TABLE).unwrap();
        running.read(TABLE, &keys(), Staleness::BSP).unwrap()
    };
    post.give_up(1);
    let error = read.wait().unwrap_err().to_string();
    assert_eq!(error, "rank 1 is lost: nothing was heard of it");
    running.clear();
}

#[test]
fn tables_that_differ_and_messages_that_make_no_sense_end_all() {
    let mut ends = threads(2);
    let mut other = settings();
    other.tables[0].initial = Initial::Uniform { seed: 1, range: 1.0 };
    let second = start(&other, ends.pop().unwrap());
    let first = start(&settings(), ends.pop().unwrap());
    for running in [&first, &second] {
        let error = (0..3).find_map(|_| clock(running).err());
        let error = error.unwrap_or_else(|| running.fail_of_wait()).to_string();
        assert!(error.contains("table 'weights' of rank"), "{error}");
    }
    let mut ends = threads(2);
    let faults = Faults { damaged: Some(1), ..Faults::default() };
    let end = ends.pop().unwrap().carried_by(|inner| Arc::new(FaultyCarrier::new(inner, faults)));
    let second = start(&settings(), end);
    let first = start(&settings(), ends.pop().unwrap());
    std::thread::scope(|scope| {
        let train =
            |running: &Running| (0..9).find_map(|_| clock(running).err()).unwrap().to_string();
        let second = scope.spawn(move || train(&second));
        let error = train(&first);
        assert!(error.contains("a message from rank 1 makes no sense"), "{error}");
        assert!(second.join().unwrap().contains("a message from rank 1 makes no sense"));
    });
}

/// The error of a read.
trait FailOfWait {
    fn fail_of_wait(&self) -> Error;
}

impl FailOfWait for Running {
    fn fail_of_wait(&self) -> Error {
        let read = self.read(TABLE, &keys(), Staleness::BSP);
        read.and_then(Request::wait).unwrap_err()
    }
}

#[test]
fn a_device_that_is_lost_is_named() {
    let machine =
        Machine::new(emulated::Settings { delay_max: Duration::ZERO, ..Default::default() });
    let place = Place::Device(machine.devices()[0].clone());
    let running = start(&Settings { place, ..settings() }, threads(1).remove(0));
    clock(&running).unwrap();
    machine.lose(0);
    let error = (0..3).find_map(|_| clock(&running).err()).unwrap().to_string();
    assert_eq!(error, "emulated:0 is lost: it has fallen off the bus");
}

#[test]
fn a_buffer_that_a_stream_may_still_use_is_not_given_back() {
    let machine = Machine::new(emulated::Settings::default());
    let device = &machine.devices()[0];
    let settings = Settings { place: Place::Device(device.clone()), ..settings() };
    let running = start(&settings, threads(1).remove(0));
    let stream = device.stream("application").unwrap();
    let mut read = running.read(TABLE, &keys(), Staleness::BSP).unwrap().wait().unwrap();
    assert!(read.values().unwrap_err().to_string().contains("on a device: use `on`"));
    read.on(&stream).unwrap();
    read.done_on(&stream).unwrap();
    running.post_read(read).unwrap();
    let mut read = running.read(TABLE, &keys(), Staleness::BSP).unwrap().wait().unwrap();
    read.on(&stream).unwrap();
    let error = running.post_read(read).unwrap_err().to_string();
    assert!(error.starts_with("post_read: a stream uses the buffer"), "{error}");
    let error = running.read(TABLE, &keys(), Staleness::BSP).unwrap_err().to_string();
    assert!(error.starts_with("drop: a stream uses the buffer"), "{error}");
}

#[test]
fn what_an_application_does_wrong_is_refused_and_nothing_is_lost() {
    let mut alone = Alone::new(&settings());
    let error = |error: Error| error.to_string();
    let geeps = &alone.geeps;
    let read = |table, keys: &[Key]| geeps.read(table, keys, Staleness::BSP).unwrap_err();
    assert_eq!(error(read(TableId(1), &keys())), "there is no table 1; the number of tables is 1");
    let missing = "table 'weights' has no key 77; it was set up with 8 keys";
    assert_eq!(error(read(TABLE, &[Key(1), Key(77)])), missing);
    assert!(error(read(TABLE, &[])).contains("no keys of 'weights' were given"));
    assert!(error(geeps.end_virtual().unwrap_err()).contains("no virtual iteration"));
    assert!(error(geeps.poll_closed().unwrap_err()).contains("it was not closed"));
    let request = geeps.local_access(LOCAL, &keys(), Fetch::Fetch).unwrap();
    let twice = geeps.local_access(LOCAL, &keys()[..2], Fetch::NoFetch).unwrap_err();
    assert!(matches!(&twice, Error::Twice(name) if name == "state"), "{twice}");
    let local = alone.get(request);
    let wrong = alone.geeps.post_read(local).unwrap_err();
    assert!(error(wrong).starts_with("post_read: the buffer belongs to Local"));
    let held = alone.geeps.read(TABLE, &keys(), Staleness::BSP).unwrap();
    assert!(error(alone.geeps.close().unwrap_err()).contains("1 buffers are held"));
    assert!(error(alone.geeps.begin_virtual().unwrap_err()).contains("1 buffers are held"));
    drop(held);
    // Buffers that were returned in the wrong way are free again.
    let local = alone.geeps.local_access(LOCAL, &keys(), Fetch::Fetch).unwrap();
    let local = alone.get(local);
    alone.geeps.post_local_access(local, Save::Save).unwrap();
    let update = alone.geeps.pre_update(TABLE, &keys()).unwrap();
    let mut update = alone.get(update);
    update.values().unwrap().fill(2.0);
    alone.geeps.update(update).unwrap();
    assert!(error(alone.geeps.close().unwrap_err()).contains("updates of 'weights' were not"));
    alone.geeps.table_clock(TABLE).unwrap();
    alone.geeps.close().unwrap();
    alone.settle();
    alone.machines.iter_mut().for_each(|machine| drop(machine.poll()));
    let late = alone.geeps.read(TABLE, &keys(), Staleness::BSP).unwrap_err();
    assert!(error(late).contains("was closed"));
}

#[test]
fn an_application_that_never_waits_goes_so_far_and_no_further() {
    let mut settings = settings();
    settings.clocks_ahead = 3;
    let alone = Alone::new(&settings);
    (0..3).for_each(|_| alone.geeps.table_clock(TABLE).unwrap());
    let error = alone.geeps.table_clock(TABLE).unwrap_err();
    assert!(matches!(error, Error::Ahead { clocks: 3, .. }), "{error}");
    let mut alone = alone;
    alone.settle();
    alone.geeps.table_clock(TABLE).unwrap();
}

#[test]
fn settings_that_cannot_be_are_refused() {
    let wrong = |change: &dyn Fn(&mut Settings)| {
        let mut settings = settings();
        change(&mut settings);
        let end = threads(1).remove(0);
        Geeps::new(&settings, end, Arc::new(ManualClock::default())).err().unwrap().to_string()
    };
    assert!(wrong(&|settings| settings.clocks_ahead = 0).contains("give 1 to 32"));
    assert!(wrong(&|settings| settings.tables[0].row_floats = 0).contains("give 1 to"));
    assert!(wrong(&|settings| settings.tables[0].keys.clear()).contains("has 0 keys"));
    assert!(
        wrong(&|settings| settings.locals[0].keys.push(Key(3))).contains("only 8 distinct ones")
    );
    assert!(wrong(&|settings| settings.first_tag = u16::MAX).contains("use at most 0"));
    let machine = Machine::new(emulated::Settings { memory_bytes: 4000, ..Default::default() });
    let place = Place::Device(machine.devices()[0].clone());
    let larger = wrong(&|settings| settings.place = place.clone());
    assert_eq!(larger, "budget_bytes is 4.0 KiB, but emulated:0 has 3.9 KiB: lower it");
    let range = f32::NAN;
    let initial = Initial::Uniform { seed: 0, range };
    assert!(wrong(&|settings| settings.tables[0].initial = initial).contains("+-NaN"));
}
