//! Ranks that constantly put into each other's windows, including one of a rank that is gone.

use std::process::Command;
use std::time::{Duration, Instant};

use stepwell_fabric::collective::Barrier;
use stepwell_fabric::{Fabric, Result, Tag, WindowNumber};

use crate::{LIMIT, PATIENCE_SECONDS, signal};

const WINDOW: WindowNumber = WindowNumber(1);
/// Bytes that a rank puts into another, before their number.
const DATA: usize = 1 << 16;
/// Pause between two puts into all ranks, so that few of them wait for an inactive rank.
const PAUSE: Duration = Duration::from_millis(4);
/// Time before one of the ranks is lost.
const HEALTHY: Duration = Duration::from_millis(300);

fn open(fabric: &Fabric) {
    fabric.open_window(WINDOW, fabric.size() * (DATA + 8));
    fabric.wait(Barrier::start(Tag(0))).unwrap();
}

/// Puts data and its number into all other ranks.
fn put(fabric: &Fabric, number: u64) -> Result<()> {
    let data = [number as u8; DATA];
    let start = fabric.rank() * (DATA + 8);
    for to in (0..fabric.size()).filter(|to| *to != fabric.rank()) {
        fabric.put(to, WINDOW, start, &data)?;
        fabric.put(to, WINDOW, start + DATA, &number.to_ne_bytes())?;
    }
    std::thread::sleep(PAUSE);
    fabric.check()
}

fn number(fabric: &Fabric, from: usize) -> u64 {
    let mut number = [0];
    fabric.read(WINDOW, from * (DATA + 8) + DATA, &mut number);
    number[0]
}

/// Rank 1 sends itself a signal, and the others name it.
pub(crate) fn until_one_goes(fabric: &Fabric, name: &str) {
    open(fabric);
    let start = Instant::now();
    let error = (1..).map(|number| put(fabric, number)).find_map(|put| {
        if fabric.rank() == 1 && start.elapsed() > HEALTHY {
            signal(name, std::process::id());
            std::thread::sleep(LIMIT);
        }
        put.err()
    });
    let seconds = start.elapsed().saturating_sub(HEALTHY).as_secs_f64();
    println!("{}: {} after {seconds:.2} s", fabric.rank(), error.unwrap());
    assert!(seconds < 1.5 * PATIENCE_SECONDS + 0.5, "named in time: {seconds}");
    for from in (0..fabric.size()).filter(|from| *from != fabric.rank()) {
        assert!(number(fabric, from) > 0, "rank {from} put something");
    }
}

/// Rank 1 is stopped three times for less than the others' patience, and misses nothing.
pub(crate) fn while_one_is_held_up(fabric: &Fabric) {
    const PUTS: u64 = 800;
    open(fabric);
    let script = format!(
        "for i in 1 2 3; do sleep 0.3; kill -s STOP {0}; sleep 0.7; kill -s CONT {0}; done",
        std::process::id()
    );
    let stops = (fabric.rank() == 1).then(|| Command::new("sh").args(["-c", &script]).spawn());
    (1..=PUTS).for_each(|number| put(fabric, number).unwrap());
    if let Some(stops) = stops {
        stops.unwrap().wait().unwrap();
    }
    fabric.wait(Barrier::start(Tag(0))).unwrap();
    for from in (0..fabric.size()).filter(|from| *from != fabric.rank()) {
        let mut data = vec![0u8; DATA];
        fabric.read(WINDOW, from * (DATA + 8), &mut data);
        assert_eq!((number(fabric, from), data), (PUTS, vec![PUTS as u8; DATA]), "of rank {from}");
    }
    fabric.end();
}
