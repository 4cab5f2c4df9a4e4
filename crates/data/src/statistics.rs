//! Mean and deviation of columns of numbers, for those that are standardised.
//!
//! Why       A transform is part of a model: its numbers have to be the same in every run, on every
//!           rank and in every format. So they are those of the first records that are trained on,
//!           not of a sample, and not of what is evaluated on.
//! How       The records are read as training reads them, with the columns in question as they
//!           stand. Means are updated number by number in 64 bits (Welford, "Note on a method for
//!           calculating corrected sums of squares and products", 1962). Where a tail is evaluated
//!           on, reading goes on until the records that count are known to lie before it; where
//!           they do not, they are read again up to it.
//! Failure   Malformed records are passed over: who reads them in earnest counts them. Packed files
//!           hold no numbers as they stood, and a stream is gone once it was read.

use std::sync::Arc;

use stepwell_base::stop::StopRequest;

use crate::compression::open_packed;
use crate::layout::{Column, ColumnKind, DenseRule, Layout, Transform};
use crate::sources::train_part;
use crate::{DataError, Files, Input, ReadOptions, Reader, Schema, is_stream};

/// Records that statistics are made of at most.
pub const STATISTICS_RECORDS: usize = 50_000;

/// Mean and deviation of the numbers of a column.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Statistics {
    /// The mean; 0 where there is no number.
    pub mean: f64,
    /// The standard deviation; 1 where all numbers are alike.
    pub deviation: f64,
}

/// The statistics of `columns`, dense ones of the layout of `files`, after their limits and before
/// their transforms; missing values do not count. They are those of the first
/// [`STATISTICS_RECORDS`] records before the tail, a share of `eval_fraction`, until somebody asks
/// to `stop`.
///
/// # Errors
/// A file that cannot be read, or that is packed, a stream, and [`DataError::Stopped`].
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
                "can be read once, and {names} would be standardised by statistics that are read \
                 before: give mean and deviation, which `stepwell schema` guesses"
            ));
        }
        if open_packed(path)?.is_some() {
            return wrong(format!(
                "is packed, and holds no numbers that {names} could be standardised by: give its \
                 mean and deviation, which `stepwell convert` said when it packed them"
            ));
        }
    }
    let bare = bare(layout, columns).map_err(DataError::Options)?;
    let files = Files { layout: Some(Arc::new(bare)), ..files.clone() };
    let taken = Taken::of(&files, columns.len(), (u64::MAX, eval_fraction), stop)?;
    let boundary = train_part(eval_fraction, taken.lines);
    let taken = match taken.reached <= boundary {
        true => taken,
        false => Taken::of(&files, columns.len(), (boundary, 0.0), stop)?,
    };
    Ok(taken.sums.iter().map(Sums::statistics).collect())
}

/// What was read for statistics.
struct Taken {
    sums: Vec<Sums>,
    /// Lines up to the last record that counts.
    reached: u64,
    /// Lines that were read.
    lines: u64,
}

impl Taken {
    /// Takes the first records of `files` within so many lines, and reads on until they lie before
    /// a tail of `eval_fraction`, or to the end.
    fn of(
        files: &Files,
        columns: usize,
        (end, eval_fraction): (u64, f64),
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
                // Each number, and whether it is missing.
                let (pairs, _) = chunk.dense_of(example).as_chunks::<2>();
                for (sums, [number, missing]) in taken.sums.iter_mut().zip(pairs) {
                    sums.add(*number, *missing > 0.0);
                }
                taken.reached = taken.lines + u64::from(chunk.lines[example]) + 1;
            }
            left -= count;
            taken.lines += u64::from(chunk.line_count);
        }
        Ok(taken)
    }
}

/// The layout whose dense features are these columns as they stand, in this order, each with one
/// that says whether it is missing; ids are as they are, and nothing is learned.
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
        // What is left has its place in a file without names, and others may be made of it.
        _ if column.of.is_empty() => Some(Column { kind: ColumnKind::Ignored, ..column.clone() }),
        _ => None,
    };
    let bare = layout.of_columns(layout.columns().iter().filter_map(bare).collect())?;
    Ok(bare.with_records_of(layout))
}

/// Numbers so far, and the sum of the squares of their distances from their mean.
#[derive(Clone, Copy, Default)]
struct Sums {
    count: u64,
    mean: f64,
    squares: f64,
}

impl Sums {
    fn add(&mut self, number: f32, is_missing: bool) {
        if is_missing {
            return;
        }
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
