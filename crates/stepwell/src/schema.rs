//! `stepwell schema`: what the columns of a file probably are, as settings that run.

use std::path::Path;

use stepwell_data::{Format, Guess, Guessed, guess};
use stepwell_settings::{self as settings, ColumnConfig, ColumnType, TransformKind};

use crate::cli::SchemaArgs;
use crate::failure::Failure;
use crate::say;

/// Records up to which mini-batches are small.
const FEW_RECORDS: usize = 50_000;

/// Prints a file of settings.
pub(crate) fn run(args: &SchemaArgs) -> Result<(), Failure> {
    let guess = guess(&args.file)?;
    let has = |kind: fn(&Guessed) -> bool| guess.columns.iter().any(|column| kind(&column.1));
    if !has(|kind| matches!(kind, Guessed::Label(_))) {
        say::note("no column looks like a label: give one of them type = \"label\"");
    }
    if !has(|kind| matches!(kind, Guessed::Id | Guessed::Ids(..))) {
        say::note("no column looks like an id: give one type = \"id\", or a number buckets");
    }
    say::whole(&text(&args.file, &guess))
}

/// The settings.
fn text(path: &Path, guess: &Guess) -> String {
    let name = path.display().to_string();
    let looked = guess.records;
    let mut text = format!(
        "# Guessed from the first {looked} records of {}: correct what is wrong. Each column \
         has a\n# type: label, weight, dense (a number), id, ids (a list of them) or \
         ignored.\n\n[data]\n",
        shown(&name)
    );
    text += &format!("paths = [{}]\n", quoted(&name));
    if guess.format != Format::Auto {
        text += &format!("format = {}\n", quoted(guess.format.name()));
    }
    if let Some(header) = guess.header {
        text += &format!("header = {header}\n");
    }
    if looked < FEW_RECORDS {
        text += "# Few records want many steps.\nmini_batch = 256\nepochs = 3\n";
    }
    if guess.trim {
        text += "trim = true\n";
    }
    if !guess.missing.is_empty() {
        let missing: Vec<String> = guess.missing.iter().map(|text| quoted(text)).collect();
        text += &format!("missing = [{}]\n", missing.join(", "));
    }
    for alike in grouped(guess) {
        text += "\n";
        for (name, note) in &alike.notes {
            text += &format!("# {}: {}\n", shown(name), shown(note));
        }
        text += &settings::column_to_toml(&alike.config);
    }
    text
}

/// Columns that follow each other and are alike.
struct Alike {
    config: ColumnConfig,
    notes: Vec<(String, String)>,
}

fn grouped(guess: &Guess) -> Vec<Alike> {
    let mut all: Vec<Alike> = Vec::new();
    for (name, guessed, note) in &guess.columns {
        let config = config_of(name, guessed);
        let joins = |last: &Alike| {
            let bare = |config: &ColumnConfig| ColumnConfig {
                names: Vec::new(),
                mean: Vec::new(),
                deviation: Vec::new(),
                ..config.clone()
            };
            bare(&last.config) == bare(&config) && config.kind != ColumnType::Label
        };
        let notes = if note.is_empty() { vec![] } else { vec![(name.clone(), note.clone())] };
        match all.last_mut().filter(|last| joins(last)) {
            Some(last) => {
                last.config.names.extend(config.names);
                last.config.mean.extend(config.mean);
                last.config.deviation.extend(config.deviation);
                last.notes.extend(notes);
            }
            None => all.push(Alike { config, notes }),
        }
    }
    all
}

fn config_of(name: &str, guessed: &Guessed) -> ColumnConfig {
    let names = vec![name.to_owned()];
    let of = |kind| ColumnConfig { names, kind, ..ColumnConfig::default() };
    match guessed {
        Guessed::Label(positive) => {
            ColumnConfig { positive: positive.clone(), ..of(ColumnType::Label) }
        }
        Guessed::Amount => {
            ColumnConfig { transform: TransformKind::Log1p, ..of(ColumnType::Dense) }
        }
        Guessed::Number(mean, deviation) => ColumnConfig {
            transform: TransformKind::Standardise,
            mean: vec![*mean],
            deviation: vec![*deviation],
            ..of(ColumnType::Dense)
        },
        Guessed::Id => of(ColumnType::Id),
        Guessed::Ids(separator, ids) => {
            ColumnConfig { separator: separator.clone(), ids: *ids, ..of(ColumnType::Ids) }
        }
        Guessed::Ignored => of(ColumnType::Ignored),
    }
}

/// A text within a comment, which a line break would end.
fn shown(text: &str) -> String {
    let shown = |c: char| match c.is_control() {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    text.chars().map(shown).collect()
}

/// A text as a file of settings has it.
fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}
