//! The settings of named tables and of features.
//!
//! Keys are `tables.NAME.` or `features.N.`, followed by the entry's key. A value that a table
//! leaves out is inherited from a setting for all rows, which the entry names as its default. Some
//! checks, and the list of settings that a resumed run must keep, use a table with all inherited
//! values filled in.

use stepwell_engine::Pooling;

use crate::check::{self, INIT_STD, INIT_VALUE, given, right};
use crate::config::{
    EMBEDDING, FeatureConfig, PlaceKind, TableConfig, check_name, expanded, ranges,
};
use crate::no_effect;
use crate::optimizer::tunings;
use crate::setting::{Kept, Setting, setting};
use crate::setting_types::Typed;

/// All settings of a named table, in the order of the documentation and of digests of jobs.
pub const TABLE_SETTINGS: &[Setting<TableConfig>] = &[
    setting!(
        TableConfig: "dim",
        dim = None,
        Always,
        "lanes of an embedding (0: only first-order weights)"
    )
    .default_name("`model.dim`")
    .check(|table| given(table.dim, |dim| check::at_most(dim, check::DIM_MAX)))
    .idle_run(no_effect::in_lr),
    setting!(
        TableConfig: "optimizer",
        optimizer = None,
        Always,
        "sgd, cf_sgd, momentum, adagrad, row_wise_adagrad, adam, row_wise_adam or ftrl for its \
         rows; or frozen, so that they keep their values"
    )
    .default_name("`optim.rows.kind`"),
    setting!(TableConfig: "lr", lr = None, Always, "learning rate of its rows")
        .default_name("`optim.rows.lr`")
        .check(|table| given(table.lr, check::learning_rate))
        .idle(no_effect::table_of_frozen_rows),
    setting!(TableConfig: "l2", l2 = None, BeyondDefault, tunings::l2.help)
        .default_name("`optim.rows.l2`")
        .check(|table| tunings::l2.check(table.l2)),
    setting!(
        TableConfig: "weight_decay",
        weight_decay = None,
        BeyondDefault,
        tunings::weight_decay.help
    )
    .default_name("`optim.rows.weight_decay`")
    .check(|table| tunings::weight_decay.check(table.weight_decay)),
    setting!(TableConfig: "clip_norm", clip_norm = None, BeyondDefault, tunings::clip_norm.help)
        .default_name("`optim.rows.clip_norm`")
        .check(|table| tunings::clip_norm.check(table.clip_norm)),
    setting!(TableConfig: "max_norm", max_norm = None, BeyondDefault, tunings::max_norm.help)
        .default_name("`optim.rows.max_norm`")
        .check(|table| tunings::max_norm.check(table.max_norm))
        .idle(no_effect::table_without_embeddings)
        .idle_run(no_effect::in_lr),
    setting!(
        TableConfig: "storage",
        storage = None,
        Always,
        "f32, f16 or bf16: format of weights in its rows"
    )
    .default_name("`rows.storage`"),
    setting!(
        TableConfig: "init_range",
        init_range = None,
        Always,
        "its initial embedding weights are uniform in plus or minus this"
    )
    .default_name("`model.init_range`")
    .check(|table| given(table.init_range, check::init_range))
    .idle(no_effect::table_without_embeddings)
    .idle_run(no_effect::in_lr),
    setting!(TableConfig: "init_std", init_std = None, BeyondDefault, INIT_STD)
        .default_name("`model.init_std`")
        .check(|table| given(table.init_std, check::init_range))
        .idle(no_effect::table_without_embeddings)
        .idle_run(no_effect::in_lr),
    setting!(TableConfig: "init_value", init_value = None, BeyondDefault, INIT_VALUE)
        .default_name("`model.init_value`")
        .check(|table| given(table.init_value, check::init_value))
        .idle(no_effect::table_without_embeddings)
        .idle_run(no_effect::in_lr),
    setting!(
        TableConfig: "pretrained",
        pretrained = None,
        BeyondDefault,
        "file of ids and embeddings that rows of a new table begin with (empty: none)"
    )
    .idle(no_effect::table_without_embeddings)
    .idle_run(no_effect::in_lr),
    setting!(
        TableConfig: "admit_after",
        admit_after = None,
        Always,
        "an id gets a row in the mini-batch in which its occurrences reach this (1: the first)"
    )
    .default_name("`rows.admit_after`")
    .check(|table| given(table.admit_after, check::admit_after)),
    setting!(
        TableConfig: "admit_probability",
        admit_probability = None,
        Always,
        "probability that an id gets a row, drawn anew in each mini-batch"
    )
    .default_name("`rows.admit_probability`")
    .check(|table| given(table.admit_probability, check::admit_probability)),
    setting!(
        TableConfig: "expire_after",
        expire_after = None,
        Always,
        "steps without use after which a row expires (0: never)"
    )
    .default_name("`rows.expire_after`"),
    setting!(
        TableConfig: "history",
        history = None,
        Always,
        "true: its rows keep step of last use, examples and importance even if no other setting \
         needs them"
    )
    .default_name("`rows.history`")
    .idle(no_effect::table_with_a_life),
    setting!(
        TableConfig: "sketch",
        sketch = None,
        WhereItCounts,
        "bytes of the sketch that counts ids for its admit_after"
    )
    .default_name("`rows.sketch`")
    .idle(no_effect::table_without_counting),
    setting!(
        TableConfig: "place",
        place = PlaceKind::Tiers,
        Never,
        "tiers, memory or device: where its rows may be. With memory, all of them must fit there; \
         with device, only the most used ones go to devices"
    ),
    setting!(
        TableConfig: "dram",
        dram = None,
        Never,
        "bytes of its rows in memory, with their index and metadata"
    )
    .default_name("a share of `tiers.dram`")
    .check(|table| given(table.dram.map(|bytes| bytes.0), check::positive)),
];

/// All settings of a feature, in the order of the documentation and of digests of jobs.
pub const FEATURE_SETTINGS: &[Setting<FeatureConfig>] = &[
    setting!(
        FeatureConfig: "columns",
        columns = Vec::new(),
        Always,
        "id columns, such as C1,C5-C9; each becomes a feature with these settings"
    )
    .check(|feature| expanded(&feature.columns).map(|_| ()))
    .text(|feature| {
        feature.columns_of().map_or_else(|_| feature.columns.text(), |columns| ranges(&columns))
    }),
    setting!(
        FeatureConfig: "table",
        table = EMBEDDING.to_owned(),
        Always,
        "name of the table they go into"
    )
    .check(|feature| {
        let is_right = check_name(&feature.table).is_ok();
        right(is_right, &feature.table, format_args!("the name of a table"))
    }),
    setting!(
        FeatureConfig: "pooling",
        pooling = Pooling::Sum,
        Always,
        "sum, mean, sqrt_n or none (each row in its own columns, up to ids rows)"
    ),
    setting!(FeatureConfig: "ids", ids = 1, Always, "most ids in a bag")
        .check(|feature| check::within(feature.ids, 1..=check::IDS_MAX)),
    setting!(
        FeatureConfig: "weight",
        weight = None,
        Always,
        "dense column, such as I3, whose value weights the bag (empty: none)"
    )
    .text(|feature| feature.weight.clone().unwrap_or_else(|| "none".to_owned())),
];
