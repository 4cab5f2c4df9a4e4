//! Matrices with gaps, and launches compared to what is expected.

use super::{Arg, Dice, SCHEDULES, bits, sizes};
use stepwell_kernels::host::Schedule;

/// A matrix whose rows have gaps.
#[derive(Clone)]
pub struct Matrix {
    pub lanes: Vec<f32>,
    pub stride: usize,
}

impl Matrix {
    pub fn drawn((rows, columns): (usize, usize), gap: usize, dice: &mut Dice) -> Self {
        let stride = columns + gap;
        Self { lanes: dice.numbers(rows * stride), stride }
    }

    pub fn at(&self, row: usize, column: usize) -> f32 {
        self.lanes[row * self.stride + column]
    }

    pub fn put(&mut self, (row, column): (usize, usize), value: f32, adds: bool) {
        let place = &mut self.lanes[row * self.stride + column];
        *place = if adds { *place + value } else { value };
    }
}

/// Launches in every order on the contents `before`, and compares to the `expected` ones.
pub fn check(
    name: &str,
    (before, expected): (&[f32], &[f32]),
    launch: impl Fn(&mut [f32], Schedule),
) {
    for schedule in SCHEDULES {
        let mut changed = before.to_vec();
        launch(&mut changed, schedule);
        assert_eq!(bits(&changed), bits(expected), "{name}");
    }
}

pub fn n(value: usize) -> Arg<'static> {
    Arg::U32(value as u32)
}

pub fn items(shape: (usize, usize)) -> u64 {
    (shape.0 * shape.1) as u64
}

/// Rows and columns of every size, with an odd number of the other.
pub fn shapes() -> Vec<(usize, usize)> {
    let few = || sizes().into_iter().take(8);
    few().map(|rows| (rows, 3)).chain(few().map(|columns| (5, columns.max(1)))).collect()
}

/// All rows and columns, in order.
pub fn places((rows, columns): (usize, usize)) -> impl Iterator<Item = (usize, usize)> + Clone {
    (0..rows).flat_map(move |row| (0..columns).map(move |column| (row, column)))
}
