//! Bare loops over the rows of the steps: the cost of their bytes alone.

use std::hint::black_box;

use stepwell_base::prefetch::prefetch_row;

use super::examples::Drawn;
use crate::measure::Stopwatch;

/// Prefetch distance in rows.
const AHEAD: usize = 24;

/// Seconds that one thread takes to read the `weights` lanes of each occurrence's row, and to read
/// and write the `lanes` lanes of each step's distinct rows, in one array of rows.
pub(super) fn seconds(drawn: &Drawn, weights: usize, lanes: usize) -> f64 {
    let mut rows = vec![0.5f32; drawn.rows() * lanes];
    let mut sum = vec![0.0f32; lanes];
    let mut pass = || {
        let watch = Stopwatch::start();
        for (occurrences, distinct) in drawn.rows_by_step() {
            for (number, row) in occurrences.iter().enumerate() {
                if let Some(ahead) = occurrences.get(number + AHEAD) {
                    let start = *ahead as usize * lanes;
                    prefetch_row(&rows[start..start + weights]);
                }
                let row = &rows[*row as usize * lanes..][..weights];
                sum.iter_mut().zip(row).for_each(|(sum, lane)| *sum += *lane);
            }
            for (number, row) in distinct.iter().enumerate() {
                if let Some(ahead) = distinct.get(number + AHEAD) {
                    let start = *ahead as usize * lanes;
                    prefetch_row(&rows[start..start + lanes]);
                }
                let row = &mut rows[*row as usize * lanes..][..lanes];
                row.iter_mut().zip(&sum).for_each(|(lane, sum)| *lane = 0.5 * (*lane + *sum));
            }
            black_box(&mut sum).fill(0.0);
        }
        watch.seconds()
    };
    // The first pass touches the memory.
    pass();
    pass()
}
