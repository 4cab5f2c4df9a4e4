//! The table of all settings.

use stepwell_base::ByteCount;
use stepwell_data::SynthOptions;
use stepwell_mem::PolicyKind;
use stepwell_nn::Precision;
use stepwell_optim::Storage;

use crate::check::{self, INIT_STD, INIT_VALUE, right};
use crate::config::{
    BestKind, Config, ExchangeKind, ModelKind, OptimizerKind, RowOptimizerKind, ScheduleKind,
};
use crate::optimizer::of_optimizer;
use crate::schedule::of_schedule;
use crate::setting::{Kept, Setting, setting};
use crate::setting_types::Typed;
use crate::{devices, files, models, no_effect, objective, sync, tiers};

/// All settings, in the order of the documentation.
///
/// The order must not change: digests of jobs cover the kept settings in this order, except for a
/// few ([`model_settings`](crate::model_settings)).
pub const SETTINGS: &[Setting] = &[
    setting!("seed", seed = 1, Always, "seed of all initial values and of the built-in stream"),
    setting!("threads", threads = check::cores(), Never, "compute threads; I/O threads are extra")
        .default_name("all cores")
        .check(|config| check::within(config.threads, 1..=check::THREADS_MAX)),
    tiers::MEMORY,
    devices::DEVICE,
    setting!(
        "ranks.count",
        ranks.count = 1,
        Never,
        "`ranks` for short: number of ranks that train one model, each with its own `threads` and \
         `tiers`; at most `train.blocks`, plus one server for some `sync.dense`; in step, it does \
         not change the model"
    )
    .short("ranks")
    .check(|config| check::within(config.ranks.count, 1..=check::RANKS_MAX)),
    setting!(
        "ranks.exchange",
        ranks.exchange = ExchangeKind::Owner,
        Never,
        "owner: rows are exchanged in every mini-batch; working_set: a row that only one rank \
         needs in several mini-batches of a batch is lent to it for that batch"
    )
    .idle(no_effect::in_one_mini_batch),
    setting!(
        "ranks.timeout",
        ranks.timeout = 60.0,
        Never,
        "seconds of silence after which a rank in another process is given up"
    )
    .check(|config| {
        let (seconds, most) = (config.ranks.timeout, check::TIMEOUT_MAX);
        check::within(seconds, check::TIMEOUT_MIN..=most)
    }),
    sync::DENSE,
    sync::ROWS,
    sync::STALENESS,
    sync::PROBES,
    sync::AGE,
    setting!(
        "data.paths",
        data.paths = Vec::new(),
        Never,
        "files or globs of training data (empty: the built-in stream)"
    ),
    setting!("data.epochs", data.epochs = 1, Never, "passes over the training part")
        .check(|config| check::positive(config.data.epochs)),
    setting!("data.mini_batch", data.mini_batch = 4096, Always, "examples per step")
        .check(|config| check::count(config.data.mini_batch, check::MINI_BATCH_MAX)),
    setting!(
        "data.batch",
        data.batch = 0,
        Never,
        "examples planned and pulled at once, a multiple of data.mini_batch (0: one mini-batch)"
    ),
    setting!(
        "data.shuffle",
        data.shuffle = 0,
        BeyondDefault,
        "examples of a window, which is shuffled in memory by seed (0: the order of the data)"
    )
    .check(|config| check::within(config.data.shuffle, 0..=check::SHUFFLE_MAX)),
    setting!(
        "data.streams",
        data.streams = 1,
        BeyondDefault,
        "parts of the data read in parallel, each for its part of every mini-batch"
    )
    .check(|config| check::count(config.data.streams, check::BLOCKS_MAX)),
    setting!(
        "data.eval_paths",
        data.eval_paths = Vec::new(),
        Never,
        "files or globs to evaluate on (empty: the tail of the data)"
    ),
    setting!(
        "data.eval_fraction",
        data.eval_fraction = 0.1,
        Always,
        "share of the data for evaluation: of n lines, the last round(n times this), halves \
         rounded up"
    )
    .check(|config| {
        let share = config.data.eval_fraction;
        let give = format_args!("a share from 0 up to, not including, 1");
        right((0.0..1.0).contains(&share), share, give)
    })
    .idle(no_effect::with_eval_paths),
    objective::CLASS_WEIGHT,
    objective::NEGATIVE_RATE,
    setting!(
        "data.skip_max",
        data.skip_max = 0,
        Never,
        "malformed lines to skip; one more, or a line over 256 KiB, stops the run"
    )
    .idle(no_effect::on_the_stream),
    setting!(
        "data.cache",
        data.cache = None,
        Never,
        "packed file that an epoch makes from text, for later epochs and runs to read (empty: none)"
    ),
    files::PRESET,
    files::FORMAT,
    files::HEADER,
    files::SEPARATOR,
    files::TRIM,
    files::MISSING,
    files::LABELS,
    files::EVAL_COLUMN,
    files::EVAL_VALUES,
    files::EVAL_FROM,
    setting!(
        "synth.examples",
        synth.examples = SynthOptions::EXAMPLES,
        WhereItCounts,
        "examples of the built-in stream"
    )
    .idle(no_effect::on_data),
    setting!(
        "synth.vocab_scale",
        synth.vocab_scale = SynthOptions::VOCAB_SCALE,
        WhereItCounts,
        "vocabulary of the built-in stream, as a multiple of a real sample's"
    )
    .check(|config| check::part(config.synth.vocab_scale, check::VOCAB_SCALE_MAX))
    .idle(no_effect::on_data),
    setting!(
        "model.kind",
        model.kind = ModelKind::DeepFm,
        Always,
        "lr, fm, wide_deep, deepfm, dcn, dcn_v1, dlrm, final_mlp, mask_net, mmoe, ple, din, \
         two_tower or graph"
    ),
    setting!("model.dim", model.dim = 16, Always, "lanes of an embedding")
        .check(|config| check::count(config.model.dim, check::DIM_MAX))
        .idle(no_effect::in_lr),
    setting!(
        "model.hidden",
        model.hidden = vec![512, 256, 128],
        Always,
        "widths of the hidden layers, such as 512,256,128"
    )
    .check(|config| check::hidden(&config.model.hidden))
    .idle(no_effect::without_hidden_layers),
    setting!(
        "model.second",
        model.second = vec![512, 256, 128],
        WhereItCounts,
        "widths of the hidden layers of final_mlp's second stream"
    )
    .check(|config| check::hidden(&config.model.second))
    .idle(no_effect::outside_final_mlp),
    setting!(
        "model.cross_layers",
        model.cross_layers = 3,
        WhereItCounts,
        "cross layers of dcn and dcn_v1"
    )
    .check(|config| check::within(config.model.cross_layers, 1..=check::CROSS_LAYERS_MAX))
    .idle(no_effect::outside_dcn),
    setting!(
        "model.bottom",
        model.bottom = vec![512, 256],
        WhereItCounts,
        "widths of dlrm's layers over dense features; a layer of model.dim follows them"
    )
    .check(|config| check::bottom(&config.model.bottom))
    .idle(no_effect::outside_dlrm),
    models::MASK_BLOCKS,
    models::MASK_DIM,
    models::MASK_RATIO,
    models::EXPERTS,
    models::LABEL_EXPERTS,
    models::LEVELS,
    models::TOWER,
    models::TARGET,
    models::SEQUENCES,
    models::ATTENTION,
    models::ITEM,
    models::VECTOR,
    models::TEMPERATURE,
    models::LOG_Q,
    models::BATCH_NORM,
    models::DROPOUT,
    setting!(
        "model.init_range",
        model.init_range = 0.01,
        Always,
        "initial embedding weights are uniform in plus or minus this"
    )
    .check(|config| check::init_range(config.model.init_range))
    .idle(no_effect::for_initial_range),
    setting!("model.init_std", model.init_std = None, BeyondDefault, INIT_STD)
        .default_name("none: weights are uniform")
        .check(|config| check::given(config.model.init_std, check::init_range))
        .idle(no_effect::in_lr),
    setting!("model.init_value", model.init_value = None, BeyondDefault, INIT_VALUE)
        .default_name("none: weights are uniform")
        .check(|config| check::given(config.model.init_value, check::init_value))
        .idle(no_effect::in_lr),
    setting!(
        "model.precision",
        model.precision = Precision::F32,
        Always,
        "f32, or bf16: operands of matrix products are rounded to it, sums stay f32"
    ),
    setting!(
        "train.blocks",
        train.blocks = 8,
        Always,
        "blocks of a mini-batch, the unit of summation and of batch normalization"
    )
    .check(|config| check::count(config.train.blocks, check::BLOCKS_MAX)),
    setting!(
        "train.evaluate_every",
        train.evaluate_every = 0,
        Never,
        "steps between evaluations within an epoch (0: only after each epoch)"
    )
    .idle(no_effect::without_evaluation),
    setting!(
        "train.patience",
        train.patience = 0,
        Never,
        "evaluations in a row that may be no better than the best one before training ends early; \
         better by checkpoint.best, or by log loss if that is none (0: training never ends early)"
    )
    .idle(no_effect::without_evaluation),
    objective::LABEL_SMOOTHING,
    objective::FOCAL_GAMMA,
    devices::DENSE,
    devices::HBM,
    devices::LOOKUP,
    devices::WARM_UP,
    tiers::DRAM,
    setting!(
        "tiers.ssd",
        tiers.ssd = None,
        Never,
        "directory of all stores (empty: a temporary one)"
    ),
    tiers::INDEX,
    tiers::SEGMENT,
    setting!(
        "tiers.page_cache",
        tiers.page_cache = ByteCount(4 << 30),
        Never,
        "bytes of segment files that use the system's page cache; the rest bypasses it"
    ),
    tiers::HARVEST,
    setting!(
        "tiers.read_unit",
        tiers.read_unit = ByteCount(8 << 10),
        Never,
        "most bytes read around a row as long as that harvests other rows, rounded down to a power \
         of two of pages; at most 128KiB (0: only the row's own page)"
    )
    .check(|config| {
        let (unit, most) = (config.tiers.read_unit, ByteCount(128 << 10));
        right(unit <= most, unit, format_args!("at most {most}"))
    }),
    setting!(
        "tiers.policy",
        tiers.policy = PolicyKind::default(),
        Never,
        "which rows are evicted from memory first: s3-fifo, lru-lfu or sven"
    ),
    setting!(
        "tiers.space",
        tiers.space = 1.5,
        Never,
        "limit on the store's space after a commit, as a multiple of its rows' space"
    ),
    setting!(
        "pipeline.lookahead",
        pipeline.lookahead = 2,
        Never,
        "batches whose rows are held beyond the one in training (0: one at a time, no overlap)"
    )
    .check(|config| {
        let (lookahead, most) = (config.pipeline.lookahead, check::MINI_BATCHES_KNOWN_MAX);
        let give = format_args!("less than {most}, as for pipeline.horizon");
        right(lookahead < most, lookahead, give)
    }),
    setting!(
        "pipeline.horizon",
        pipeline.horizon = 64,
        Never,
        "batches whose keys are known ahead; if not given, 64 mini-batches in whole batches, at \
         least twice pipeline.lookahead"
    ),
    setting!(
        "pipeline.staleness",
        pipeline.staleness = 0,
        Always,
        "steps whose updates a read of rows misses: step t reads rows as they are after step t - 1 \
         - this"
    )
    .check(|config| check::at_most(config.pipeline.staleness, check::STALENESS_MAX)),
    setting!(
        "rows.admit_after",
        rows.admit_after = 1,
        Always,
        "an id gets a row in the mini-batch in which its occurrences reach this (1: the first)"
    )
    .check(|config| check::admit_after(config.rows.admit_after)),
    setting!(
        "rows.admit_probability",
        rows.admit_probability = 1.0,
        Always,
        "probability that an id gets a row, drawn anew in each mini-batch"
    )
    .check(|config| check::admit_probability(config.rows.admit_probability)),
    setting!(
        "rows.expire_after",
        rows.expire_after = 0,
        Always,
        "steps without use after which a row expires (0: never)"
    ),
    setting!(
        "rows.history",
        rows.history = false,
        Always,
        "true: rows keep step of last use, examples and importance even if no other setting needs \
         them"
    )
    .idle(no_effect::with_a_life),
    setting!(
        "rows.sketch",
        rows.sketch = ByteCount(4 << 20),
        WhereItCounts,
        "bytes of the sketch that counts ids for rows.admit_after; at 8 bytes per id, one in forty \
         is admitted early"
    )
    .idle(no_effect::without_counting),
    setting!(
        "rows.storage",
        rows.storage = Storage::F32,
        Always,
        "f32, f16 or bf16: format of weights in rows; 16-bit weights are rounded stochastically"
    ),
    setting!(
        "optim.rows.kind",
        optim.rows.kind = RowOptimizerKind::Adagrad,
        Always,
        "sgd, cf_sgd, momentum, adagrad, row_wise_adagrad, adam, row_wise_adam or ftrl for rows; \
         or frozen, so that they keep their values"
    ),
    setting!("optim.rows.lr", optim.rows.lr = None, Always, "learning rate of rows")
        .default_name("0.02; for lr and fm by the number of ids")
        .text(|config| config.row_rate().text())
        .check(|config| check::learning_rate(config.row_rate())),
    of_optimizer!("optim.rows.eps", optim.rows.eps),
    of_optimizer!("optim.rows.initial", optim.rows.initial),
    of_optimizer!("optim.rows.beta1", optim.rows.beta1),
    of_optimizer!("optim.rows.beta2", optim.rows.beta2),
    of_optimizer!("optim.rows.momentum", optim.rows.momentum),
    of_optimizer!("optim.rows.beta", optim.rows.beta),
    of_optimizer!("optim.rows.l1", optim.rows.l1),
    of_optimizer!("optim.rows.l2", optim.rows.l2),
    of_optimizer!("optim.rows.weight_decay", optim.rows.weight_decay),
    of_optimizer!("optim.rows.clip_norm", optim.rows.clip_norm),
    of_optimizer!("optim.rows.max_norm", optim.rows.max_norm),
    of_schedule!("optim.rows.schedule", optim.rows.schedule),
    of_schedule!("optim.rows.warmup_steps", optim.rows.warmup_steps),
    of_schedule!("optim.rows.decay_steps", optim.rows.decay_steps),
    of_schedule!("optim.rows.decay_factor", optim.rows.decay_factor),
    of_schedule!("optim.rows.plateau_patience", optim.rows.plateau_patience),
    setting!(
        "optim.dense.kind",
        optim.dense.kind = OptimizerKind::Adam,
        Always,
        "sgd, momentum, adagrad or adam for dense parameters"
    ),
    setting!("optim.dense.lr", optim.dense.lr = None, Always, "learning rate of dense parameters")
        .default_name("0.001; 0.01 for lr, 0.005 for fm")
        .text(|config| config.dense_rate().text())
        .check(|config| check::learning_rate(config.dense_rate())),
    of_optimizer!("optim.dense.eps", optim.dense.eps),
    of_optimizer!("optim.dense.initial", optim.dense.initial),
    of_optimizer!("optim.dense.beta1", optim.dense.beta1),
    of_optimizer!("optim.dense.beta2", optim.dense.beta2),
    of_optimizer!("optim.dense.momentum", optim.dense.momentum),
    of_optimizer!("optim.dense.l2", optim.dense.l2),
    of_optimizer!("optim.dense.weight_decay", optim.dense.weight_decay),
    of_optimizer!("optim.dense.clip_norm", optim.dense.clip_norm),
    of_optimizer!("optim.dense.ema", optim.dense.ema),
    of_schedule!("optim.dense.schedule", optim.dense.schedule),
    of_schedule!("optim.dense.warmup_steps", optim.dense.warmup_steps),
    of_schedule!("optim.dense.decay_steps", optim.dense.decay_steps),
    of_schedule!("optim.dense.decay_factor", optim.dense.decay_factor),
    of_schedule!("optim.dense.plateau_patience", optim.dense.plateau_patience),
    setting!(
        "checkpoint.dir",
        checkpoint.dir = None,
        Never,
        "directory of checkpoints (empty: none)"
    ),
    setting!(
        "checkpoint.every",
        checkpoint.every = 0,
        Never,
        "steps between checkpoints (0: off); the end of the run writes one, too"
    )
    .idle(no_effect::without_checkpoints),
    setting!(
        "checkpoint.minutes",
        checkpoint.minutes = 10.0,
        Never,
        "minutes between checkpoints, if there is a directory for them (0: off)"
    )
    .check(|config| {
        let (minutes, most) = (config.checkpoint.minutes, check::MINUTES_MAX);
        let give = format_args!("a number from 0 (off) to {most}");
        right((0.0..=most).contains(&minutes), minutes, give)
    })
    .idle(no_effect::without_checkpoints),
    setting!(
        "checkpoint.initial",
        checkpoint.initial = false,
        Never,
        "true: a checkpoint is also written before the first step"
    )
    .idle(no_effect::without_checkpoints),
    setting!(
        "checkpoint.keep",
        checkpoint.keep = 2,
        Never,
        "number of this run's checkpoints to keep"
    )
    .check(|config| check::positive(config.checkpoint.keep))
    .idle(no_effect::without_checkpoints),
    setting!(
        "checkpoint.best",
        checkpoint.best = BestKind::None,
        Never,
        "none, logloss or auc: the best evaluated checkpoint is kept, too; `eval` and `predict` \
         use it"
    )
    .idle(no_effect::without_best),
];
