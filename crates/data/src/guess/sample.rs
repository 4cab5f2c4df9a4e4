//! Reads the first records of a file as texts.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use memchr::{memchr, memchr_iter};
use serde_json::{Map, Value};

use super::guessed::Misfits;
use crate::block::Block;
use crate::columnar::ColumnFile;
use crate::compression::{Content, broken, open};
use crate::error::DataError;
use crate::first_line::{UTF16, is_utf16};
use crate::head::Kind;
use crate::layout::{Column, ColumnKind, IdRule, Layout, LayoutOptions};
use crate::pass_share::Follower;
use crate::path_columns::path_columns;
use crate::read_options::ReadOptions;
use crate::record::{fields_of_line, kind_by_looks, name_of, why_no_object, without_comment};

/// Most bytes of text to examine.
const SAMPLE_BYTES: u64 = 8 << 20;
/// Error for a file that isn't text.
const BINARY: &str = "is binary, but not Parquet: only CSV, TSV, JSON lines, LibSVM and Parquet \
                      can be read";
/// Most records to examine.
const RECORDS_MAX: usize = 50_000;

/// First records of a file.
pub(super) struct Sample {
    pub(super) kind: Kind,
    /// Whether the first line of delimited text is a header.
    pub(super) header: bool,
    pub(super) names: Vec<String>,
    /// Whether the format stores the column's values as lists.
    pub(super) lists: Vec<bool>,
    /// Length of the longest list of each column.
    pub(super) longest: Vec<usize>,
    /// Values of each column; lists are flattened. // (columns) of (values)
    pub(super) values: Vec<Vec<String>>,
    pub(super) records: usize,
    /// Approximate lower bound on the records of the whole file.
    pub(super) records_least: u64,
    /// Lines that were not examined.
    pub(super) misfits: Option<Misfits>,
}

impl Sample {
    pub(super) fn of(path: &Path) -> Result<Self, DataError> {
        let wrong = |why: String| DataError::Path { path: path.to_owned(), why };
        match open(path)? {
            Content::Packed(_) => Err(wrong(
                "is already packed: its columns are hashed, so nothing is left to guess".to_owned(),
            )),
            Content::Columns(file) => of_columns(file),
            Content::Text(text) => {
                let mut bytes = Vec::new();
                let read = text.take(SAMPLE_BYTES).read_to_end(&mut bytes);
                read.map_err(|error| DataError::Read {
                    path: path.to_owned(),
                    line: 0,
                    why: broken(&error),
                })?;
                if is_utf16(&bytes) {
                    return Err(wrong(UTF16.to_owned()));
                }
                if memchr(0, &bytes).is_some() {
                    return Err(wrong(BINARY.to_owned()));
                }
                let sample = of_text(&bytes).map_err(wrong)?;
                let of_file = fs::metadata(path).map_or(0, |about| about.len());
                let header = u64::from(sample.header);
                let records_least = lines_least(&bytes, of_file).saturating_sub(header);
                Ok(Sample { records_least, ..sample })
            }
        }
    }
}

/// Approximate lower bound on the lines of a file of `of_file` bytes that starts with `text`.
/// Decompressed data may be longer than `of_file`.
fn lines_least(text: &[u8], of_file: u64) -> u64 {
    let lines = memchr_iter(b'\n', text).count() as u64;
    let of_line = (text.len() as u64 / lines.max(1)).max(1);
    let is_whole = text.len() < SAMPLE_BYTES as usize;
    if is_whole { lines } else { lines.max(of_file / of_line) }
}

/// A line with text.
#[derive(Clone, Copy)]
struct Line<'a> {
    /// Number of the line, from 1.
    number: u64,
    text: &'a [u8],
}

fn of_text(bytes: &[u8]) -> Result<Sample, String> {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let whole = bytes.len() < SAMPLE_BYTES as usize;
    let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    // The rest after the last line end is empty, or a line only if the file ends there.
    let rest = lines.pop().filter(|rest| whole && !rest.is_empty());
    lines.extend(rest);
    let line = |line: &'_ &[u8]| line.strip_suffix(b"\r").map_or(line.len(), <[u8]>::len);
    let lines: Vec<&[u8]> = lines.iter().map(|text| &text[..line(text)]).collect();
    let lines = (1..).zip(lines).map(|(number, text)| Line { number, text });
    let lines: Vec<Line<'_>> = lines.filter(|line| !line.text.is_empty()).collect();
    let first = lines.first().map_or(&[][..], |line| line.text);
    match kind_by_looks(first) {
        Kind::JsonLines => of_json(&lines),
        Kind::LibSvm => Ok(of_svm(&lines)),
        kind @ Kind::Delimited { separator, .. } => of_fields(kind, separator, &lines),
    }
}

fn of_fields(kind: Kind, separator: u8, lines: &[Line<'_>]) -> Result<Sample, String> {
    let first = lines.first().map(|line| fields_of_line(line.text, separator)).unwrap_or_default();
    let is_number = |text: &String| crate::number::number(text.trim().as_bytes()).is_some();
    let mut sorted = first.clone();
    sorted.sort_unstable();
    let twice = sorted.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0].clone());
    sorted.dedup();
    let differ = sorted.len() == first.len();
    // A separator at the end of each line adds a last column without a name.
    let named = first.iter().rposition(|text| !text.is_empty()).map_or(0, |last| last + 1);
    let header = named > 0 && !first[..named].iter().any(|text| text.is_empty() || is_number(text));
    // A first line without numbers is a record if the second looks the same.
    let second = lines.get(1).map(|line| fields_of_line(line.text, separator)).unwrap_or_default();
    let numbers = second.iter().any(is_number);
    let is_named = header && numbers && first[..named].iter().all(|name| is_name(name));
    if let Some(name) = twice.filter(|_| is_named) {
        return Err(format!("its first line names {name:?} twice: give each column its own name"));
    }
    let header = header
        && differ
        && (numbers || lines.len() == 1 || first[..named].iter().all(|name| is_name(name)));
    let names: Vec<String> = match header {
        true => first[..named].to_vec(),
        false => (1..=first.len()).map(|number| format!("c{number}")).collect(),
    };
    let mut values = vec![Vec::new(); names.len()];
    let records = lines.iter().skip(usize::from(header)).take(RECORDS_MAX);
    let (mut count, mut misfits) = (0, None::<Misfits>);
    for line in records {
        let fields = raw_fields(line.text, separator);
        if fields.len() != first.len() {
            misfits.get_or_insert(Misfits { lines: 0, first: line.number }).lines += 1;
            continue;
        }
        count += 1;
        for (values, field) in values.iter_mut().zip(fields) {
            values.push(field);
        }
    }
    let (lists, longest) = (vec![false; names.len()], vec![1; names.len()]);
    if count == 0 && lines.len() > usize::from(header) {
        return Err(format!(
            "has no line with as many columns as its first, which has {} with {} between them",
            names.len(),
            name_of(separator)
        ));
    }
    let records_least = count as u64;
    Ok(Sample {
        kind,
        header,
        names,
        lists,
        longest,
        values,
        records: count,
        records_least,
        misfits,
    })
}

/// Fields of a line, untrimmed unless it has quotes.
fn raw_fields(line: &[u8], separator: u8) -> Vec<String> {
    if separator != b'\t' && line.contains(&b'"') {
        return fields_of_line(line, separator);
    }
    let fields = line.split(|byte| *byte == separator);
    fields.map(|field| String::from_utf8_lossy(field).into_owned()).collect()
}

/// Whether a text looks like the name of a column.
fn is_name(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-. ".contains(&byte);
    text.len() <= 40
        && text.bytes().all(fits)
        && text.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic())
}

/// LibSVM names with their values; for fields, their ids as lists.
fn of_svm(lines: &[Line<'_>]) -> Sample {
    let mut found: BTreeMap<String, (bool, Vec<String>)> = BTreeMap::new();
    let mut longest: BTreeMap<String, usize> = BTreeMap::new();
    let lines = &lines[..lines.len().min(RECORDS_MAX)];
    for line in lines {
        let line = String::from_utf8_lossy(without_comment(line.text));
        let mut here: BTreeMap<&str, usize> = BTreeMap::new();
        for word in line.split_ascii_whitespace().skip(1) {
            let mut parts = word.split(':');
            let (name, value, more) = (parts.next(), parts.next(), parts.next());
            let (Some(name), Some(value)) = (name, value) else { continue };
            *here.entry(name).or_default() += 1;
            let entry = found.entry(name.to_owned()).or_default();
            entry.0 |= more.is_some();
            entry.1.push(value.to_owned());
        }
        for (name, times) in here {
            let most = longest.entry(name.to_owned()).or_default();
            *most = times.max(*most);
        }
    }
    let mut sample = Sample {
        kind: Kind::LibSvm,
        header: false,
        names: Vec::new(),
        lists: Vec::new(),
        longest: Vec::new(),
        values: Vec::new(),
        records: lines.len(),
        records_least: 0,
        misfits: None,
    };
    for (name, (is_field, values)) in found {
        sample.longest.push(longest.get(&name).copied().unwrap_or(1));
        sample.names.push(name);
        sample.lists.push(is_field);
        sample.values.push(values);
    }
    sample
}

fn of_json(lines: &[Line<'_>]) -> Result<Sample, String> {
    let mut sample = Sample {
        kind: Kind::JsonLines,
        header: false,
        names: Vec::new(),
        lists: Vec::new(),
        longest: Vec::new(),
        values: Vec::new(),
        records: 0,
        records_least: 0,
        misfits: None,
    };
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for Line { number, text } in lines.iter().take(RECORDS_MAX) {
        let object: Result<Map<String, Value>, _> = serde_json::from_slice(text);
        let object = object.map_err(|error| {
            let why = why_no_object(text, &error);
            format!("line {number}, column {}: {why}", error.column())
        })?;
        for (name, value) in object {
            let at = *places.entry(name.clone()).or_insert_with(|| {
                sample.names.push(name);
                sample.lists.push(false);
                sample.longest.push(1);
                sample.values.push(Vec::new());
                sample.names.len() - 1
            });
            let values = &mut sample.values[at];
            match value {
                Value::Array(items) => {
                    sample.lists[at] = true;
                    sample.longest[at] = sample.longest[at].max(items.len());
                    values.extend(items.iter().map(text_of));
                }
                value => values.push(text_of(&value)),
            }
        }
        sample.records += 1;
    }
    Ok(sample)
}

fn text_of(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Reads every supported column as ids, which are texts.
fn of_columns(file: ColumnFile) -> Result<Sample, DataError> {
    let in_path = path_columns(file.path());
    let is_in_path = |name: &String| in_path.iter().any(|of_path| of_path.name == *name);
    // A column that is also in the path can't be read from the file.
    let (twice, names): (Vec<String>, Vec<String>) = file.names().into_iter().partition(is_in_path);
    let id = |name: &String| Column {
        name: name.clone(),
        of: Vec::new(),
        kind: ColumnKind::Id(IdRule::default()),
    };
    let (path, rows) = (file.path().to_owned(), file.rows());
    let layout = Layout::new_unlabelled(LayoutOptions::default(), names.iter().map(id).collect());
    let layout = Arc::new(layout.map_err(|why| DataError::Path { path, why })?);
    let options = ReadOptions { block_bytes: 1 << 20, ..ReadOptions::new(layout.schema()) };
    let mut sample = Sample {
        kind: Kind::JsonLines,
        header: false,
        lists: vec![false; names.len()],
        longest: vec![1; names.len()],
        values: vec![Vec::new(); names.len()],
        names,
        records: 0,
        records_least: rows,
        misfits: None,
    };
    let mut reader = crate::columnar::ColumnFileReader::open(file, 0, 0, &layout, &options)?;
    let mut block = Block::default();
    while sample.records < RECORDS_MAX.min(rows as usize)
        && reader.next_block(&mut block, &mut Follower::new(None, 0))?
    {
        for (at, column) in block.rows.iter().flat_map(crate::rows::Rows::texts).enumerate() {
            let (longest, values) = column;
            sample.lists[at] |= longest.is_some();
            sample.longest[at] = sample.longest[at].max(longest.unwrap_or(1));
            sample.values[at].extend(values);
        }
        sample.records += block.lines as usize;
    }
    for name in twice {
        sample.names.push(name);
        sample.lists.push(false);
        sample.longest.push(1);
        sample.values.push(Vec::new());
    }
    Ok(sample)
}
