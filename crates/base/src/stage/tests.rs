use super::*;
use crate::clock::SystemClock;
use crate::queue::{Received, Receiver, Refused, Sender, bounded};

struct Count(u32, Sender<u32>);
struct Sum(u32, Receiver<u32>, Sender<u32>);

impl Stage for Count {
    type Error = String;
    fn name(&self) -> &'static str {
        "count"
    }
    fn poll(&mut self) -> Result<Progress, String> {
        if self.0 == 0 {
            return Ok(Progress::Done);
        }
        match self.1.try_send(self.0) {
            Ok(()) => self.0 -= 1,
            Err(Refused::Full(_)) => return Ok(Progress::Blocked),
            Err(Refused::Closed(_)) => return Ok(Progress::Done),
        }
        Ok(Progress::Progressed)
    }
}

impl Stage for Sum {
    type Error = String;
    fn name(&self) -> &'static str {
        "sum"
    }
    fn poll(&mut self) -> Result<Progress, String> {
        match self.1.try_recv() {
            Received::Item(7) => Err("seven".to_owned()),
            Received::Item(n) => {
                self.0 += n;
                Ok(Progress::Progressed)
            }
            Received::Empty => Ok(Progress::Blocked),
            Received::Closed => {
                self.2.try_send(self.0).map_err(|_| "closed".to_owned())?;
                Ok(Progress::Done)
            }
        }
    }
}

fn rhythm() -> Rhythm {
    let (events, clock) = (Events::new(), Arc::new(SystemClock::new()));
    Rhythm { events, clock, pace: Arc::new(FullSpeed) }
}

fn run(from: u32) -> (Vec<Ended<String>>, Received<u32>) {
    let rhythm = rhythm();
    let events = Arc::clone(&rhythm.events);
    let (numbers, source) = bounded(&events, 2);
    let (total, result) = bounded(&events, 1);
    let stages: Vec<BoxedStage<String>> =
        vec![Box::new(Count(from, numbers)), Box::new(Sum(0, source, total))];
    (Threads.drive(stages, &rhythm), result.try_recv())
}

#[test]
fn stages_run_to_their_end() {
    let (ended, total) = run(6);
    assert_eq!(ended.iter().map(|stage| stage.name).collect::<Vec<_>>(), ["count", "sum"]);
    assert!(ended.iter().all(|stage| stage.outcome.is_ok()));
    assert_eq!(total, Received::Item(21));
}

#[test]
fn one_failure_ends_the_pipeline() {
    let (ended, total) = run(1000);
    assert!(ended[0].outcome.is_ok());
    // 1000 counts down to 7 only after 993 items; the failing stage ends the other one, too.
    assert!(matches!(&ended[1].outcome, Err(Stop::Failed(why)) if why == "seven"));
    assert_eq!(total, Received::Closed);
}

/// Blocked at first, then takes a second of a clock that it moves itself.
struct Slow(Arc<crate::clock::ManualClock>, Arc<Events>, u32);

impl Stage for Slow {
    type Error = String;
    fn name(&self) -> &'static str {
        "slow"
    }
    fn poll(&mut self) -> Result<Progress, String> {
        self.2 += 1;
        self.0.advance(f64::from(self.2));
        self.1.notify();
        Ok([Progress::Blocked, Progress::Progressed, Progress::Done][self.2 as usize - 1])
    }
}

#[test]
fn time_is_told_apart_into_work_and_waiting() {
    let (events, clock) = (Events::new(), Arc::new(crate::clock::ManualClock::default()));
    clock.advance(100.0);
    let of_rhythm: Arc<dyn Clock> = Arc::<crate::clock::ManualClock>::clone(&clock);
    let pace = Arc::new(FullSpeed);
    let rhythm = Rhythm { events: Arc::clone(&events), clock: of_rhythm, pace };
    let times = drive(Box::new(Slow(clock, Arc::clone(&events), 0)), &rhythm).unwrap();
    let expected = StageTimes { wait_seconds: 1.0, busy_seconds: 2.0, ..StageTimes::new("slow") };
    assert_eq!(times, expected);
    // The stage notifies in each of its three polls, and `drive` at the end, for stages that wait
    // for its queues to close.
    assert_eq!((events.count(), events.is_stopped()), (4, false));
}

/// Checks whether its thread lets others go first, and is done.
#[cfg(target_os = "linux")]
struct Asked {
    gives_way: bool,
    found: Arc<std::sync::Mutex<Option<bool>>>,
}

#[cfg(target_os = "linux")]
impl Stage for Asked {
    type Error = ();

    fn name(&self) -> &'static str {
        "asked"
    }

    fn poll(&mut self) -> Result<Progress, ()> {
        *self.found.lock().unwrap() = Some(yielding::gives_way());
        Ok(Progress::Done)
    }

    fn gives_way(&self) -> bool {
        self.gives_way
    }
}

#[test]
#[cfg(target_os = "linux")]
fn threads_that_give_way_do_and_others_are_as_before() {
    let own = yielding::gives_way();
    let found = |gives_way| {
        let found = Arc::default();
        let stage = Asked { gives_way, found: Arc::clone(&found) };
        let ended = Threads.drive(vec![Box::new(stage) as BoxedStage<()>], &rhythm());
        assert!(ended[0].outcome.is_ok());
        Arc::into_inner(found).unwrap().into_inner().unwrap()
    };
    assert_eq!((found(false), found(true)), (Some(own), Some(true)));
    assert_eq!(yielding::gives_way(), own);
}

/// Waits for a time without any event.
struct Alarm(Arc<SystemClock>, f64, u32);

impl Stage for Alarm {
    type Error = String;
    fn name(&self) -> &'static str {
        "alarm"
    }
    fn poll(&mut self) -> Result<Progress, String> {
        self.2 += 1;
        assert!(self.2 < 100, "it isn't polled all the time");
        Ok(if self.0.seconds() < self.1 { Progress::Blocked } else { Progress::Done })
    }
    fn due(&self) -> Option<f64> {
        Some(self.1)
    }
}

#[test]
fn a_stage_that_is_due_is_polled_though_nothing_happens() {
    let clock = Arc::new(SystemClock::new());
    let stage: BoxedStage<String> = Box::new(Alarm(Arc::clone(&clock), 0.02, 0));
    let rhythm = Rhythm { clock: Arc::<SystemClock>::clone(&clock), ..rhythm() };
    drive(among::<String, _>(stage), &rhythm).unwrap();
    assert!(clock.seconds() >= 0.02);
}
