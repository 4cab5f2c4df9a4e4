//! The time from a put of data and its number until a waiting thread of the other rank has seen
//! them: half of a round trip.

use std::time::Instant;

use stepwell_fabric::collective::{Barrier, Collective};
use stepwell_fabric::mpi::Puts;
use stepwell_fabric::{Fabric, Result, Tag, WindowNumber};

const WINDOW: WindowNumber = WindowNumber(1);
/// Bytes of data, and number of round trips.
const SIZES: [(usize, u64); 5] =
    [(0, 4000), (1 << 10, 4000), (1 << 14, 4000), (1 << 18, 1000), (1 << 22, 200)];

/// Waits for a number that the other rank puts to reach a value.
struct Reaches(u64);

impl Collective for Reaches {
    type Output = ();

    fn poll(&mut self, fabric: &Fabric) -> Result<Option<()>> {
        let mut number = [0];
        fabric.check()?;
        fabric.read(WINDOW, 0, &mut number);
        Ok((number[0] >= self.0).then_some(()))
    }
}

pub(crate) fn between_two(fabric: &Fabric, puts: Puts) {
    let (bytes_max, _) = SIZES[SIZES.len() - 1];
    let (own, data) = (fabric.rank(), vec![1u8; bytes_max]);
    fabric.open_window(WINDOW, 8 + bytes_max);
    fabric.wait(Barrier::start(Tag(0))).unwrap();
    let mut number = 0u64;
    let mut there_and_back = |bytes: usize| {
        number += 1;
        for turn in 0..2 {
            if turn == own {
                if bytes > 0 {
                    fabric.put(1 - own, WINDOW, 8, &data[..bytes]).unwrap();
                }
                fabric.put(1 - own, WINDOW, 0, &number.to_ne_bytes()).unwrap();
            } else {
                fabric.wait(Reaches(number)).unwrap();
            }
        }
    };
    for (bytes, times) in SIZES {
        (0..10).for_each(|_| there_and_back(bytes));
        let start = Instant::now();
        (0..times).for_each(|_| there_and_back(bytes));
        let seconds = start.elapsed().as_secs_f64() / (2 * times) as f64;
        if own == 0 {
            let rate = bytes as f64 / seconds / 1e9;
            println!("{puts:?}: {bytes} bytes: {:.1} us, {rate:.2} GB/s", 1e6 * seconds);
        }
    }
    fabric.end();
}
