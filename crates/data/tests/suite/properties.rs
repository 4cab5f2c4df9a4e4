//! Parsing agrees with a naive parser on any input, and never panics.

use proptest::prelude::*;
use stepwell_base::key_of;
use stepwell_data::{Block, Chunk, Schema, log1p_of, log1p_of_number, parse_block};

/// A naive implementation of the format: split, examine each column, push.
fn parse_plainly(text: &[u8], schema: Schema) -> Chunk {
    let mut chunk = Chunk::new(schema);
    for (offset, line) in (0..).zip(text.split_inclusive(|byte| *byte == b'\n')) {
        match example_of(line, schema) {
            Some((label, dense, ids)) => {
                chunk.labels.push(label);
                chunk.dense.extend(dense);
                for (column, id) in (0..).zip(ids) {
                    chunk.keys.push(key_of(&format!("C{}", column + 1), id));
                    chunk.bag_ends.push(chunk.keys.len() as u32);
                }
                chunk.lines.push(offset);
            }
            None => chunk.malformed.push(offset),
        }
        chunk.line_count += 1;
    }
    chunk
}

/// Label, dense features and ids.
type Example<'a> = (f32, Vec<f32>, Vec<&'a [u8]>);

fn example_of(line: &[u8], schema: Schema) -> Option<Example<'_>> {
    let line = line.strip_suffix(b"\n")?;
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b'\t').collect();
    if fields.len() != schema.columns() {
        return None;
    }
    let label: f32 = std::str::from_utf8(fields[0]).ok()?.parse().ok()?;
    let label = (0.0..=1.0).contains(&label).then_some(label + 0.0)?;
    let dense = fields[1..=schema.dense].iter().map(|field| dense_plainly(field));
    Some((label, dense.collect::<Option<_>>()?, fields[schema.dense + 1..].to_vec()))
}

/// A dense feature, parsed by the standard library; words such as `inf` are invalid.
fn dense_plainly(field: &[u8]) -> Option<f32> {
    let text = std::str::from_utf8(field).ok()?;
    if text.is_empty() {
        return Some(0.0);
    }
    let wide: f64 = text.parse().ok().filter(|wide: &f64| wide.is_finite())?;
    let narrow: f32 = text.parse().ok().filter(|narrow: &f32| narrow.is_finite())?;
    let half_a_step = wide.abs() / f64::from(1 << 24) + f64::from(f32::from_bits(1)) / 2.0;
    assert!((f64::from(narrow) - wide).abs() <= half_a_step, "{text}: {narrow}");
    if let Ok(integer) = text.parse::<i128>() {
        assert_eq!(narrow, integer as f32, "{text}");
    }
    if let Ok(integer) = text.parse::<i64>() {
        assert_eq!(log1p_of(integer).to_bits(), log1p_of_number(narrow).to_bits(), "{text}");
    }
    Some(log1p_of_number(narrow))
}

fn agree(text: &[u8], schema: Schema) -> Result<(), TestCaseError> {
    let mut chunk = Chunk::new(schema);
    // Earlier contents of the chunk must not matter.
    parse_block(&Block::of_text(b"1\t2\t3\t4\t5\t6\n\n".repeat(5)), &mut chunk);
    parse_block(&Block::of_text(text.to_vec()), &mut chunk);
    prop_assert_eq!(chunk.reasons.len(), chunk.malformed.len().min(16));
    chunk.reasons.clear();
    prop_assert_eq!(chunk, parse_plainly(text, schema));
    Ok(())
}

fn schemas() -> impl Strategy<Value = Schema> {
    (0usize..4, 0usize..4)
        .prop_filter("an example has a feature", |(dense, id_columns)| dense + id_columns > 0)
        .prop_map(|(dense, id_columns)| Schema::new(dense, id_columns))
}

/// Mostly valid pieces, so that they often form whole lines, and some invalid ones.
fn fields() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => any::<u32>().prop_map(|x| (x >> (x % 32)).to_string()),
        3 => Just(String::new()),
        2 => any::<i64>().prop_map(|x| x.to_string()),
        4 => "[0-9a-f]{1,10}",
        1 => "\\PC{0,20}",
        1 => "[-+.\r 0-9]{1,20}",
        4 => "[-+]?[0-9]{0,12}(\\.[0-9]{0,12})?([eE][-+]?[0-9]{1,3})?",
        2 => any::<f32>().prop_map(|x| x.to_string()),
        2 => any::<f64>().prop_map(|x| format!("{x:e}")),
        1 => "[-+]?(inf|nan|Infinity|NaN|0x[0-9]|e[0-9]|[0-9]{30,60})",
    ]
}

fn texts() -> impl Strategy<Value = String> {
    let label = prop_oneof![9 => Just("0".to_owned()), 9 => Just("1".to_owned()), 1 => fields()];
    let end = prop_oneof![8 => Just("\n"), 2 => Just("\r\n"), 1 => Just("")];
    let line = (label, prop::collection::vec(fields(), 0..7), end)
        .prop_map(|(label, rest, end)| [vec![label], rest].concat().join("\t") + end);
    prop::collection::vec(line, 0..12).prop_map(|lines| lines.concat())
}

/// Only bytes that are special to the parser.
fn dense_noise() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(
        prop::sample::select(b"\t\t\t\t\n\r01-9ae.+\x08\x0b\xff".to_vec()),
        0..200,
    )
}

/// Tests a field as a dense feature, in the middle of a line and at its end.
fn agree_on_field(field: &str) -> Result<(), TestCaseError> {
    let text = format!("1\t{field}\t{field}\n0\t{field}\t{field}\r\n1\t{field}");
    agree(text.as_bytes(), Schema::new(2, 0))?;
    agree(text.as_bytes(), Schema::new(1, 1))
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2000,
        failure_persistence: None,
        ..Default::default()
    })]

    #[test]
    fn lines_parse_as_by_the_plain_parser(text in texts(), schema in schemas()) {
        agree(text.as_bytes(), schema)?;
    }

    #[test]
    fn noise_parses_as_by_the_plain_parser(text in dense_noise(), schema in schemas()) {
        agree(&text, schema)?;
    }

    #[test]
    fn any_bytes_parse_as_by_the_plain_parser(
        text in prop::collection::vec(any::<u8>(), 0..300),
        schema in schemas(),
    ) {
        agree(&text, schema)?;
    }

    #[test]
    fn numbers_are_those_of_the_standard_library(
        field in "[-+]?[0-9]{0,24}(\\.[0-9]{0,24})?([eE][-+]?[0-9]{1,3})?",
        noise in "[-+.0-9eEinfaNxX_ ]{0,14}",
    ) {
        agree_on_field(&field)?;
        agree_on_field(&noise)?;
    }

    #[test]
    fn every_form_of_an_integer_is_its_bits(integer in any::<i64>(), shift in 0u32..64) {
        let integer = integer >> shift;
        let plus = if integer < 0 { "" } else { "+" };
        let forms = [
            format!("{integer}"), format!("{plus}{integer}"), format!("{integer}."),
            format!("{integer}.000"), format!("{integer}e0"), format!("{integer}00E-2"),
        ];
        let text: String = forms.iter().map(|form| format!("0\t{form}\n")).collect();
        let mut chunk = Chunk::new(Schema::new(1, 0));
        parse_block(&Block::of_text(text.into_bytes()), &mut chunk);
        let expected = libm::log1pf(integer.max(0) as f32).to_bits();
        let found: Vec<u32> = chunk.dense.iter().map(|x| x.to_bits()).collect();
        prop_assert_eq!(found, vec![expected; forms.len()]);
    }

    #[test]
    fn valid_lines_are_examples(
        rows in prop::collection::vec(
            (any::<bool>(), any::<i64>(), 0u32..20_000, "[^\t\r\n]*"),
            1..9
        )
    ) {
        let line = |(label, big, small, id): &(bool, i64, u32, String)| {
            format!("{}\t{big}\t{small}\t{id}\n", u8::from(*label))
        };
        let text: String = rows.iter().map(line).collect();
        let schema = Schema::new(2, 1);
        let mut chunk = Chunk::new(schema);
        parse_block(&Block::of_text(text.clone().into_bytes()), &mut chunk);
        prop_assert_eq!(chunk.len(), rows.len());
        agree(text.as_bytes(), schema)?;
    }
}
