//! Launches for tests: arguments by type, in several orders.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::allow_attributes,
    reason = "each test takes what it needs"
)]

pub mod batch;
pub mod matrix;
pub mod steps;

use stepwell_kernels::host::Schedule;
use stepwell_kernels::{Access, PoolTable, ScalarType, UpdateTable, find};

use super::runner;

/// Orders in which every kernel must give the same result.
pub const SCHEDULES: [Schedule; 3] = [
    Schedule { seed: 1, workers: 1 },
    Schedule { seed: 2, workers: 1 },
    Schedule { seed: 3, workers: 3 },
];

/// Sizes at which kernels tend to fail; also a million if `STEPWELL_LONG` is set.
pub fn sizes() -> Vec<usize> {
    let mut sizes = vec![0, 1, 31, 32, 33, 255, 256, 257, 4099];
    if std::env::var_os("STEPWELL_LONG").is_some() {
        sizes.push(1_000_003);
    }
    sizes
}

/// An argument of a launch.
pub enum Arg<'a> {
    F(&'a [f32]),
    FMut(&'a mut [f32]),
    D(&'a [f64]),
    DMut(&'a mut [f64]),
    W(&'a [u32]),
    WMut(&'a mut [u32]),
    L(&'a [u64]),
    LMut(&'a mut [u64]),
    Pool(&'a [PoolTable]),
    Update(&'a [UpdateTable]),
    U32(u32),
    U64(u64),
    F32(f32),
    F64(f64),
}

impl Arg<'_> {
    /// Whether it may be written, and its type.
    fn kind(&self) -> (bool, ScalarType) {
        match self {
            Self::F(_) => (false, ScalarType::F32),
            Self::FMut(_) => (true, ScalarType::F32),
            Self::D(_) => (false, ScalarType::F64),
            Self::DMut(_) => (true, ScalarType::F64),
            Self::W(_) => (false, ScalarType::U32),
            Self::WMut(_) => (true, ScalarType::U32),
            Self::L(_) => (false, ScalarType::U64),
            Self::LMut(_) => (true, ScalarType::U64),
            Self::Pool(_) => (false, ScalarType::Struct("PoolTable")),
            Self::Update(_) => (false, ScalarType::Struct("UpdateTable")),
            Self::U32(_) => (false, ScalarType::U32),
            Self::U64(_) => (false, ScalarType::U64),
            Self::F32(_) => (false, ScalarType::F32),
            Self::F64(_) => (false, ScalarType::F64),
        }
    }
}

/// Launches `name` over `items` items.
pub fn run(name: &str, items: u64, schedule: Schedule, args: &mut [Arg<'_>]) {
    let kernel = find(name).unwrap_or_else(|| panic!("no kernel {name}"));
    assert_eq!(args.len(), kernel.params.len(), "{name}");
    for (arg, param) in args.iter().zip(kernel.params) {
        let writes = !matches!(param.access, Access::In | Access::Value);
        assert_eq!(arg.kind(), (writes, param.ty), "{name}: {}", param.name);
        let is_value = matches!(arg, Arg::U32(_) | Arg::U64(_) | Arg::F32(_) | Arg::F64(_));
        assert_eq!(is_value, param.access == Access::Value, "{name}: {}", param.name);
    }
    runner::launch(kernel, items, schedule, args);
}

/// Random numbers for tests.
pub struct Dice(pub u64);

impl Dice {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, count: usize) -> usize {
        ((u128::from(self.next()) * count as u128) >> 64) as usize
    }

    /// A number in [-1, 1) of varied size, sometimes tiny or zero.
    pub fn number(&mut self) -> f32 {
        let unit = (self.next() >> 40) as f32 / (1u32 << 23) as f32 - 1.0;
        match self.below(16) {
            0 => 0.0,
            1 => unit * 1e-6,
            2 => unit * 100.0,
            _ => unit,
        }
    }

    pub fn numbers(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.number()).collect()
    }

    /// The numbers below `count` in a drawn order.
    pub fn order(&mut self, count: usize) -> Vec<u32> {
        let mut order: Vec<u32> = (0..count as u32).collect();
        for at in (1..count).rev() {
            order.swap(at, self.below(at + 1));
        }
        order
    }
}

pub fn bits(lanes: &[f32]) -> Vec<u32> {
    lanes.iter().map(|lane| lane.to_bits()).collect()
}

/// Lists of a mini-batch in one buffer.
#[derive(Default)]
pub struct Lists(pub Vec<u32>);

impl Lists {
    /// Appends a list; returns where it begins.
    pub fn put(&mut self, list: &[u32]) -> u32 {
        // At odd offsets, as after lists of several lengths.
        self.0.push(0xDEAD_BEEF);
        let at = self.0.len() as u32;
        self.0.extend_from_slice(list);
        at
    }

    pub fn put_numbers(&mut self, list: &[f32]) -> u32 {
        self.put(&bits(list))
    }

    pub fn put_wide(&mut self, list: &[u64]) -> u32 {
        let words = list.iter().flat_map(|of| [*of as u32, (*of >> 32) as u32]);
        self.put(&words.collect::<Vec<_>>())
    }
}
