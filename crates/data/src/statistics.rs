//! Mean and deviation of number columns, for standardization.
//!
//! - **Why.** A transform is part of a model, so its numbers must be the same in every run, on
//!   every rank and in every format. So they come from the first training records, not from a
//!   sample and not from evaluation data.
//! - **How.** Reads records as training does, with untransformed values. Updates means value by
//!   value in 64 bits (Welford, "Note on a method for calculating corrected sums of squares and
//!   products", 1962). If the tail is for evaluation, reads on until all records used are known to
//!   be before it; otherwise reads again up to the tail.
//! - **Failure.** Skips malformed records, which training counts. Packed files don't store
//!   untransformed numbers, and a stream can only be read once.

use std::sync::Arc;

use stepwell_base::stop::StopRequest;

use crate::compression::open_packed;
use crate::data_file::is_stream;
use crate::error::DataError;
use crate::files::Files;
use crate::input::Input;
use crate::layout::{Column, ColumnKind, DenseRule, Layout, Transform};
use crate::read_options::ReadOptions;
use crate::reader::Reader;
use crate::schema::Schema;
use crate::sources::train_part;

/// Most records for statistics.
pub const STATISTICS_RECORDS: usize = 50_000;

/// Mean and deviation of a number column.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Statistics {
    /// The mean; 0 without numbers.
    pub mean: f64,
    /// The standard deviation; 1 if all numbers are equal.
    pub deviation: f64,
}

/// Statistics of `columns`, dense columns of the layout of `files`, after clamping and before their
/// transforms. Missing values don't count. Uses the first [`STATISTICS_RECORDS`] records before the
/// tail, an `eval_fraction` of the data. Stops when `stop` is requested.
///
/// # Errors
/// A file that can't be read, is packed, or is a stream; [`DataError::Stopped`].
pub fn statistics(
    files: &Files,
    columns: &[String],
    eval_fraction: f64,
    stop: &StopRequest,
) -> Result<Vec<Statistics>, DataError> {
    let Some(layout) = files.layout.as_deref() else { return Ok(Vec::new()) };
    for path in &files.paths {
        let wrong = |why: String| Err(DataError::Path { path: path.clone(), why });
        let names = columns.join(", ");
        if is_stream(path) {
            return wrong(format!(
                "can be read only once, but {names} would be standardised by statistics of an \
                 earlier pass: give mean and deviation, which `stepwell schema` guesses"
            ));
        }
        if open_packed(path)?.is_some() {
            return wrong(format!(
                "is packed, and holds no numbers that {names} could be standardised by: give the \
                 mean and deviation that `stepwell convert` printed when it packed them"
            ));
        }
    }
    let bare = bare(layout, columns).map_err(DataError::Options)?;
    let files = Files { layout: Some(Arc::new(bare)), ..files.clone() };
    let taken = Taken::of(&files, columns.len(), u64::MAX, eval_fraction, stop)?;
    let boundary = train_part(eval_fraction, taken.lines);
    let taken = match taken.reached <= boundary {
        true => taken,
        false => Taken::of(&files, columns.len(), boundary, 0.0, stop)?,
    };
    Ok(taken.sums.iter().map(Sums::statistics).collect())
}

/// Result of reading for statistics.
struct Taken {
    sums: Vec<Sums>,
    /// Lines up to the last record used.
    reached: u64,
    /// Lines read.
    lines: u64,
}

impl Taken {
    /// Uses the first records of `files` within `end` lines. Reads on until they are known to be
    /// before a tail of `eval_fraction`, or to the end.
    fn of(
        files: &Files,
        columns: usize,
        end: u64,
        eval_fraction: f64,
        stop: &StopRequest,
    ) -> Result<Self, DataError> {
        let input = Input::Files(files.clone());
        let schema = files.layout.as_deref().map_or(Schema::CRITEO, Layout::schema);
        let options = ReadOptions { skip_max: u64::MAX, ..ReadOptions::new(schema) };
        let mut reader = Reader::open(input, &options)?;
        let (mut chunk, mut left) = (reader.chunk(), STATISTICS_RECORDS);
        let mut taken = Self { sums: vec![Sums::default(); columns], reached: 0, lines: 0 };
        let is_enough = |taken: &Self, left| {
            let before_tail = || taken.reached <= train_part(eval_fraction, taken.lines);
            taken.lines >= end || (left == 0 && before_tail())
        };
        while !is_enough(&taken, left) && reader.next_chunk(&mut chunk)? {
            if stop.is_made() {
                return Err(DataError::Stopped);
            }
            let within = end - taken.lines;
            let count = chunk.lines.partition_point(|line| u64::from(*line) < within).min(left);
            for example in 0..count {
                // Pairs of a number and whether it is missing.
                let (pairs, _) = chunk.dense_of(example).as_chunks::<2>();
                for (sums, [number, missing]) in taken.sums.iter_mut().zip(pairs) {
                    if *missing <= 0.0 {
                        sums.add(*number);
                    }
                }
                taken.reached = taken.lines + u64::from(chunk.lines[example]) + 1;
            }
            left -= count;
            taken.lines += u64::from(chunk.line_count);
        }
        Ok(taken)
    }
}

/// A layout with the untransformed `columns` as dense features, in this order, each followed by an
/// indicator of missing values. Ids are unchanged, and there are no labels.
fn bare(layout: &Layout, columns: &[String]) -> Result<Layout, String> {
    let bare = |column: &Column| match &column.kind {
        ColumnKind::Id(_) | ColumnKind::Ignored => Some(column.clone()),
        ColumnKind::Dense(rule) if columns.contains(&column.name) => {
            let kind = ColumnKind::Dense(DenseRule {
                transform: Transform::None,
                fill: None,
                indicator: true,
                ..rule.clone()
            });
            Some(Column { kind, ..column.clone() })
        }
        // Other columns keep their place in files without a header, and derived columns may need
        // them.
        _ if column.of.is_empty() => Some(Column { kind: ColumnKind::Ignored, ..column.clone() }),
        _ => None,
    };
    let bare = layout.of_columns(layout.columns().iter().filter_map(bare).collect())?;
    Ok(bare.with_records_of(layout))
}

/// Welford's running mean, and sum of squared deviations.
#[derive(Clone, Copy, Default)]
struct Sums {
    count: u64,
    mean: f64,
    squares: f64,
}

impl Sums {
    fn add(&mut self, number: f32) {
        let number = f64::from(number);
        self.count += 1;
        let distance = number - self.mean;
        self.mean += distance / self.count as f64;
        self.squares += distance * (number - self.mean);
    }

    fn statistics(&self) -> Statistics {
        let deviation = (self.squares / self.count.max(1) as f64).max(0.0).sqrt();
        let is_one = deviation > 0.0 && deviation.is_finite();
        Statistics { mean: self.mean, deviation: if is_one { deviation } else { 1.0 } }
    }
}
