//! Settings files: TOML, flattened to keys with their lines.
//!
//! A value that is wrong by itself is refused here, where its line is known.

use std::path::Path;

use stepwell_settings::{Config, Given, look_up, removed_value};
use toml::Spanned;
use toml::de::{DeInteger, DeString, DeTable, DeValue};

use crate::say;

/// Reads the settings of `path` into `config`; returns the keys that it sets.
///
/// # Errors
/// One line with file, line, key and the fix.
pub(crate) fn read(path: &Path, config: &mut Config) -> Result<Vec<String>, String> {
    let name = path.display().to_string();
    let hint = |error: String| match path.extension().is_some_and(|end| end == "toml") {
        true => error,
        false => format!("{error}; it was read as settings: if it is data, write --data {name}"),
    };
    let text = stepwell_data::read_text(path).map_err(|error| error.to_string());
    let text = text.map_err(|error| if path.is_file() { hint(error) } else { error })?;
    DeTable::parse(&text).map_err(|error| hint(no_toml(&name, &text, &error)))?;
    apply(&name, &text, config)
}

/// The message for a `text` that is not TOML.
fn no_toml(name: &str, text: &str, error: &toml::de::Error) -> String {
    let line = line_of(text, error.span().map_or(0, |span| span.start));
    let key = error.span().and_then(|span| text.get(span));
    match (error.message(), key) {
        (why @ "duplicate key", Some(key)) => {
            format!("{name}:{line}: {why} {}: keep one", key.trim())
        }
        (why, _) => match unquoted(text.lines().nth(line - 1).unwrap_or_default()) {
            Some((key, word)) => format!("{name}:{line}: put text in quotes: {key} = \"{word}\""),
            None => format!("{name}:{line}: {why}"),
        },
    }
}

/// Key and value of a line such as `key = word`, whose value lacks quotes.
fn unquoted(line: &str) -> Option<(&str, &str)> {
    let (key, rest) = line.split_once('=')?;
    let word = rest.split('#').next().unwrap_or_default().trim();
    let first = word.chars().next()?;
    let is_word = first.is_alphabetic() && !word.contains(['"', '\'', '=']);
    let is_word = is_word && !["true", "false"].contains(&word.to_ascii_lowercase().as_str());
    is_word.then_some((key.trim(), word))
}

/// Reads the settings of `text`, from file `name`, into `config`; returns the keys that it sets.
///
/// # Errors
/// As [`read`].
pub(crate) fn apply(name: &str, text: &str, config: &mut Config) -> Result<Vec<String>, String> {
    let at_line = |at: usize, why: &str| format!("{name}:{}: {why}", line_of(text, at));
    let table = DeTable::parse(text).map_err(|error| no_toml(name, text, &error))?;
    let mut keys = Vec::new();
    begin_anew(table.get_ref(), config);
    for Found { key, at, value } in flat(table.get_ref()) {
        let is_setting = matches!(value, Ok(Value::One(_) | Value::List(_)));
        set(&key, value, config).map_err(|why| at_line(at, &why))?;
        keys.extend(is_setting.then_some(key));
    }
    Ok(keys)
}

/// Clears settings that a file replaces as a whole: columns in the file replace all columns,
/// features and tables; features replace all features, and layers all layers.
fn begin_anew(table: &DeTable<'_>, config: &mut Config) {
    let has = |name: &str| table.iter().any(|(key, _)| key.get_ref() == name);
    if has("columns") {
        config.columns.clear();
        config.tables.clear();
    }
    if has("columns") || has("features") {
        config.features.clear();
    }
    if let Some(DeValue::Table(model)) = table.get("model").map(Spanned::get_ref)
        && model.contains_key("layers")
    {
        config.model.layers.clear();
    }
}

/// Applies one entry of a file to `config`.
fn set(key: &str, value: Result<Value, String>, config: &mut Config) -> Result<(), String> {
    match value? {
        Value::Table(name) => config.table_mut(&name).map(|_| ()),
        Value::Feature(number) => config.feature_mut(number).map(|_| ()),
        Value::Columns(number) => config.column_mut(number).map(|_| ()),
        Value::Layer(number) => config.layer_mut(number).map(|_| ()),
        Value::One(text) => {
            let setting = look_up(key)?;
            setting.set(config, &text)?;
            removed_value(key, &text).into_iter().for_each(say::warn);
            setting.check_alone(config)
        }
        Value::List(parts) => {
            let setting = look_up(key)?;
            setting.give(config, Given::List(&parts))?;
            setting.check_alone(config)
        }
    }
}

/// One entry of a file.
struct Found {
    /// Whole key of a setting, table, feature, columns or layer.
    key: String,
    /// Byte offset in the text.
    at: usize,
    value: Result<Value, String>,
}

/// The value of an entry.
enum Value {
    One(String),
    List(Vec<String>),
    /// The head of the table with this name.
    Table(String),
    /// The head of the feature with this number.
    Feature(usize),
    /// The head of the columns with this number.
    Columns(usize),
    /// The head of the layer with this number.
    Layer(usize),
}

/// All entries of a file: settings of the run, then tables, columns and features, each in the
/// file's order.
fn flat(table: &DeTable<'_>) -> Vec<Found> {
    let mut found = Vec::new();
    let (mut tables, mut features, mut columns) = (Vec::new(), Vec::new(), Vec::new());
    for (key, value) in in_order(table) {
        match key.get_ref().as_ref() {
            "tables" => flatten_tables(key, value, &mut tables),
            "features" => flatten_numbered(FEATURES, key, value, &mut features),
            "columns" => flatten_numbered(COLUMNS, key, value, &mut columns),
            name => flatten(name, key, value, &mut found),
        }
    }
    found.extend(tables);
    found.extend(columns);
    found.extend(features);
    found
}

type Name<'a> = Spanned<DeString<'a>>;

/// The entries of a table in the order of the file.
fn in_order<'t, 'a>(table: &'t DeTable<'a>) -> Vec<(&'t Name<'a>, &'t Spanned<DeValue<'a>>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

fn flatten(name: &str, key: &Name<'_>, value: &Spanned<DeValue<'_>>, found: &mut Vec<Found>) {
    match value.get_ref() {
        DeValue::Table(inner) => flatten_all(name, inner, found),
        _ if name == LAYERS.name => flatten_numbered(LAYERS, key, value, found),
        other => {
            let at = key.span().start;
            found.push(Found { key: name.to_owned(), at, value: value_of(other) });
        }
    }
}

fn flatten_all(prefix: &str, table: &DeTable<'_>, found: &mut Vec<Found>) {
    for (key, value) in in_order(table) {
        flatten(&format!("{prefix}.{}", key.get_ref()), key, value, found);
    }
}

fn flatten_tables(key: &Name<'_>, value: &Spanned<DeValue<'_>>, found: &mut Vec<Found>) {
    let refused = |key: &Name<'_>, whole: String, write: &str| Found {
        value: Err(format!(
            "{whole}: write [{write}], and below it its settings, such as dim = 16"
        )),
        key: whole,
        at: key.span().start,
    };
    let DeValue::Table(tables) = value.get_ref() else {
        found.push(refused(key, "tables".to_owned(), "tables.NAME"));
        return;
    };
    for (name, value) in in_order(tables) {
        let (key, at) = (format!("tables.{}", name.get_ref()), name.span().start);
        let DeValue::Table(settings) = value.get_ref() else {
            let write = key.clone();
            found.push(refused(name, key, &write));
            continue;
        };
        let begun = Value::Table(name.get_ref().to_string());
        found.push(Found { key: key.clone(), at, value: Ok(begun) });
        flatten_all(&key, settings, found);
    }
}

/// Parts that a file has in numbered arrays.
#[derive(Clone, Copy)]
struct Numbered {
    name: &'static str,
    begun: fn(usize) -> Value,
    write: &'static str,
}

const FEATURES: Numbered = Numbered {
    name: "features",
    begun: Value::Feature,
    write: "features: write [[features]] for each, and below it columns = [\"C1\"]",
};

const COLUMNS: Numbered = Numbered {
    name: "columns",
    begun: Value::Columns,
    write: "columns: write [[columns]] for each, and below it names = [\"age\"]",
};

const LAYERS: Numbered = Numbered {
    name: "model.layers",
    begun: Value::Layer,
    write: "model.layers: write layers = [{ name = \"logit\", kind = \"linear\", ... }], or \
            [[model.layers]] for each",
};

fn flatten_numbered(
    of: Numbered,
    key: &Name<'_>,
    value: &Spanned<DeValue<'_>>,
    found: &mut Vec<Found>,
) {
    let at = key.span().start;
    let parts = match value.get_ref() {
        DeValue::Array(parts) => parts.iter().collect(),
        _ => vec![value],
    };
    for (part, number) in parts.into_iter().zip(1..) {
        let (key, at) = (format!("{}.{number}", of.name), part.span().start.max(at));
        match (part.get_ref(), value.get_ref()) {
            (DeValue::Table(settings), DeValue::Array(_)) => {
                found.push(Found { key: key.clone(), at, value: Ok((of.begun)(number)) });
                flatten_all(&key, settings, found);
            }
            _ => found.push(Found { key, at, value: Err(of.write.to_owned()) }),
        }
    }
}

fn value_of(value: &DeValue<'_>) -> Result<Value, String> {
    match value {
        DeValue::Array(values) => {
            let parts: Result<_, String> =
                values.iter().map(Spanned::get_ref).map(text_of).collect();
            Ok(Value::List(parts?))
        }
        one => Ok(Value::One(text_of(one)?)),
    }
}

/// The text of a single value, as flags take it.
pub(crate) fn text_of(value: &DeValue<'_>) -> Result<String, String> {
    match value {
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Integer(number) => Ok(as_written(number)),
        DeValue::Float(number) => Ok(number.as_str().to_owned()),
        DeValue::Boolean(flag) => Ok(flag.to_string()),
        DeValue::Datetime(_) | DeValue::Table(_) | DeValue::Array(_) => {
            Err("give a number, a text in quotes, or a list of them".to_owned())
        }
    }
}

/// A whole number in the file's base.
fn as_written(number: &DeInteger<'_>) -> String {
    let prefix = match number.radix() {
        16 => "0x",
        8 => "0o",
        2 => "0b",
        _ => "",
    };
    format!("{prefix}{}", number.as_str())
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at.min(text.len())].matches('\n').count() + 1
}

#[cfg(test)]
mod tests;
