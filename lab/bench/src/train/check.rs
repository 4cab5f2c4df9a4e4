//! Checks arguments before anything is measured or written.

use std::collections::HashSet;

use stepwell_settings::TierConfig;
use stepwell_ssd::StoreOptions;

use super::options::{Options, config};
use super::store;
use super::stream::Ids;
use crate::{Error, Result};

/// Fewest bytes of rows for measuring the raw disk.
const BYTES_MIN: u64 = 4 << 20;
/// Fewest bytes of a segment for reading pages.
const SEGMENT_BYTES_MIN: u64 = 2 << 20;
/// Most rows: slots are numbered in 32 bits.
const ROWS_MAX: u64 = 1 << 31;

/// Returns an error that names an invalid argument.
pub(super) fn check(options: &Options) -> Result<()> {
    let fail = |why: String| Err(Error::Arguments(why));
    if !(26..=ROWS_MAX).contains(&options.rows) {
        return fail(format!("--rows {}: give 26 to {ROWS_MAX}", options.rows));
    }
    if !(0.01..=10.0).contains(&options.skew) {
        return fail(format!("--skew {}: give 0.01 to 10", options.skew));
    }
    if options.shares.is_empty() {
        return fail("--shares: give one percentage or more, such as 10,2".to_owned());
    }
    if let Some(share) = options.shares.iter().find(|share| !(**share > 0.0 && **share <= 100.0)) {
        return fail(format!("--shares {share}: give percentages above 0, at most 100"));
    }
    if options.stores.is_empty() {
        return fail("--store: give aged, loaded or both".to_owned());
    }
    let mini_batch = options.config.data.mini_batch as u64;
    if options.examples / 2 < mini_batch {
        return fail(format!(
            "--examples {}: give at least two mini-batches, data.mini_batch = {mini_batch}",
            options.examples
        ));
    }
    if options.warmup.checked_add(options.examples).is_none() {
        return fail(format!("--warmup {}: give fewer", options.warmup));
    }
    if options.config.tiers.segment.is_some_and(|bytes| bytes.0 < SEGMENT_BYTES_MIN) {
        return fail(format!("tiers.segment: give at least {SEGMENT_BYTES_MIN} bytes"));
    }
    let ids = Ids::new(options.rows, options.equal, options.skew);
    for kind in &options.models {
        check_store(options, &config(options, *kind, "examples".as_ref())?)?;
    }
    check_shares(options, &ids)
}

fn check_store(options: &Options, config: &stepwell_settings::Config) -> Result<()> {
    config.check().map_err(Error::Arguments)?;
    let table = store::table(config)?;
    // With its key and other data that the store adds.
    let row_bytes = table.row_bytes() as u64 + 16;
    let least = BYTES_MIN.div_ceil(row_bytes);
    if options.rows < least {
        let why = format!(
            "--rows {}: give at least {least}, so that the raw disk has pages to read",
            options.rows
        );
        return Err(Error::Arguments(why));
    }
    let shape = StoreOptions::new(table.id.0, table.row_bytes());
    let needed = shape.index_bytes_for(options.rows);
    let index = config.tiers.index.unwrap_or(TierConfig::INDEX).0;
    if needed > index {
        let why = format!(
            "--rows {} need an index of up to {needed} bytes, but tiers.index is {index}: give \
             fewer rows or --set tiers.index={needed}",
            options.rows
        );
        return Err(Error::Arguments(why));
    }
    Ok(())
}

/// Checks the sizes: a mini-batch needs all its rows in memory at once.
fn check_shares(options: &Options, ids: &Ids) -> Result<()> {
    let mut keys = HashSet::new();
    ids.draw(options.config.data.mini_batch as u64, &mut |key| {
        keys.insert(key);
    });
    // Others may have slightly more.
    let needed = keys.len() as f64 * 1.05;
    for share in &options.shares {
        let slots = (ids.count() as f64 * share / 100.0).round();
        if slots < needed {
            let least = (needed / ids.count() as f64 * 1000.0).ceil() / 10.0;
            let why = format!(
                "--shares {share}: {slots} slots cannot hold the {} rows of a mini-batch; give at \
                 least {least:.1}, more --rows, or a smaller data.mini_batch",
                keys.len()
            );
            return Err(Error::Arguments(why));
        }
    }
    Ok(())
}
