//! Records of texts and numbers, written as CSV, TSV or Parquet files, or as CSV to standard
//! output.

mod parquet;

use std::fs::File;
use std::io::{self, BufWriter, Stdout, Write};
use std::path::Path;

use stepwell_base::mend;

use self::parquet::Records;
use crate::failure::Failure;
use crate::outputs::Output;
use crate::say;

/// Bytes of text per write.
const BUFFER_BYTES: usize = 256 << 10;

/// Extensions of other formats, which are refused.
const OTHERS: [&str; 26] = [
    "gz",
    "zst",
    "zstd",
    "xz",
    "bz2",
    "lz4",
    "br",
    "zip",
    "7z",
    "tar",
    "json",
    "jsonl",
    "ndjson",
    "npy",
    "npz",
    "xlsx",
    "xls",
    "ods",
    "feather",
    "arrow",
    "orc",
    "avro",
    "pkl",
    "h5",
    "pq",
    "safetensors",
];

/// Refuses a name with the extension of another format.
pub(crate) fn check_name(flag: &str, path: &Path) -> Result<(), String> {
    if end_of(path).is_some_and(|end| OTHERS.contains(&&*end)) {
        return Err(format!(
            "{flag} {}: only plain CSV, TSV or Parquet is written: name it .csv, .tsv or .parquet",
            path.display()
        ));
    }
    Ok(())
}

/// The extension of a file, in lower case.
fn end_of(path: &Path) -> Option<String> {
    path.extension().map(|end| end.to_string_lossy().to_lowercase())
}

/// A writer of records to a file or to standard output.
pub(crate) struct RecordFile {
    to: Form,
    /// The file's name in messages.
    name: Option<String>,
    /// The first line of a text until it is written, with the first record.
    header: Option<Vec<u8>>,
}

/// How records are written.
enum Form {
    /// Fields with this separator.
    Text(BufWriter<Target>, u8),
    Parquet(Box<Records<BufWriter<Target>>>),
    /// Nothing: all records are written.
    Whole,
}

enum Target {
    Said(Stdout),
    Kept(Output),
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Said(out) => out.write(bytes),
            Self::Kept(Output { file, .. }) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Said(out) => out.flush(),
            Self::Kept(Output { file, .. }) => File::flush(file),
        }
    }
}

impl RecordFile {
    /// Begins the file `out` with columns of texts followed by columns of numbers. Its extension
    /// decides the format.
    pub(crate) fn begin(
        out: Option<&Path>,
        texts: &[String],
        numbers: &[String],
    ) -> Result<Self, Failure> {
        let name = out.map(|path| path.display().to_string());
        let fail = |error: &io::Error| cannot_write(name.as_deref().unwrap_or_default(), error);
        let target = match out {
            None => Target::Said(io::stdout()),
            Some(path) => Target::Kept(Output::begin(path).map_err(|error| fail(&error))?),
        };
        let to = BufWriter::with_capacity(BUFFER_BYTES, target);
        let mut header = None;
        let to = match out.and_then(end_of).as_deref() {
            Some("parquet") => {
                let records = Records::begin(to, texts, numbers);
                Form::Parquet(Box::new(records.map_err(|error| fail(&error))?))
            }
            end => {
                let separator = if end == Some("tsv") { b'\t' } else { b',' };
                let fields = texts.iter().chain(numbers);
                let fields: Vec<_> = fields.map(|name| field(name.as_bytes(), separator)).collect();
                header = Some([fields.join(&separator), b"\n".to_vec()].concat());
                Form::Text(to, separator)
            }
        };
        Ok(Self { to, name, header })
    }

    /// Whether the format is Parquet, whose texts must be UTF-8.
    pub(crate) fn is_parquet(&self) -> bool {
        matches!(self.to, Form::Parquet(_))
    }

    /// Adds a record. In text, numbers have the fewest digits that parse to the same bits.
    pub(crate) fn put(
        &mut self,
        texts: Vec<Vec<u8>>,
        mut numbers: impl Iterator<Item = f32>,
    ) -> io::Result<()> {
        self.put_header()?;
        match &mut self.to {
            Form::Text(to, separator) => {
                let mut shown = zmij::Buffer::new();
                for text in &texts {
                    to.write_all(&field(text, *separator))?;
                    to.write_all(&[*separator])?;
                }
                if let Some(first) = numbers.next() {
                    to.write_all(shown.format(first).as_bytes())?;
                }
                for number in numbers {
                    to.write_all(&[*separator])?;
                    to.write_all(shown.format(number).as_bytes())?;
                }
                to.write_all(b"\n")
            }
            Form::Parquet(records) => records.put(texts, numbers),
            Form::Whole => Ok(()),
        }
    }

    /// Writes the first line of a text.
    pub(crate) fn put_header(&mut self) -> io::Result<()> {
        match (&mut self.to, self.header.take()) {
            (Form::Text(to, _), Some(header)) => to.write_all(&header),
            _ => Ok(()),
        }
    }

    /// Writes the rest and gives the file its name.
    pub(crate) fn finish(&mut self) -> Result<(), Failure> {
        self.put_header().map_err(|why| self.cannot_write(why))?;
        let whole = match std::mem::replace(&mut self.to, Form::Whole) {
            Form::Text(to, _) => to.into_inner().map_err(|error| error.into_error()),
            Form::Parquet(records) => {
                records.finish().and_then(|to| to.into_inner().map_err(|error| error.into_error()))
            }
            Form::Whole => return Ok(()),
        };
        let finished = whole.and_then(|mut target| {
            target.flush()?;
            match &mut target {
                Target::Said(_) => Ok(()),
                Target::Kept(output) => output.finish(),
            }
        });
        finished.map_err(|why| self.cannot_write(why))
    }

    /// The failure to write it.
    pub(crate) fn cannot_write(&self, why: io::Error) -> Failure {
        match &self.name {
            None => say::written(Err(why)).err().unwrap_or(Failure::Unheard),
            Some(name) => cannot_write(name, &why).into(),
        }
    }
}

/// A text as a field, in quotes if it has special characters.
fn field(text: &[u8], separator: u8) -> Vec<u8> {
    if !text.iter().any(|byte| [separator, b'"', b'\n', b'\r'].contains(byte)) {
        return text.to_vec();
    }
    let quoted =
        text.iter().flat_map(|byte| std::iter::repeat_n(*byte, 1 + usize::from(*byte == b'"')));
    [b'"'].into_iter().chain(quoted).chain([b'"']).collect()
}

fn cannot_write(name: &str, why: &io::Error) -> String {
    format!("cannot write {name}: {why}{}", mend(why))
}
