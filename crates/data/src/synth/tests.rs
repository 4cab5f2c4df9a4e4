use std::collections::HashSet;

use super::*;
use crate::block::Block;
use crate::parse_lines::parse_block;

fn small() -> SynthOptions {
    SynthOptions { seed: 7, examples: 5000, vocab_scale: 1.0, ..SynthOptions::default() }
}

fn filled(stream: &Synth, range: Range<u64>) -> Chunk {
    let mut chunk = Chunk::new(stream.schema());
    stream.fill(range.start, (range.end - range.start) as usize, &mut chunk);
    chunk
}

#[test]
fn text_parses_into_the_same_chunk() {
    let stream = Synth::new(&small()).unwrap();
    let mut text = Vec::new();
    stream.append_text(300..900, &mut text);
    let mut parsed = Chunk::new(stream.schema());
    parse_block(&Block { first_line: 300, ..Block::of_text(text) }, &mut parsed);
    let mut direct = filled(&stream, 300..900);
    assert_eq!(direct.truth.len(), 600);
    direct.truth.clear();
    assert!(direct == parsed, "the chunks differ");
}

#[test]
fn any_part_is_generated_alone() {
    let stream = Synth::new(&small()).unwrap();
    let whole = filled(&stream, 0..1000);
    let part = filled(&Synth::new(&small()).unwrap(), 400..500);
    assert_eq!(part.labels, whole.labels[400..500]);
    assert_eq!(part.truth, whole.truth[400..500]);
    assert_eq!(part.keys, whole.keys[400 * 26..500 * 26]);
    assert_eq!(part.dense, whole.dense[400 * 13..500 * 13]);
    assert_eq!(part.position_after(3), whole.position_after(403));
    assert!(filled(&stream, 9..9).is_empty());
    let last = filled(&stream, u64::MAX - 2..u64::MAX);
    assert_eq!(last.len(), 2);
}

#[test]
fn seeds_name_worlds() {
    let other = SynthOptions { seed: 8, ..small() };
    let (a, b) = (Synth::new(&small()).unwrap(), Synth::new(&other).unwrap());
    assert!(filled(&a, 0..10) != filled(&b, 0..10));
    let keys: HashSet<Key> = filled(&a, 0..100).keys.into_iter().collect();
    let both = filled(&b, 0..100).keys.into_iter().filter(|key| keys.contains(key)).count();
    // Only missing ids have the same keys in both streams.
    assert!(both < 26 * 100 / 4, "{both}");
}

#[test]
fn clicks_follow_the_truth_at_the_rate_asked_for() {
    for click_rate in [0.03, 0.25, 0.6] {
        let options = SynthOptions { click_rate, ..small() };
        let chunk = filled(&Synth::new(&options).unwrap(), 0..20_000);
        let mean = |of: &[f32]| of.iter().map(|x| f64::from(*x)).sum::<f64>() / of.len() as f64;
        let (clicks, truth) = (mean(&chunk.labels), mean(&chunk.truth));
        assert!((truth - click_rate).abs() < 0.02, "{truth} {click_rate}");
        assert!((clicks - truth).abs() < 0.015, "{clicks} {truth}");
        // The truth separates: it is higher for clicked examples.
        let pairs = || chunk.labels.iter().zip(&chunk.truth);
        let of = |label: f32| -> Vec<f32> {
            pairs().filter(|(l, _)| **l == label).map(|(_, truth)| *truth).collect()
        };
        assert!(mean(&of(1.0)) > 1.3 * mean(&of(0.0)));
    }
}

#[test]
fn distinct_ids_are_as_expected() {
    for (vocab_scale, examples) in [(1.0, 5000), (100.0, 5000), (0.01, 20_000)] {
        let options = SynthOptions { vocab_scale, examples, ..small() };
        let stream = Synth::new(&options).unwrap();
        let chunk = filled(&stream, 0..examples);
        let seen = chunk.keys.iter().collect::<HashSet<_>>().len() as f64;
        let expected = stream.distinct_ids(examples);
        assert!((seen / expected - 1.0).abs() < 0.02, "{seen} {expected}");
        assert!(stream.bytes() < 2 << 20, "{}", stream.bytes());
    }
}

#[test]
fn bits_are_fixed() {
    // Changing these numbers changes every stream that anyone has trained on.
    let chunk = filled(&Synth::new(&small()).unwrap(), 0..64);
    let mut bytes: Vec<u8> = chunk.keys.iter().flat_map(|key| key.0.to_le_bytes()).collect();
    let lanes = chunk.labels.iter().chain(&chunk.dense).chain(&chunk.truth);
    bytes.extend(lanes.flat_map(|lane| lane.to_bits().to_le_bytes()));
    assert_eq!(
        format!("{:032x}", stepwell_base::hash::digest128(&bytes)),
        "8866f0ba201c4dbd8a20b8ae0ef3036f"
    );
}

#[test]
fn options_out_of_range_are_named() {
    let wrong = [
        (SynthOptions { vocab_scale: 0.0, ..small() }, "vocab_scale is 0"),
        (SynthOptions { zipf: f64::NAN, ..small() }, "zipf is NaN"),
        (SynthOptions { click_rate: 1.0, ..small() }, "click_rate is 1"),
        (SynthOptions { id_effect: -1.0, ..small() }, "id_effect is -1"),
        (SynthOptions { interactions: 14, ..small() }, "interactions is 14"),
        (SynthOptions { examples: 0, ..small() }, "0 examples"),
    ];
    for (options, text) in wrong {
        let error = Synth::new(&options).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
}

#[test]
fn the_largest_vocabulary_works() {
    let options = SynthOptions { vocab_scale: 1e7, zipf: 0.0, ..small() };
    let stream = Synth::new(&options).unwrap();
    assert_eq!(options.vocabularies()[0], 24_777 * 10_000_000);
    assert_eq!(options.vocabularies()[5], 3);
    assert_eq!(filled(&stream, 0..10).len(), 10);
}

#[test]
fn a_failing_writer_is_reported() {
    let mut room = [0u8; 1000];
    let error = write_tsv(&small(), &mut room.as_mut_slice()).unwrap_err();
    assert!(error.to_string().starts_with("writing examples failed after 0"), "{error}");
}
