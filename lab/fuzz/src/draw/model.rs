//! Random settings that affect the bits of the model.

use std::ops::RangeInclusive;

use super::graph;
use crate::dice::Dice;

/// All kinds of models; the last one needs lists.
pub(crate) const KINDS: [&str; 14] = [
    "lr",
    "fm",
    "wide_deep",
    "deepfm",
    "dcn",
    "dlrm",
    "final_mlp",
    "dcn_v1",
    "mask_net",
    "mmoe",
    "ple",
    "graph",
    "two_tower",
    DIN,
];
const DIN: &str = "din";
/// Kinds for data without lists.
const PLAIN_KINDS: usize = KINDS.len() - 1;
/// All storage formats of weights.
pub(crate) const STORAGES: [&str; 3] = ["f32", "f16", "bf16"];
/// All optimizers of rows, with learning rates that don't diverge; dense parameters have the first
/// [`DENSE`] of them.
const OPTIMIZERS: [(&str, [&str; 2]); 8] = [
    ("sgd", ["0.01", "0.001"]),
    ("momentum", ["0.001", "0.0001"]),
    ("adagrad", ["0.05", "0.01"]),
    ("adam", ["0.005", "0.0005"]),
    ("row_wise_adagrad", ["0.05", "0.01"]),
    ("row_wise_adam", ["0.005", "0.0005"]),
    ("ftrl", ["0.05", "0.01"]),
    ("cf_sgd", ["0.1", "0.01"]),
];
const DENSE: usize = 4;
const NEGATIVE_RATE: &str = "data.negative_rate";
/// What training emphasizes.
const EMPHASES: [(&str, [&str; 2]); 3] = [
    ("data.class_weight", ["0.5", "20"]),
    ("train.label_smoothing", ["0.05", "0.5"]),
    ("train.focal_gamma", ["0.5", "2"]),
];

/// Settings by key, with values as TOML, in the order of output.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Model(pub(crate) Vec<(&'static str, String)>);

impl Model {
    /// Draws a model for mini-batches of `mini_batch` examples, perhaps of data `with_lists`.
    pub(crate) fn draw(dice: &mut Dice, mini_batch: u64, with_lists: bool) -> Self {
        // Sometimes wide enough that the memory plan exceeds what every process takes.
        let (dim, width) = if dice.chance(6) { (160, 300) } else { (20, 40) };
        let kind = match with_lists && dice.chance(60) {
            true => DIN,
            false => dice.pick(&KINDS[..PLAIN_KINDS]),
        };
        let mut settings = vec![
            ("seed", dice.below(1 << 40).to_string()),
            ("data.mini_batch", mini_batch.to_string()),
            ("model.kind", quoted(kind)),
            ("model.dim", dice.magnitude(1, dim).to_string()),
            ("model.hidden", widths(dice, 0..=3, width)),
            ("model.second", widths(dice, 0..=2, width)),
            ("model.cross_layers", dice.within(1, 3).to_string()),
            ("model.bottom", widths(dice, 1..=2, width)),
            ("model.mask_blocks", dice.within(1, 3).to_string()),
            ("model.mask_dim", dice.magnitude(1, width).to_string()),
            ("model.experts", dice.within(1, 3).to_string()),
            ("model.label_experts", dice.within(1, 2).to_string()),
            ("model.levels", dice.within(1, 2).to_string()),
            ("model.tower", widths(dice, 0..=1, width)),
            ("model.init_range", dice.pick(&["0.01", "0.1", "0"]).to_owned()),
            ("model.precision", quoted(dice.pick(&["f32", "f32", "bf16"]))),
            ("train.blocks", dice.magnitude(1, 20).to_string()),
            ("rows.storage", quoted(dice.pick(&["f32", "f32", "f16", "bf16"]))),
        ];
        optimizer(dice, &OF_ROWS, &OPTIMIZERS, &mut settings);
        optimizer(dice, &OF_DENSE, &OPTIMIZERS[..DENSE], &mut settings);
        if dice.chance(25) {
            settings.push(("pipeline.staleness", dice.magnitude(1, 9).to_string()));
        }
        if dice.chance(15) {
            settings.push(("model.dropout", dice.pick(&["0.1", "0.6"]).to_owned()));
        }
        if dice.chance(15) {
            settings.push(("model.batch_norm", "true".to_owned()));
        }
        for (key, values) in EMPHASES {
            if dice.chance(10) {
                settings.push((key, dice.pick(&values).to_owned()));
            }
        }
        if dice.chance(15) {
            settings.push(("optim.dense.ema", dice.pick(&["0.5", "0.999"]).to_owned()));
        }
        if dice.chance(15) {
            settings.push(("optim.rows.max_norm", dice.pick(&["0.05", "1"]).to_owned()));
        }
        match kind {
            "graph" => settings.push(("model.layers", graph::draw(dice, width))),
            "two_tower" => towers(dice, &mut settings),
            _ if dice.chance(10) => {
                settings.push((NEGATIVE_RATE, dice.pick(&["0.1", "0.5"]).to_owned()));
            }
            _ => {}
        }
        life(dice, &mut settings);
        if with_lists {
            lists(dice, kind, &mut settings);
        } else if kind != "two_tower" && dice.chance(40) {
            // Each tower needs some columns.
            tables(dice, dim, &mut settings);
        }
        Self(settings)
    }

    /// Whether training leaves out some examples.
    pub(crate) fn leaves_out(&self) -> bool {
        self.get("model.kind") == "two_tower" || self.draws_by_file()
    }

    /// Whether the examples that are left out depend on the cut of the data into files.
    pub(crate) fn draws_by_file(&self) -> bool {
        !self.get(NEGATIVE_RATE).is_empty()
    }

    /// Whether a learning rate depends on evaluations.
    pub(crate) fn falls_at_plateaus(&self) -> bool {
        ["optim.rows.schedule", "optim.dense.schedule"].iter().any(|key| self.get(key) == "plateau")
    }

    /// Value of a setting, without quotes; empty for the default.
    pub(crate) fn get(&self, key: &str) -> &str {
        let found = self.0.iter().find(|(known, _)| *known == key);
        found.map_or("", |(_, value)| value.trim_matches('"'))
    }
}

/// Keys of an optimizer.
struct Keys {
    kind: &'static str,
    lr: &'static str,
    l2: &'static str,
    weight_decay: &'static str,
    clip_norm: &'static str,
    schedule: &'static str,
    decay_steps: &'static str,
    warmup_steps: &'static str,
    plateau_patience: &'static str,
}

macro_rules! keys {
    ($part:literal) => {
        Keys {
            kind: concat!($part, ".kind"),
            lr: concat!($part, ".lr"),
            l2: concat!($part, ".l2"),
            weight_decay: concat!($part, ".weight_decay"),
            clip_norm: concat!($part, ".clip_norm"),
            schedule: concat!($part, ".schedule"),
            decay_steps: concat!($part, ".decay_steps"),
            warmup_steps: concat!($part, ".warmup_steps"),
            plateau_patience: concat!($part, ".plateau_patience"),
        }
    };
}

const OF_ROWS: Keys = keys!("optim.rows");
const OF_DENSE: Keys = keys!("optim.dense");

/// Draws one of `optimizers`, mostly with a rate; sometimes with a penalty, a bound of gradients or
/// a schedule.
fn optimizer(
    dice: &mut Dice,
    keys: &Keys,
    optimizers: &[(&'static str, [&'static str; 2])],
    settings: &mut Vec<(&'static str, String)>,
) {
    let (kind, rates) = dice.pick(optimizers);
    settings.push((keys.kind, quoted(kind)));
    // The rates that models have by themselves are meant for these.
    if !(["adagrad", "adam"].contains(&kind) && dice.chance(15)) {
        settings.push((keys.lr, dice.pick(&rates).to_owned()));
    }
    if dice.chance(20) {
        settings.push((keys.l2, dice.pick(&["0.001", "0.1"]).to_owned()));
    }
    if dice.chance(20) {
        settings.push((keys.weight_decay, dice.pick(&["0.01", "1"]).to_owned()));
    }
    if dice.chance(20) {
        settings.push((keys.clip_norm, dice.pick(&["0.01", "1"]).to_owned()));
    }
    if dice.chance(20) {
        let schedules = ["linear", "cosine", "step", "inverse_sqrt"];
        settings.push((keys.schedule, quoted(dice.pick(&schedules))));
        settings.push((keys.decay_steps, dice.magnitude(1, 100).to_string()));
        settings.push((keys.warmup_steps, dice.below(10).to_string()));
    } else if dice.chance(8) {
        settings.push((keys.schedule, quoted("plateau")));
        settings.push((keys.plateau_patience, dice.within(1, 2).to_string()));
    }
}

/// Draws the life of rows; usually from their first use, without expiry.
fn life(dice: &mut Dice, settings: &mut Vec<(&'static str, String)>) {
    match dice.below(5) {
        0 => {
            settings.push(("rows.admit_after", dice.within(2, 4).to_string()));
            settings.push(("rows.sketch", dice.pick(&["64", "4096", "\"1MiB\""]).to_owned()));
        }
        1 => settings.push(("rows.admit_probability", dice.pick(&["0.1", "0.6"]).to_owned())),
        _ => {}
    }
    if dice.chance(25) {
        settings.push(("rows.expire_after", dice.magnitude(1, 40).to_string()));
    }
    if dice.chance(10) {
        settings.push(("rows.history", "true".to_owned()));
    }
}

/// Draws the towers of `two_tower`.
fn towers(dice: &mut Dice, settings: &mut Vec<(&'static str, String)>) {
    let first = dice.within(1, COLUMNS);
    let last = (first + dice.magnitude(0, 6)).min(COLUMNS);
    let mut items: Vec<String> = (first..=last).map(|id| format!("\"C{id}\"")).collect();
    if dice.chance(20) {
        items.push("\"I3\"".to_owned());
    }
    settings.push(("model.item", format!("[{}]", items.join(", "))));
    settings.push(("model.vector", dice.magnitude(1, 12).to_string()));
    settings.push(("model.temperature", dice.pick(&["0.1", "1"]).to_owned()));
    settings.push(("model.log_q", dice.pick(&["true", "true", "false"]).to_owned()));
}

/// Draws columns with a list, and features that read it: `din` as a sequence of its target, others
/// in any way.
fn lists(dice: &mut Dice, kind: &str, settings: &mut Vec<(&'static str, String)>) {
    let last = dice.within(2, 12);
    let bins = dice.pick(&[1, 5, 300, 1_u64 << 40]);
    settings.push((
        "columns",
        format!(
            "[{{ names = [\"label\"], type = \"label\" }}, \
             {{ names = [\"I1-I13\"], type = \"dense\", transform = \"log1p\" }}, \
             {{ names = [\"C1-C26\"] }}, \
             {{ names = [\"list\"], type = \"ids\", of = [\"C2-C{last}\"], ids = 12, \
             bins = {bins}, namespace = \"C1\" }}]"
        ),
    ));
    let pooling = match kind {
        DIN => "none",
        _ => dice.pick(&["sum", "mean", "sqrt_n", "none"]),
    };
    settings.push((
        "features",
        format!(
            "[{{ columns = [\"C1-C26\"] }}, \
             {{ columns = [\"list\"], pooling = \"{pooling}\", ids = {} }}]",
            dice.within(last - 1, 12)
        ),
    ));
    if kind == DIN {
        settings.push(("model.target", "[\"C1\"]".to_owned()));
        settings.push(("model.sequences", "[\"list\"]".to_owned()));
        settings.push(("model.attention", dice.magnitude(1, 20).to_string()));
    }
}

/// Setting keys of each table.
const TABLES: [[&str; 5]; 3] = [
    [
        "tables.a.dim",
        "tables.a.optimizer",
        "tables.a.lr",
        "tables.a.storage",
        "tables.a.expire_after",
    ],
    [
        "tables.b.dim",
        "tables.b.optimizer",
        "tables.b.lr",
        "tables.b.storage",
        "tables.b.expire_after",
    ],
    [
        "tables.c.dim",
        "tables.c.optimizer",
        "tables.c.lr",
        "tables.c.storage",
        "tables.c.expire_after",
    ],
];
/// Names of the tables.
const NAMES: [&str; 4] = ["a", "b", "c", "embedding"];
/// Id columns.
const COLUMNS: u64 = 26;

/// Draws several tables, sometimes alike, so that they share a store, and features of some columns.
fn tables(dice: &mut Dice, dim: u64, settings: &mut Vec<(&'static str, String)>) {
    let count = dice.within(1, TABLES.len() as u64) as usize;
    let mut alike = dice.magnitude(1, dim);
    for keys in &TABLES[..count] {
        if dice.chance(40) {
            alike = dice.magnitude(1, dim);
        }
        settings.push((keys[0], alike.to_string()));
        if dice.chance(40) {
            let (kind, rates) = dice.pick(&OPTIMIZERS);
            settings.push((keys[1], quoted(kind)));
            settings.push((keys[2], dice.pick(&rates).to_owned()));
        }
        if dice.chance(20) {
            settings.push((keys[3], quoted(dice.pick(&STORAGES))));
        }
        if dice.chance(20) {
            settings.push((keys[4], dice.magnitude(1, 40).to_string()));
        }
    }
    // Each table has adjacent columns, and shares the last one with the next table.
    let (mut features, mut first) = (Vec::new(), dice.within(1, 4));
    for name in NAMES[..count].iter().chain(dice.chance(50).then_some(&NAMES[3])) {
        let last = (first + dice.magnitude(0, 8)).min(COLUMNS);
        features.push(feature(dice, name, first, last));
        first = last;
    }
    settings.push(("features", format!("[{}]", features.join(", "))));
}

/// A feature as an inline TOML table.
fn feature(dice: &mut Dice, table: &str, first: u64, last: u64) -> String {
    let pooling = dice.pick(&["sum", "sum", "mean", "sqrt_n", "none"]);
    let ids = dice.pick(&["1", "1", "3"]);
    let weight = match dice.chance(20) {
        true => format!(", weight = \"I{}\"", dice.within(1, 13)),
        false => String::new(),
    };
    format!(
        "{{ columns = [\"C{first}-C{last}\"], table = \"{table}\", pooling = \"{pooling}\", \
         ids = {ids}{weight} }}"
    )
}

/// A list of widths of up to `width`; `counts` bounds their number.
fn widths(dice: &mut Dice, counts: RangeInclusive<u64>, width: u64) -> String {
    let count = dice.within(*counts.start(), *counts.end());
    let widths = (0..count).map(|_| dice.magnitude(1, width).to_string()).collect::<Vec<_>>();
    format!("[{}]", widths.join(", "))
}

fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}
