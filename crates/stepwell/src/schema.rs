//! `stepwell schema`: guesses the columns of a file, as settings that train on it.

use std::path::Path;

use stepwell_base::counted;
use stepwell_data::{Format, Guess, Guessed, GuessedColumn, Misfits, guess};
use stepwell_settings::{self as settings, ColumnConfig, ColumnType, TransformKind};

use crate::cli::SchemaArgs;
use crate::failure::Failure;
use crate::say::tell;
use crate::{outputs, say};

/// Least steps of an epoch, as fewer learn little.
const STEPS_LEAST: u64 = 200;
/// Most examples of a mini-batch, which is the default.
const MINI_BATCH_MAX: u64 = 4096;

/// Prints or writes a settings file.
pub(crate) fn run(args: &SchemaArgs) -> Result<(), Failure> {
    if let Some(out) = &args.out {
        if out.is_file() && !args.force {
            let why = format!("--out {} exists; replace it with --force", out.display());
            return Err(Failure::Usage(why));
        }
        outputs::check(&[("--out", Some(out))], std::slice::from_ref(&args.file))?;
    }
    let guess = guess(&args.file)?;
    let has = |kind: fn(&Guessed) -> bool| guess.columns.iter().any(|column| kind(&column.kind));
    if !has(|kind| matches!(kind, Guessed::Label(_))) {
        say::note("no column looks like a label: give one type = \"label\"");
    }
    if !has(|kind| matches!(kind, Guessed::Id | Guessed::Ids(..) | Guessed::Valued { .. })) {
        say::note("no column looks like an id: give one type = \"id\", or a number buckets");
    }
    if let Some(Misfits { lines, first }) = guess.misfits {
        say::note(format_args!(
            "{}, line {first}: has more or fewer columns than the first line{}: fix it, or let \
             training skip malformed lines with --skip-max",
            args.file.display(),
            if lines > 1 {
                format!(", as {} in all", counted(lines, "line"))
            } else {
                String::new()
            }
        ));
    }
    let text = text(&args.file, &guess);
    let Some(out) = &args.out else { return say::whole(&text) };
    outputs::write_text(out, &text)?;
    let (columns, out) = (counted(guess.columns.len() as u64, "column"), out.display());
    tell!("{columns} in {out}: check them, correct what is wrong, then run `stepwell train {out}`");
    Ok(())
}

/// Records of an epoch to train on: a tenth is for evaluation.
fn trained(records: u64) -> u64 {
    records - (records + 5) / 10
}

/// Examples of a mini-batch such that an epoch of this many records has at least [`STEPS_LEAST`]
/// steps, if there are records enough.
fn mini_batch(records: u64) -> u64 {
    let of_step = trained(records) / STEPS_LEAST;
    let power = of_step.checked_ilog2().map_or(1, |power| 1 << power);
    power.min(MINI_BATCH_MAX)
}

/// The text of the settings file.
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
    let (records, batch) = (guess.records_least, mini_batch(guess.records_least));
    let (steps, records) = (trained(records).div_ceil(batch), counted(records, "record"));
    let steps = counted(steps, "step");
    text += &format!(
        "# Examples per step. The file has at least {records} (estimated):\n\
         # an epoch makes at least {steps}.\nmini_batch = {batch}\nepochs = 1\n"
    );
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

/// Adjacent columns with the same settings.
struct Alike {
    config: ColumnConfig,
    notes: Vec<(String, String)>,
}

fn grouped(guess: &Guess) -> Vec<Alike> {
    let mut all: Vec<Alike> = Vec::new();
    for GuessedColumn { name, kind, note } in &guess.columns {
        let config = config_of(name, kind);
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
        Guessed::Valued { separator, ids, mark } => ColumnConfig {
            separator: separator.clone(),
            ids: *ids,
            values: Some(mark.clone()),
            ..of(ColumnType::Ids)
        },
        Guessed::Ignored => of(ColumnType::Ignored),
    }
}

/// A text for a comment, with line breaks and other control characters escaped.
fn shown(text: &str) -> String {
    let shown = |c: char| match c.is_control() {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    text.chars().map(shown).collect()
}

/// A text as a TOML string.
fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_has_steps_enough() {
        let of = [0, 1, 100, 223, 3_000, 60_000, 900_000, 1_000_000, 100_000_000];
        assert_eq!(of.map(mini_batch), [1, 1, 1, 1, 8, 256, 2048, 4096, 4096]);
        for records in (223..2_000_000).step_by(997) {
            assert!(trained(records).div_ceil(mini_batch(records)) >= STEPS_LEAST, "{records}");
            assert_eq!(trained(records), records - (records as f64 * 0.1).round() as u64);
        }
    }
}
