//! The real sample, if available: every line is an example, and the totals are known.

use std::collections::HashSet;

use crate::common::*;
use stepwell_base::key_of;
use stepwell_data::{Input, ReadOptions, Reader, Schema, count_lines, resolve};

#[test]
fn the_real_sample_has_its_known_numbers() {
    let Some(folder) = std::env::var_os("STEPWELL_DATA") else {
        stepwell_skip::skipped("STEPWELL_DATA is not set");
        return;
    };
    let pattern = std::path::Path::new(&folder).join("criteo_tb_*.tsv.zst");
    let files = resolve(&[pattern]).unwrap();
    assert_eq!(count_lines(&files).unwrap(), 80_000);
    let input = Input::Files(files.into());
    let options = ReadOptions::new(Schema::CRITEO);
    let mut reader = Reader::open(input.clone(), &options).unwrap();
    let mut chunk = reader.chunk();
    let (mut examples, mut clicks, mut keys) = (0, 0.0, HashSet::new());
    let missing: HashSet<u64> =
        (1..=26).map(|column| key_of(&format!("C{column}"), b"").0).collect();
    let mut rows = Vec::new();
    while reader.next_chunk(&mut chunk).unwrap() {
        examples += chunk.len();
        clicks += chunk.labels.iter().map(|label| f64::from(*label)).sum::<f64>();
        keys.extend(chunk.keys.iter().map(|key| key.0).filter(|key| !missing.contains(key)));
        rows.extend(rows_of(&chunk));
    }
    assert_eq!(examples, 80_000);
    assert!((clicks / 80_000.0 - 0.0322).abs() < 0.0001, "{clicks}");
    assert_eq!(keys.len(), 183_569);
    let start = rows[63_999].0;
    let (rest, _) = read_all(input, &ReadOptions { start, ..options }).unwrap();
    assert!(rest == rows[64_000..]);
}
