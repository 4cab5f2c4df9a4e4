//! Models, machines, memory and applications drawn from a seed have the bits of the oracle: always
//! under BSP, otherwise with counts, whose sums are exact in any order.

use std::time::Duration;

use stepwell_base::random::Stream;
use stepwell_device::Device;
use stepwell_device::emulated::{self, Machine, Time};
use stepwell_geeps::{Applies, Place, Settings, Staleness};

use crate::support::oracle::{assert_same, trained};
use crate::support::schedule::{Setup, run};
use crate::support::worker::{Bench, Departs, Worker};
use crate::support::{Model, Values};

/// A case.
#[derive(Debug)]
struct Drawn {
    rows: Vec<u64>,
    ranks: usize,
    clocks: u64,
    /// Staleness and time of updates, if not all is by clock.
    loose: Option<(Staleness, Applies)>,
    on_devices: bool,
    /// Budget for data besides buffers, in hundredths of all data.
    budget_part: u64,
    batched: bool,
    indexed: bool,
    pins: bool,
    hands_over: bool,
    prefetch: bool,
    gathers: bool,
    clocks_ahead: u64,
    departs: Departs,
}

fn drawn(seed: u64) -> Drawn {
    let mut stream = Stream::named(seed, b"drawn");
    let mut below = |bound: u64| stream.next_u64() % bound;
    let layers = 1 + below(5);
    Drawn {
        rows: (0..layers).map(|_| 2 + below(80)).collect(),
        ranks: 1 + below(4) as usize,
        clocks: 2 + below(5),
        on_devices: below(2) == 0,
        budget_part: below(140),
        batched: below(4) > 0,
        indexed: below(4) > 0,
        pins: below(8) > 0,
        hands_over: below(4) > 0,
        prefetch: below(4) > 0,
        gathers: below(8) > 0,
        clocks_ahead: 1 + below(5),
        departs: Departs {
            order_every: (below(3) == 0).then(|| 1 + below(3)),
            reads_other: below(4) == 0,
            // The clock in between requires being one further clock ahead.
            clocks_twice: false,
            gathers_again: below(4) == 0,
        },
        loose: (below(3) == 0).then(|| {
            let slack =
                [Staleness::Unbounded, Staleness::Clocks(below(4))][below(4).min(1) as usize];
            (slack, [Applies::OnArrival, Applies::ByClock][below(3).min(1) as usize])
        }),
    }
}

#[test]
fn all_have_the_bits_of_the_oracle() {
    for seed in 1000..1200 {
        let drawn = drawn(seed);
        let Drawn { rows, ranks, clocks, .. } = &drawn;
        let model = match drawn.loose {
            None => Model::new(rows, Applies::ByClock, Staleness::BSP, Values::Fractions),
            Some((staleness, applies)) => {
                // A row for each worker, and one for all.
                let rows = vec![*ranks as u64 + 1; rows.len()];
                Model::new(&rows, applies, staleness, Values::Counts)
            }
        };
        let part = model.data_bytes() * drawn.budget_part / 100;
        let indexes: usize =
            model.layers.iter().map(|layer| layer.keys.len() + layer.again.len() + 128).sum();
        let budget_bytes = 2 * model.peak_bytes() + part + 4 * indexes as u64;
        let devices = |rank: usize| {
            let machine = Machine::new(emulated::Settings {
                memory_bytes: budget_bytes,
                seed: seed + rank as u64,
                time: Time::Stepped,
                delay_max: Duration::ZERO,
                ..emulated::Settings::default()
            });
            machine.devices()[0].clone()
        };
        let devices: Vec<Device> = (0..*ranks).map(devices).collect();
        let settings = |rank: usize| Settings {
            place: match drawn.on_devices {
                true => Place::Device(devices[rank].clone()),
                false => Place::Host,
            },
            budget_bytes,
            batched: drawn.batched,
            indexed: drawn.indexed,
            pins: drawn.pins,
            hands_over: drawn.hands_over,
            prefetch: drawn.prefetch,
            clocks_ahead: drawn.clocks_ahead,
            ..model.settings()
        };
        let worker = |rank: usize| {
            let on = drawn.on_devices.then(|| {
                let device = devices[rank].clone();
                let stream = device.stream("application").unwrap();
                (device, stream)
            });
            Worker::new(&model, rank, *clocks).at(Bench { on }).departing(drawn.departs)
        };
        let gathers = drawn.gathers;
        let setup = Setup { seed, ranks: *ranks, settings: &settings, worker: &worker, gathers };
        let left = run(&setup).unwrap_or_else(|error| panic!("seed {seed}, {drawn:?}: {error}"));
        assert_eq!(left.found, [""; 0], "seed {seed}, {drawn:?}");
        let what = format!("seed {seed}, {drawn:?}");
        assert_same(&left.rows, &trained(&model, *ranks, *clocks), &what);
        for (statistics, device) in left.statistics.iter().zip(&devices) {
            assert!(statistics.peak_bytes <= budget_bytes, "{what}: {statistics:?}");
            assert!(device.memory()[2].0 <= statistics.peak_bytes, "{what}: {statistics:?}");
        }
    }
}
