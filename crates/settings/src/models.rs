//! Settings of single models.

use crate::config::Config;
use crate::setting::{Kept, Setting, setting};
use crate::setting_types::Typed;
use crate::{check, no_effect};

pub(crate) const MASK_BLOCKS: Setting =
    setting!("model.mask_blocks", model.mask_blocks = 3, WhereItCounts, "blocks of mask_net")
        .check(|config| check::count(config.model.mask_blocks, check::PARTS_MAX))
        .idle(no_effect::outside_mask_net);

pub(crate) const MASK_DIM: Setting = setting!(
    "model.mask_dim",
    model.mask_dim = 64,
    WhereItCounts,
    "width of each block of mask_net"
)
.check(|config| check::count(config.model.mask_dim, check::WIDTH_MAX))
.idle(no_effect::outside_mask_net);

pub(crate) const MASK_RATIO: Setting = setting!(
    "model.mask_ratio",
    model.mask_ratio = 2.0,
    WhereItCounts,
    "width of the layer below each mask of mask_net, as a multiple of the mask's"
)
.check(|config| check::part(config.model.mask_ratio, check::MASK_RATIO_MAX))
.idle(no_effect::outside_mask_net);

pub(crate) const EXPERTS: Setting = setting!(
    "model.experts",
    model.experts = 4,
    WhereItCounts,
    "experts of mmoe, or experts that all labels share in each level of ple"
)
.check(|config| check::count(config.model.experts, check::PARTS_MAX))
.idle(no_effect::without_experts);

pub(crate) const LABEL_EXPERTS: Setting = setting!(
    "model.label_experts",
    model.label_experts = 2,
    WhereItCounts,
    "experts of each label in each level of ple"
)
.check(|config| check::count(config.model.label_experts, check::PARTS_MAX))
.idle(no_effect::outside_ple);

pub(crate) const LEVELS: Setting =
    setting!("model.levels", model.levels = 2, WhereItCounts, "levels of experts of ple")
        .check(|config| check::count(config.model.levels, check::LEVELS_MAX))
        .idle(no_effect::outside_ple);

pub(crate) const TOWER: Setting = setting!(
    "model.tower",
    model.tower = vec![64],
    WhereItCounts,
    "widths of the hidden layers of each label over the experts of mmoe and ple"
)
.check(|config| check::hidden(&config.model.tower))
.idle(no_effect::without_experts);

pub(crate) const TARGET: Setting = setting!(
    "model.target",
    model.target = Vec::new(),
    WhereItCounts,
    "columns of the item that din scores, such as item,category"
)
.idle(no_effect::outside_din);

pub(crate) const SEQUENCES: Setting = setting!(
    "model.sequences",
    model.sequences = Vec::new(),
    WhereItCounts,
    "columns of the items before it, one for each of model.target, whose features have pooling = \
     none"
)
.idle(no_effect::outside_din);

pub(crate) const ATTENTION: Setting = setting!(
    "model.attention",
    model.attention = 64,
    WhereItCounts,
    "width of the hidden layer of din's attention"
)
.check(|config| check::count(config.model.attention, check::WIDTH_MAX))
.idle(no_effect::outside_din);

pub(crate) const ITEM: Setting = setting!(
    "model.item",
    model.item = Vec::new(),
    WhereItCounts,
    "columns of the items that two_tower ranks, such as item,category; users have the others"
)
.idle(no_effect::outside_two_tower);

pub(crate) const VECTOR: Setting = setting!(
    "model.vector",
    model.vector = 32,
    WhereItCounts,
    "width of two_tower's vectors of users and items"
)
.check(|config| check::count(config.model.vector, check::WIDTH_MAX))
.idle(no_effect::outside_two_tower);

pub(crate) const TEMPERATURE: Setting = setting!(
    "model.temperature",
    model.temperature = 0.1,
    WhereItCounts,
    "divisor of two_tower's scores, which are cosines of its vectors"
)
.check(|config| check::temperature(config.model.temperature))
.idle(no_effect::outside_two_tower);

pub(crate) const LOG_Q: Setting = setting!(
    "model.log_q",
    model.log_q = true,
    WhereItCounts,
    "true: training of two_tower lowers each item's score by the logarithm of its count so far, \
     because frequent items are negatives more often"
)
.idle(no_effect::outside_two_tower);

pub(crate) const BATCH_NORM: Setting = setting!(
    "model.batch_norm",
    model.batch_norm = false,
    BeyondDefault,
    "true: the sums of each hidden layer are normalized over a block of examples, before relu"
)
.idle(no_effect::without_hidden_layers);

pub(crate) const DROPOUT: Setting = setting!(
    "model.dropout",
    model.dropout = 0.0,
    BeyondDefault,
    "share of the values of each hidden layer that training drops"
)
.check(|config| check::dropout(config.model.dropout))
.idle(no_effect::without_hidden_layers);
