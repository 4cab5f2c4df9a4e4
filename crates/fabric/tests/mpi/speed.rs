//! How long data and their number take into another rank's window, until somebody there who waits
//! has seen them: half of the way there and back.

use std::time::Instant;

use stepwell_fabric::collective::{Barrier, Collective};
use stepwell_fabric::mpi::Puts;
use stepwell_fabric::{Fabric, Result, Tag, WindowNumber};

const WINDOW: WindowNumber = WindowNumber(1);
/// Bytes of data, and how often they go there and back.
const SIZES: [(usize, u64); 5] =
    [(0, 4000), (1 << 10, 4000), (1 << 14, 4000), (1 << 18, 1000), (1 << 22, 200)];

/// The number that the other rank has put, once it is so large.
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
