//! Mean and deviation of columns of numbers, for those that are standardised.
//!
//! Why       A transform is part of a model: its numbers have to be the same in every run, on every
//!           rank and in every format. So they are those of the first records, not of a sample.
//! How       The records are read as training reads them, with the columns in question as they
//!           stand. Means are updated number by number in 64 bits (Welford, "Note on a method for
//!           calculating corrected sums of squares and products", 1962).
//! Failure   Malformed records are passed over: who reads them in earnest counts them. Packed files
//!           hold no numbers as they stood.

use std::sync::Arc;

use stepwell_base::stop::StopRequest;

use crate::compression::open_packed;
use crate::layout::{Column, ColumnKind, DenseRule, Layout, Transform};
use crate::{DataError, Files, Input, ReadOptions, Reader};

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
/// [`STATISTICS_RECORDS`] records, until somebody asks to `stop`.
///
/// # Errors
/// A file that cannot be read, or that is packed, and [`DataError::Stopped`].
pub fn statistics(
    files: &Files,
    columns: &[String],
    stop: &StopRequest,
) -> Result<Vec<Statistics>, DataError> {
    let Some(layout) = files.layout.as_deref() else { return Ok(Vec::new()) };
    for path in &files.paths {
        if open_packed(path)?.is_some() {
            let why = format!(
                "is packed, and holds no numbers that {} could be standardised by: give its mean \
                 and deviation, which `stepwell convert` said when it packed them",
                columns.join(", ")
            );
            return Err(DataError::Path { path: path.clone(), why });
        }
    }
    let bare = bare(layout, columns)?;
    let schema = bare.schema();
    let input = Input::Files(Files { layout: Some(Arc::new(bare)), ..files.clone() });
    let options = ReadOptions { skip_max: u64::MAX, ..ReadOptions::new(schema) };
    let mut reader = Reader::open(input, &options)?;
    let (mut chunk, mut left) = (reader.chunk(), STATISTICS_RECORDS);
    let mut sums = vec![Sums::default(); columns.len()];
    while left > 0 && reader.next_chunk(&mut chunk)? {
        if stop.is_made() {
            return Err(DataError::Stopped);
        }
        for example in 0..chunk.len().min(left) {
            // Each number, and whether it is missing.
            let (pairs, _) = chunk.dense_of(example).as_chunks::<2>();
            for (sums, [number, missing]) in sums.iter_mut().zip(pairs) {
                sums.add(*number, *missing > 0.0);
            }
        }
        left -= chunk.len().min(left);
    }
    Ok(sums.iter().map(Sums::statistics).collect())
}

/// The layout whose dense features are these columns as they stand, in this order, each with one
/// that says whether it is missing.
fn bare(layout: &Layout, columns: &[String]) -> Result<Layout, DataError> {
    let unlabelled = layout.without_label()?;
    let is_other = |column: &&Column| !matches!(column.kind, ColumnKind::Dense(_));
    let mut all: Vec<Column> = unlabelled.columns().iter().filter(is_other).cloned().collect();
    for name in columns {
        let found = layout.columns().iter().find(|column| column.name == *name);
        if let Some(Column { name, of, kind: ColumnKind::Dense(rule) }) = found {
            let kind = ColumnKind::Dense(DenseRule {
                transform: Transform::None,
                fill: None,
                indicator: true,
                ..rule.clone()
            });
            all.push(Column { name: name.clone(), of: of.clone(), kind });
        }
    }
    // What is left of the others has its place in a file without names.
    let others = layout.columns().iter().filter(|column| {
        let is_there = all.iter().any(|known| known.name == column.name);
        !is_there && column.of.is_empty()
    });
    let ignored = others.map(|column| Column { kind: ColumnKind::Ignored, ..column.clone() });
    let ignored: Vec<Column> = ignored.collect();
    all.extend(ignored);
    let place = |column: &Column| layout.columns().iter().position(|of| of.name == column.name);
    all.sort_by_key(place);
    let bare = Layout::new_unlabelled(layout.options().clone(), all).map_err(DataError::Options)?;
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
