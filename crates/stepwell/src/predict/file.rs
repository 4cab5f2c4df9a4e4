//! A file of scores: texts that name records, labels and scores.

use std::io;
use std::path::Path;

use stepwell_train::{Label, Loss, Scored};

use crate::failure::Failure;
use crate::record_file::RecordFile;
use crate::score_texts::Names;

/// A file of scores that is being written.
pub(super) struct ScoreFile {
    file: RecordFile,
    /// Texts before the scores.
    names: Option<Names>,
    /// Whether labels are written between texts and scores.
    with_labels: bool,
    /// Loss of each of an example's logits.
    losses: Vec<Loss>,
    /// Number of records so far.
    records: u64,
    /// The error after which nothing more is written.
    pub(super) failed: Option<Failed>,
}

/// The columns of a file of scores.
pub(super) struct Columns {
    /// Columns that name records, if any.
    pub(super) names: Option<Names>,
    /// The labels that the model learned.
    pub(super) labels: Vec<Label>,
    /// Whether the labels are written.
    pub(super) with_labels: bool,
    /// Layers whose outputs follow the scores, with their numbers of columns.
    pub(super) layers: Vec<(String, usize)>,
}

/// Why writing stopped.
pub(super) enum Failed {
    /// The file cannot be written.
    Writing(io::Error),
    /// The names of records cannot be read, or cannot be written in this format.
    Names(String),
}

impl From<io::Error> for Failed {
    fn from(why: io::Error) -> Self {
        Self::Writing(why)
    }
}

impl Columns {
    /// Names of the columns of numbers.
    fn numbers(&self) -> Vec<String> {
        let labels = self.labels.iter().filter(|_| self.with_labels);
        let layers = self.layers.iter().flat_map(|(name, columns)| {
            (1..=*columns).map(move |column| format!("{name}.{column}"))
        });
        labels.map(|label| label.name.clone()).chain(scores(&self.labels)).chain(layers).collect()
    }

    /// Refuses two columns with the same name.
    pub(super) fn check(
        (ids, layers): (&[String], &[String]),
        labels: &[Label],
        with_labels: bool,
    ) -> Result<(), String> {
        let scores = scores(labels);
        for (number, id) in ids.iter().enumerate() {
            let why = if ids[..number].contains(id) {
                "named twice"
            } else if scores.contains(id) {
                "the scores have a column of that name: rename the data's column"
            } else if with_labels && labels.iter().any(|label| label.name == *id) {
                "--label writes that column: leave out one of them"
            } else {
                continue;
            };
            return Err(format!("--id {id}: {why}"));
        }
        let twice = |(number, name): (usize, &String)| layers[..number].contains(name);
        if let Some(name) = layers.iter().enumerate().position(|(at, name)| twice((at, name))) {
            return Err(format!("--layer {}: named twice", layers[name]));
        }
        match labels.iter().find(|label| with_labels && scores.contains(&label.name)) {
            Some(label) => Err(format!(
                "--label: the scores' column has the name {}, too: leave out --label",
                label.name
            )),
            None => Ok(()),
        }
    }
}

impl ScoreFile {
    /// Begins the file `out` with these columns.
    pub(super) fn begin(out: Option<&Path>, columns: Columns) -> Result<Self, Failure> {
        let texts = columns.names.as_ref().map(|names| names.columns.clone()).unwrap_or_default();
        let file = RecordFile::begin(out, &texts, &columns.numbers())?;
        let losses = columns.labels.iter().map(Label::loss).collect();
        let Columns { names, with_labels, .. } = columns;
        Ok(Self { file, names, with_labels, losses, records: 0, failed: None })
    }

    /// Adds the scores of a mini-batch.
    pub(super) fn put(&mut self, scored: Scored<'_>) -> Result<(), Failed> {
        self.file.put_header()?;
        let count = self.losses.len();
        let of_examples = scored.logits.chunks_exact(count).zip(scored.labels.chunks_exact(count));
        let examples = scored.logits.len() / count;
        let columns = scored.layers.len() / examples.max(1);
        for (number, (logits, labels)) in of_examples.enumerate() {
            self.records += 1;
            let names = self.next_names().map_err(Failed::Names)?;
            let scores = logits.iter().zip(&self.losses).map(|(logit, of)| of.prediction(*logit));
            let labels = labels.iter().filter(|_| self.with_labels).copied();
            let layers = &scored.layers[number * columns..(number + 1) * columns];
            self.file.put(names, labels.chain(scores).chain(layers.iter().copied()))?;
        }
        Ok(())
    }

    /// The texts that name the next record.
    fn next_names(&mut self) -> Result<Vec<Vec<u8>>, String> {
        let Some(names) = &mut self.names else { return Ok(Vec::new()) };
        let texts = names.next()?;
        let odd = texts.iter().position(|text| str::from_utf8(text).is_err());
        match odd.filter(|_| self.file.is_parquet()) {
            Some(at) => Err(format!(
                "--id {}: the text of record {} is not UTF-8, which Parquet requires: write CSV, \
                 which keeps it unchanged",
                names.columns[at], self.records
            )),
            None => Ok(texts),
        }
    }

    /// Writes the rest and gives the file its name.
    pub(super) fn finish(&mut self) -> Result<(), Failure> {
        self.file.finish()
    }

    /// The failure to write it.
    pub(super) fn cannot_write(&self, why: io::Error) -> Failure {
        self.file.cannot_write(why)
    }
}

/// Names of the columns of scores; with several labels, they include the label's name.
fn scores(labels: &[Label]) -> Vec<String> {
    match labels {
        [_] => vec!["score".to_owned()],
        labels => labels.iter().map(|label| format!("score_{}", label.name)).collect(),
    }
}
