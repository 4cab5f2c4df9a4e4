//! Records in any notation (format, quotes, order of columns, line ends) give the examples of a
//! naive oracle, wherever reading starts and blocks are cut.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use stepwell_base::key_of;
use stepwell_data::{
    Column, ColumnKind, DenseRule, Format, IdRule, LabelRule, Layout, LayoutOptions, ListRule,
    Position, ReadOptions,
};

use crate::common::*;
use crate::rows::{column, options_of, read};

const NAMES: [&str; 6] = ["y", "price", "a", "b", "tags", "other"];
/// Texts that mean a missing value, one of them a number.
const MISSING: [&str; 2] = ["NA", "-1"];
const TAGS_MAX: usize = 3;

/// A record before it is written; its texts may mean missing values.
#[derive(Clone, Debug)]
struct Record {
    label: bool,
    price: Option<i32>,
    texts: [String; 2],
    tags: Vec<String>,
    other: String,
}

/// Texts with the letters of `set`.
fn text(set: &'static str) -> impl Strategy<Value = String> {
    let letters: Vec<char> = set.chars().collect();
    let some = prop::collection::vec(prop::sample::select(letters), 0..9);
    prop_oneof![
        8 => some.prop_map(|letters| letters.into_iter().collect::<String>()),
        1 => prop::sample::select(MISSING.to_vec()).prop_map(str::to_owned),
        1 => (0_u64..u64::MAX).prop_map(|number| number.to_string()),
    ]
}

/// Characters that are special in some format.
const TROUBLE: &str = "ab01 ,;|\"\"\\\\'{}[]:#é\u{1F600}\u{7f}-";

fn record(set: &'static str, tag: &'static str) -> impl Strategy<Value = Record> {
    let price = prop::option::weighted(0.8, -3..1000_i32);
    let tags = prop::collection::vec(text(tag), 0..6);
    (any::<bool>(), price, [text(set), text(set)], tags, text(set))
        .prop_map(|(label, price, texts, tags, other)| Record { label, price, texts, tags, other })
}

fn columns() -> Vec<Column> {
    let list = Some(ListRule { separator: "|".to_owned(), most: TAGS_MAX, values: None });
    let id = |rule| ColumnKind::Id(rule);
    vec![
        column("y", ColumnKind::Label(LabelRule::default())),
        column("price", ColumnKind::Dense(DenseRule { indicator: true, ..Default::default() })),
        column("a", id(IdRule::default())),
        column("b", id(IdRule { skip_missing: true, ..Default::default() })),
        column("tags", id(IdRule { list, ..Default::default() })),
        column("other", ColumnKind::Ignored),
    ]
}

/// Label, dense features and bags, by the rules.
type Example = (u32, Vec<u32>, Vec<Vec<u64>>);

fn example(record: &Record) -> Example {
    let price = record.price.filter(|price| *price != -1);
    let dense = [price.unwrap_or(0) as f32, if price.is_none() { 1.0 } else { 0.0 }];
    let is_missing = |text: &str| text.is_empty() || MISSING.contains(&text);
    let known = |text: &str| if is_missing(text) { String::new() } else { text.to_owned() };
    let key = |name: &str, text: &str| key_of(name, text.as_bytes()).0;
    let [a, b] = &record.texts;
    let b = if is_missing(b) { vec![] } else { vec![key("b", b)] };
    let tags = record.tags.iter().filter(|tag| !is_missing(tag)).take(TAGS_MAX);
    let tags: Vec<u64> = tags.map(|tag| key("tags", tag)).collect();
    let label = f32::from(u8::from(record.label)).to_bits();
    (label, dense.map(f32::to_bits).to_vec(), vec![vec![key("a", &known(a))], b, tags])
}

/// Notation of records.
#[derive(Clone, Debug)]
struct Dress {
    format: Format,
    separator: u8,
    header: bool,
    crlf: bool,
    mark: bool,
    blank: bool,
    order: Vec<usize>,
    /// Decides which values are quoted or escaped.
    dice: Vec<bool>,
    compressed: u8,
}

fn dress() -> impl Strategy<Value = Dress> {
    let format = prop::sample::select(vec![Format::Csv, Format::Auto, Format::JsonLines]);
    let separator = prop::sample::select(b",;|".to_vec());
    let order = Just((0..NAMES.len()).collect::<Vec<_>>()).prop_shuffle();
    let flags = [any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>()];
    let dice = prop::collection::vec(any::<bool>(), 1..40);
    (format, separator, flags, order, dice, 0..3_u8).prop_map(
        |(format, separator, [header, crlf, mark, blank], order, dice, compressed)| Dress {
            header: header || format == Format::Auto,
            // Without a header, columns are in the order of the layout.
            order: if header || format != Format::Csv { order } else { (0..6).collect() },
            ..Dress {
                format,
                separator,
                header,
                crlf,
                mark,
                blank,
                order: vec![],
                dice,
                compressed,
            }
        },
    )
}

fn values(record: &Record) -> [String; 6] {
    let price = record.price.map_or_else(String::new, |price| price.to_string());
    let [a, b] = record.texts.clone();
    let label = u8::from(record.label).to_string();
    [label, price, a, b, record.tags.join("|"), record.other.clone()]
}

impl Dress {
    fn lines(&self, records: &[Record]) -> Vec<String> {
        let mut dice = self.dice.iter().copied().cycle();
        match self.format {
            Format::JsonLines => records.iter().map(|of| self.object(of, &mut dice)).collect(),
            _ => {
                let names = self.header.then(|| self.fields(&NAMES.map(str::to_owned), &mut dice));
                let records = records.iter().map(|of| self.fields(&values(of), &mut dice));
                names.into_iter().chain(records).collect()
            }
        }
    }

    fn fields(&self, fields: &[String; 6], dice: &mut impl Iterator<Item = bool>) -> String {
        let separator = char::from(self.separator);
        let mut written = Vec::new();
        for at in &self.order {
            let field = &fields[*at];
            let must = field.contains(separator) || field.starts_with('"');
            written.push(match must || dice.next() == Some(true) {
                true => format!("\"{}\"", field.replace('"', "\"\"")),
                false => field.clone(),
            });
        }
        written.join(&separator.to_string())
    }

    fn object(&self, record: &Record, dice: &mut impl Iterator<Item = bool>) -> String {
        let fields = values(record);
        let mut parts = Vec::new();
        for at in &self.order {
            let escape = dice.next() == Some(true);
            let written = match *at {
                1 if fields[1].is_empty() && escape => continue,
                1 if fields[1].is_empty() => "null".to_owned(),
                0 | 1 if !escape => fields[*at].clone(),
                4 if escape => {
                    let tags: Vec<String> = record.tags.iter().map(|tag| json(tag, true)).collect();
                    format!("[{}]", tags.join(" ,"))
                }
                at => json(&fields[at], escape),
            };
            parts.push(format!("\"{}\": {written}", NAMES[*at]));
        }
        format!("{{{}}}", parts.join(","))
    }

    fn file(&self, folder: &Path, records: &[Record]) -> std::path::PathBuf {
        let end = if self.crlf { "\r\n" } else { "\n" };
        let mut text = String::new();
        if self.mark {
            text.push('\u{feff}');
        }
        for line in self.lines(records) {
            text += &line;
            text += end;
        }
        if self.blank && !records.is_empty() {
            text += end;
        }
        match self.compressed {
            0 => write(folder, "a", text),
            1 => write(folder, "a", gzip(text)),
            _ => write(folder, "a", zstd(text)),
        }
    }

    fn layout(&self) -> Arc<Layout> {
        let options = LayoutOptions {
            format: self.format,
            separator: (self.format == Format::Csv).then_some(self.separator),
            header: (self.format == Format::Csv).then_some(self.header),
            trim: false,
            missing: MISSING.map(str::to_owned).to_vec(),
            ..Default::default()
        };
        Arc::new(Layout::new(options, columns()).unwrap())
    }
}

/// A JSON text, with every letter escaped, or only where necessary.
fn json(text: &str, escape: bool) -> String {
    if !escape {
        return serde_json::Value::from(text).to_string();
    }
    let mut written = "\"".to_owned();
    for unit in text.encode_utf16() {
        write!(written, "\\u{unit:04x}").unwrap();
    }
    written + "\""
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(400),
        failure_persistence: None,
        ..Default::default()
    })]

    #[test]
    fn records_in_any_dress_are_the_same_examples(
        records in prop::collection::vec(record(TROUBLE, "ab0é"), 1..25),
        dress in dress(),
        block_bytes in prop::collection::vec(1600_usize..4000, 2),
        start in any::<prop::sample::Index>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let (path, layout) = (dress.file(folder.path(), &records), dress.layout());
        let expected: Vec<Example> = records.iter().map(example).collect();
        let start = start.index(records.len() + 1);
        for block_bytes in block_bytes {
            let options = options_of(&layout, block_bytes);
            let (rows, skipped) = read(&path, &layout, &options).unwrap();
            let found: Vec<Example> =
                rows.iter().cloned().map(|(_, label, dense, bags)| (label, dense, bags)).collect();
            prop_assert_eq!(&found, &expected);
            prop_assert_eq!(skipped, 0);
            let place = Position { file: 0, line: start as u64 };
            let later = read(&path, &layout, &ReadOptions { start: place, ..options }).unwrap().0;
            prop_assert!(later == rows[start..]);
        }
        let counted = stepwell_data::Input::Files(stepwell_data::Files {
            paths: vec![path],
            layout: Some(layout),
        });
        prop_assert_eq!(counted.lines_of_each().unwrap(), [records.len() as u64]);
    }

    /// Also if the last block is completely full.
    #[test]
    fn a_last_empty_line_is_none_wherever_blocks_are_cut(
        lines in prop::collection::vec(0..4_usize, 1..9),
        crlf in any::<bool>(),
        blanks in 0..3_usize,
        block_bytes in 16_usize..60,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let layout = Arc::new(Layout::new(LayoutOptions::default(), vec![
            column("y", ColumnKind::Label(LabelRule::default())),
            column("a", ColumnKind::Id(IdRule::default())),
        ]).unwrap());
        let mut text: String = lines.iter().map(|n| format!("1,{}\n", "x".repeat(*n))).collect();
        text += &"\n".repeat(blanks);
        let text = if crlf { text.replace('\n', "\r\n") } else { text };
        let path = write(folder.path(), "a", text);
        let options = ReadOptions { skip_max: 9, ..options_of(&layout, block_bytes) };
        let (rows, skipped) = read(&path, &layout, &options).unwrap();
        prop_assert_eq!(rows.len(), lines.len());
        prop_assert_eq!(skipped as usize, blanks.saturating_sub(1));
        let files = stepwell_data::Files { paths: vec![path], layout: Some(layout) };
        let counted = stepwell_data::Input::Files(files).lines_of_each().unwrap();
        prop_assert_eq!(counted[0], rows.len() as u64 + skipped);
    }

    #[test]
    fn lines_of_libsvm_are_what_is_written(
        records in prop::collection::vec(record("ab01é-", "ab0é"), 1..20),
        order in Just(vec![0_usize, 1, 2, 3]).prop_shuffle(),
        block_bytes in 300_usize..2000,
        spaces in 1..4_usize,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut text = String::new();
        let mut columns = columns();
        columns[0].name = "label".to_owned();
        let space = " ".repeat(spaces);
        for record in &records {
            text += if record.label { "+1" } else { "-1" };
            for at in &order {
                match at {
                    0 => text.extend(record.price.map(|price| format!("{space}price:{price}"))),
                    1 | 2 if record.texts[at - 1].is_empty() => {}
                    1 | 2 => {
                        let name = ["a", "b"][at - 1];
                        write!(text, "{space}{name}:{}", record.texts[at - 1]).unwrap();
                    }
                    _ => {
                        let tags = record.tags.iter().filter(|tag| !tag.is_empty());
                        text.extend(tags.map(|tag| format!("{space}tags:{tag}:1")));
                    }
                }
            }
            text += "\n";
        }
        let path = write(folder.path(), "a.svm", text);
        let missing = MISSING.map(str::to_owned).to_vec();
        let options = LayoutOptions { format: Format::LibSvm, missing, ..Default::default() };
        let layout = Arc::new(Layout::new(options, columns).unwrap());
        let (rows, _) = read(&path, &layout, &options_of(&layout, block_bytes)).unwrap();
        for (record, (_, label, dense, bags)) in records.iter().zip(&rows) {
            let expected = example(record);
            prop_assert_eq!((*label, dense), (expected.0, &expected.1));
            prop_assert_eq!(&bags[..2], &expected.2[..2]);
            prop_assert_eq!(&bags[2], &expected.2[2]);
        }
        prop_assert_eq!(rows.len(), records.len());
    }
}
