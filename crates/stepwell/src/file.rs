//! Configuration files: TOML, flattened to keys, each remembered with its line.

use std::path::Path;

use stepwell_settings::{Config, Given, find};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Reads the settings of `path` into `config`; the keys that it sets.
///
/// # Errors
/// One line with file, line, key and the mend.
pub(crate) fn read(path: &Path, config: &mut Config) -> Result<Vec<String>, String> {
    let text = stepwell_data::read_text(path).map_err(|error| error.to_string())?;
    apply(&path.display().to_string(), &text, config)
}

/// Reads the settings of `text`, which came from `name`, into `config`; the keys that it sets.
///
/// # Errors
/// As [`read`].
pub(crate) fn apply(name: &str, text: &str, config: &mut Config) -> Result<Vec<String>, String> {
    let table = DeTable::parse(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_of(text, span.start));
        format!("{name}:{line}: {}", error.message())
    })?;
    let mut found = Vec::new();
    flatten("", table.get_ref(), &mut found);
    let mut keys = Vec::new();
    for (key, at, value) in found {
        let line = line_of(text, at);
        let set = || {
            let setting = find(&key)?;
            match value? {
                Value::One(text) => setting.set(config, &text),
                Value::List(parts) => setting.give(config, Given::List(&parts)),
            }
        };
        set().map_err(|why| format!("{name}:{line}: {why}"))?;
        keys.push(key);
    }
    Ok(keys)
}

/// Key, where it stands, and the value.
type Found = (String, usize, Result<Value, String>);

/// A value as the file has it.
enum Value {
    One(String),
    List(Vec<String>),
}

fn flatten(prefix: &str, table: &DeTable<'_>, found: &mut Vec<Found>) {
    for (key, value) in table {
        let name = if prefix.is_empty() {
            key.get_ref().to_string()
        } else {
            format!("{prefix}.{}", key.get_ref())
        };
        match value.get_ref() {
            DeValue::Table(inner) => flatten(&name, inner, found),
            other => found.push((name, key.span().start, value_of(other))),
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

fn text_of(value: &DeValue<'_>) -> Result<String, String> {
    match value {
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Integer(number) => Ok(number.as_str().to_owned()),
        DeValue::Float(number) => Ok(number.as_str().to_owned()),
        DeValue::Boolean(flag) => Ok(flag.to_string()),
        DeValue::Datetime(_) | DeValue::Table(_) | DeValue::Array(_) => {
            Err("give a number, a text in quotes, or a list of them".to_owned())
        }
    }
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at.min(text.len())].matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply_text(text: &str) -> Result<Config, String> {
        let mut config = Config::default();
        apply("run.toml", text, &mut config).map(|_| config)
    }

    #[test]
    fn tables_and_dotted_keys_are_the_same() {
        let dotted = apply_text("tiers.dram = '64MiB'\nmodel.hidden = [8, 4]").unwrap();
        let tables = apply_text("[tiers]\ndram = '64MiB'\n[model]\nhidden = [8, 4]").unwrap();
        assert_eq!(dotted, tables);
        assert_eq!(dotted.model.hidden, [8, 4]);
    }

    #[test]
    fn lists_are_taken_as_they_are() {
        let config = apply_text("model.hidden = []\ndata.paths = ['a,b.tsv', 'c.tsv']").unwrap();
        assert!(config.model.hidden.is_empty());
        assert_eq!(config.data.paths, ["a,b.tsv", "c.tsv"]);
        let error = apply_text("seed = [1]").unwrap_err();
        assert_eq!(error, "run.toml:1: seed = [1]: give one value, not a list");
    }

    #[test]
    fn keys_are_told() {
        let mut config = Config::default();
        let text = "seed = 2\n[pipeline]\nhorizon = 3";
        let mut keys = apply("run.toml", text, &mut config).unwrap();
        keys.sort();
        assert_eq!(keys, ["pipeline.horizon", "seed"]);
    }

    #[test]
    fn errors_name_the_line() {
        let error = |text| apply_text(text).unwrap_err();
        assert!(error("seed = 1\n\ntiers.drm = 1").starts_with("run.toml:3: unknown key"));
        assert!(error("[data]\nepochs = 'x'").starts_with("run.toml:2: data.epochs = x"));
        assert!(error("seed = ").starts_with("run.toml:1: "));
    }
}
