//! The page of documentation that lists all settings.

use serde_json::Value;

use crate::all_settings::SETTINGS;
use crate::columns::COLUMN_SETTINGS;
use crate::config::{ColumnConfig, Config, FeatureConfig, LayerConfig, TableConfig};
use crate::layer_settings::LAYER_SETTINGS;
use crate::setting::{Kept, Setting};
use crate::table_settings::{FEATURE_SETTINGS, TABLE_SETTINGS};

const HEAD: &str = "\
# Settings

Every setting has a key. Give it in a file (`dram = \"8GiB\"` under `[tiers]`), by `--set
tiers.dram=8GiB`, or as a flag (`--tiers.dram 8GiB`); flags win over `--set`, which wins over the
file. `stepwell config` lists all settings with this machine's defaults. Bytes may have a unit, and
`none` leaves out a number or a name that may be missing.

A resumed run must keep the settings that affect the bits of the model: those marked *yes* or
*where it counts*, unless they have no effect (those of `dcn` for another model, those of the
built-in stream if there is data). All others may change between runs.

";

const TABLES: &str = "
## Named tables

A named table (1 to 64 ASCII letters, digits, `_` and `-`) has its own settings, under
`[tables.NAME]` in a file. One that is left out takes the value of the setting shown as its default.
[Tables and features](tables.md) has an example.

";

const FEATURES: &str = "
## Features

With features, the model has exactly these, in this order. Each is a `[[features]]` in a file;
elsewhere they are numbered from 1, and the number after the last one adds another.

";

const DATA: &str = "
## Columns of the data

Without columns, the data has those of `data.preset`. Each `[[columns]]` in a file is one column or
several with the same settings; elsewhere they are numbered from 1, and the number after the last
one adds others. [Data](data.md) has examples.

";

const LAYERS: &str = "
## Layers

With `model.kind = graph`, the model has exactly these, in the order in which they are computed. In
a file, each is a `{ ... }` in the list `layers` under `[model]`; elsewhere they are numbered from
1, and the number after the last one adds another. [Models](models.md) has an example.

";

const COLUMNS: &str = "\
| key | type | default | kept | what |
|---|---|---|---|---|
";

/// `docs/settings.md`.
pub fn page() -> String {
    [
        HEAD.to_owned(),
        list("", SETTINGS, &Config::default()),
        TABLES.to_owned(),
        list("tables.NAME.", TABLE_SETTINGS, &TableConfig::default()),
        FEATURES.to_owned(),
        list("features.N.", FEATURE_SETTINGS, &FeatureConfig::default()),
        DATA.to_owned(),
        list("columns.N.", COLUMN_SETTINGS, &ColumnConfig::default()),
        LAYERS.to_owned(),
        list("model.layers.N.", LAYER_SETTINGS, &LayerConfig::default()),
    ]
    .concat()
}

/// Lists settings, one per line.
fn list<T>(prefix: &str, settings: &[Setting<T>], begun: &T) -> String {
    settings.iter().fold(COLUMNS.to_owned(), |page, setting| {
        let Setting { key, help, .. } = setting;
        let kept = match setting.kept {
            Kept::Always => "yes",
            Kept::WhereItCounts => "where it counts",
            Kept::BeyondDefault | Kept::Resumed => "yes",
            Kept::Never => "",
        };
        let (what, begins) = (setting.what(), default_of(setting, begun));
        let cells = [&format!("`{prefix}{key}`"), &what, &begins, kept, help];
        let cells =
            cells.map(|cell| if cell.is_empty() { "|".to_owned() } else { format!("| {cell}") });
        page + &cells.join(" ") + " |\n"
    })
}

/// The default of a setting on the page.
fn default_of<T>(setting: &Setting<T>, begun: &T) -> String {
    match (setting.default_name, default_text(setting, begun)) {
        (Some(name), _) => name.to_owned(),
        (None, shown) if shown.is_empty() => shown,
        (None, shown) => format!("`{shown}`"),
    }
}

/// The default of a setting, taken from `begun`, as a user may write it; empty for none.
pub fn default_text<T>(setting: &Setting<T>, begun: &T) -> String {
    match (setting.default_name, setting.get(begun)) {
        (Some(name), _) => name.replace('`', ""),
        (None, Value::Null) => String::new(),
        (None, Value::String(name)) => name,
        (None, Value::Array(parts)) => {
            parts.iter().map(Value::to_string).collect::<Vec<_>>().join(",")
        }
        (None, Value::Number(bytes)) if setting.what() == "bytes" => unit(&bytes.to_string()),
        (None, other) => other.to_string(),
    }
}

/// A number of bytes with the largest unit that keeps it exact.
fn unit(bytes: &str) -> String {
    let number: u64 = bytes.parse().unwrap_or_default();
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let fits = units.iter().find(|(_, bits)| number > 0 && number.is_multiple_of(1 << bits));
    fits.map_or_else(|| bytes.to_owned(), |(name, bits)| format!("{}{name}", number >> bits))
}
