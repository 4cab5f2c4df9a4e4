//! Differences between the columns of a checkpoint and of a run, one line per column.

use stepwell_settings::{COLUMN_SETTINGS, ColumnConfig, ColumnType, Config, as_given, expanded};

/// The most columns with a separate line.
const LINES_MAX: usize = 10;
/// The most further columns to name.
const NAMED_MAX: usize = 40;

/// A column that differs.
struct Different {
    name: String,
    how: String,
}

/// Lists new, removed and changed columns.
pub(super) fn column_notes(was: &Config, is: &Config) -> Vec<String> {
    if was.columns.is_empty() != is.columns.is_empty() {
        let (is, was) = if is.columns.is_empty() {
            ("data.preset", "[[columns]]")
        } else {
            ("[[columns]]", "data.preset")
        };
        return vec![format!("columns come from {is}, those of the checkpoint from {was}")];
    }
    let (before, now) = (one_by_one(was), one_by_one(is));
    let other = |column: &ColumnConfig| {
        let known = before.iter().find(|known| known.names == column.names);
        let how = known.map_or_else(|| Some(added(column).to_owned()), |was| changed(was, column));
        how.map(|how| Different { name: column.names.concat(), how })
    };
    let gone = before.iter().filter(|column| now.iter().all(|other| other.names != column.names));
    let gone = gone
        .map(|column| Different { name: column.names.concat(), how: removed(column).to_owned() });
    let mut all: Vec<Different> = now.iter().filter_map(other).chain(gone).collect();
    let more = all.split_off(all.len().min(LINES_MAX));
    let line = |of: &Different| format!("column {}: {}", of.name, of.how);
    let mut notes: Vec<String> = all.iter().map(line).collect();
    if !more.is_empty() {
        let names: Vec<&str> = more.iter().take(NAMED_MAX).map(|of| of.name.as_str()).collect();
        let others = if more.len() > NAMED_MAX { " and others" } else { "" };
        let names = names.join(", ");
        notes.push(format!("and {} more columns differ: {names}{others}", more.len()));
    }
    notes
}

/// The columns that are not ignored, one by one.
fn one_by_one(config: &Config) -> Vec<ColumnConfig> {
    let mut all = Vec::new();
    for column in config.columns.iter().filter(|column| column.kind != ColumnType::Ignored) {
        // Names that can't be expanded were refused earlier.
        for (place, name) in expanded(&column.names).unwrap_or_default().into_iter().enumerate() {
            let of_name = |all: &[f64]| all.get(place).copied().into_iter().collect();
            all.push(ColumnConfig {
                names: vec![name],
                mean: of_name(&column.mean),
                deviation: of_name(&column.deviation),
                ..column.clone()
            });
        }
    }
    all
}

fn added(column: &ColumnConfig) -> &'static str {
    match column.kind {
        ColumnType::Id | ColumnType::Ids => "added; its rows start from initial values",
        ColumnType::Dense => "added; its dense parameters start from initial values",
        ColumnType::Label => "added as a label; its dense parameters start from initial values",
        ColumnType::Weight | ColumnType::Ignored => "added",
    }
}

fn removed(column: &ColumnConfig) -> &'static str {
    match column.kind {
        ColumnType::Id | ColumnType::Ids => "removed; its rows stay in the table until they expire",
        ColumnType::Dense | ColumnType::Label => "removed; its dense parameters are left out",
        ColumnType::Weight | ColumnType::Ignored => "removed",
    }
}

/// Describes how a column's settings changed.
fn changed(was: &ColumnConfig, is: &ColumnConfig) -> Option<String> {
    let shown = |text: Option<String>| match text.as_deref() {
        None => "its default".to_owned(),
        Some("") => "none".to_owned(),
        Some(text) => as_given(text).to_owned(),
    };
    let mut changes = Vec::new();
    for setting in COLUMN_SETTINGS {
        let (before, now) = (setting.kept_in(was), setting.kept_in(is));
        // Changes without effect are not listed.
        let counts = setting.idle_in(was).is_none() || setting.idle_in(is).is_none();
        if before != now && counts {
            changes.push(format!("{} is {}, was {}", setting.key, shown(now), shown(before)));
        }
    }
    (!changes.is_empty()).then(|| changes.join("; "))
}
