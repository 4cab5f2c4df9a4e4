//! Measures row updates on one thread, with rows in cache: one call per row, and inlined in a wide
//! loop.
//!
//! `cargo run --release -p stepwell-optim --example rows -- [width]`

use std::error::Error;
use std::io::Write as _;
use std::time::Instant;

use pulp::{Arch, Simd, WithSimd};
use stepwell_optim::{Lanes, RowOptimizer, Rule};

const ROWS: usize = 256;
const PASSES: usize = 2000;

/// Updates all rows with the same gradient.
struct Loop<'a> {
    optimizer: RowOptimizer,
    rows: &'a mut [f32],
    lanes: usize,
    gradient: &'a [f32],
}

impl WithSimd for Loop<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for row in self.rows.chunks_exact_mut(self.lanes) {
            let (weights, state) = row.split_at_mut(self.gradient.len());
            self.optimizer.update_inline(weights, state, self.gradient);
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let width = std::env::args().nth(1).map_or(Ok(17), |text| text.parse::<usize>())?;
    let gradient: Vec<f32> = (0..width).map(|lane| (lane as f32 - 7.5) * 1e-3).collect();
    let mut out = std::io::stdout().lock();
    for rule in [Rule::sgd(0.01), Rule::adagrad(0.01), Rule::adam(0.001)] {
        let optimizer = RowOptimizer::new(rule)?;
        let lanes = width + optimizer.state_lanes(Lanes { dim: width, wide: 0 });
        let mut rows = vec![0.0; ROWS * lanes];
        let start = Instant::now();
        for row in (0..PASSES).flat_map(|_| 0..ROWS) {
            let (weights, state) = rows[row * lanes..][..lanes].split_at_mut(width);
            optimizer.update(weights, state, &gradient);
        }
        let called = start.elapsed().as_secs_f64();
        for _ in 0..PASSES {
            let rows = rows.as_mut_slice();
            Arch::new().dispatch(Loop { optimizer, rows, lanes, gradient: &gradient });
        }
        let inlined = start.elapsed().as_secs_f64() - called;
        let nanoseconds = |seconds: f64| seconds * 1e9 / (ROWS * PASSES) as f64;
        writeln!(
            out,
            "{:<8} {:.1} ns a row called, {:.1} ns inlined",
            rule.name(),
            nanoseconds(called),
            nanoseconds(inlined),
        )?;
    }
    Ok(())
}
