//! A file of scores, as CSV or as Parquet, or CSV as somebody reads it.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufWriter, Stdout, Write};
use std::path::Path;

use stepwell_base::mend;
use stepwell_train::{Label, Loss};

use super::names::{Names, field};
use super::records::Records;
use crate::failure::Failure;
use crate::outputs::Output;
use crate::say;

/// Bytes of scores that are written at once.
const BUFFER_BYTES: usize = 256 << 10;

/// Scores as a file, or as what somebody reads.
pub(super) struct ScoreFile {
    to: Form,
    /// What the file is called, in messages.
    name: Option<String>,
    /// The first line of a text, until it is written: not before the first score.
    header: Option<String>,
    /// What stands before each score.
    names: Option<Names>,
    /// Of each logit.
    losses: Vec<Loss>,
    /// Why no more is written.
    pub(super) failed: Option<Failed>,
}

/// How scores are written.
enum Form {
    Csv(BufWriter<Target>),
    Parquet(Box<Records<BufWriter<Target>>>),
    /// Nothing more is: it is whole.
    Whole,
}

/// Why no more is written.
pub(super) enum Failed {
    /// The file takes no more.
    Writing(io::Error),
    /// The names of records cannot be read.
    Names(String),
}

impl From<io::Error> for Failed {
    fn from(why: io::Error) -> Self {
        Self::Writing(why)
    }
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

impl ScoreFile {
    /// Begins the file `out` of scores of `labels`, whose name says how they are written in it.
    pub(super) fn begin(
        out: Option<&Path>,
        names: Option<Names>,
        labels: &[Label],
    ) -> Result<Self, Failure> {
        let name = out.map(|path| path.display().to_string());
        let fail = |error: &io::Error| cannot_write(name.as_deref().unwrap_or_default(), error);
        let target = match out {
            None => Target::Said(io::stdout()),
            Some(path) => Target::Kept(Output::begin(path).map_err(|error| fail(&error))?),
        };
        let to = BufWriter::with_capacity(BUFFER_BYTES, target);
        let column = names.as_ref().map(|names| names.column.as_str());
        let scores = columns(labels);
        let losses = labels.iter().map(|label| label.loss).collect();
        let mut header = None;
        let to = match out.and_then(Path::extension) == Some(OsStr::new("parquet")) {
            true => {
                let records = Records::begin(to, column, &scores);
                Form::Parquet(Box::new(records.map_err(|error| fail(&error))?))
            }
            false => {
                let name = column.map(|column| field(column.to_owned()) + ",");
                let scores: Vec<String> = scores.into_iter().map(field).collect();
                header = Some(format!("{}{}\n", name.unwrap_or_default(), scores.join(",")));
                Form::Csv(to)
            }
        };
        Ok(Self { to, name, header, names, losses, failed: None })
    }

    /// Adds the scores of a mini-batch; as text, the shortest numbers that are read as the same
    /// bits.
    pub(super) fn put(&mut self, logits: &[f32]) -> Result<(), Failed> {
        self.put_header()?;
        let mut text = zmij::Buffer::new();
        for logits in logits.chunks_exact(self.losses.len()) {
            let name = self.names.as_mut().map(Names::next).transpose().map_err(Failed::Names)?;
            let scores = logits.iter().zip(&self.losses).map(|(logit, of)| of.prediction(*logit));
            match &mut self.to {
                Form::Csv(to) => {
                    if let Some(name) = name {
                        to.write_all(field(name).as_bytes())?;
                        to.write_all(b",")?;
                    }
                    for (number, score) in scores.enumerate() {
                        if number > 0 {
                            to.write_all(b",")?;
                        }
                        to.write_all(text.format(score).as_bytes())?;
                    }
                    to.write_all(b"\n")?;
                }
                Form::Parquet(records) => records.put(name, scores)?,
                Form::Whole => {}
            }
        }
        Ok(())
    }

    fn put_header(&mut self) -> io::Result<()> {
        match (&mut self.to, self.header.take()) {
            (Form::Csv(to), Some(header)) => to.write_all(header.as_bytes()),
            _ => Ok(()),
        }
    }

    /// Gives the file its name, once all is in it.
    pub(super) fn finish(&mut self) -> Result<(), Failure> {
        self.put_header().map_err(|why| self.cannot_write(why))?;
        let whole = match std::mem::replace(&mut self.to, Form::Whole) {
            Form::Csv(to) => to.into_inner().map_err(|error| error.into_error()),
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

    pub(super) fn cannot_write(&self, why: io::Error) -> Failure {
        match &self.name {
            None => say::written(Err(why)).err().unwrap_or(Failure::Unheard),
            Some(name) => cannot_write(name, &why).into(),
        }
    }
}

/// Names of the columns of scores: of several each that of its label.
fn columns(labels: &[Label]) -> Vec<String> {
    match labels {
        [_] => vec!["score".to_owned()],
        labels => labels.iter().map(|label| format!("score_{}", label.name)).collect(),
    }
}

fn cannot_write(name: &str, why: &io::Error) -> String {
    format!("cannot write {name}: {why}{}", mend(why))
}
