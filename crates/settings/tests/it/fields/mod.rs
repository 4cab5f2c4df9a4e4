//! All fields of a configuration.

use serde_json::{Value, json};
use stepwell_settings::{
    CheckpointConfig, ColumnConfig, Config, DataConfig, FeatureConfig, LayerConfig, ModelConfig,
    OptimConfig, OptimizerConfig, PipelineConfig, RanksConfig, RowOptimizerConfig, RowsConfig,
    SyncConfig, SynthConfig, TableConfig, TierConfig, TrainConfig,
};

/// All fields of a configuration. A new field does not compile until it is added here, and then
/// the table must have it, too.
pub(crate) fn fields(config: &Config) -> Vec<(&'static str, Value)> {
    let Config {
        seed,
        threads,
        memory,
        device,
        ranks: RanksConfig { count, exchange, timeout },
        sync: SyncConfig { dense: protocol, rows: old, staleness: missed, probes, age },
        data,
        synth: SynthConfig { examples, vocab_scale },
        columns,
        model,
        train,
        tables,
        features,
        tiers,
        pipeline: PipelineConfig { lookahead, horizon, staleness },
        rows,
        optim: OptimConfig { rows: of_rows, dense: of_dense },
        checkpoint,
    } = config;
    let TrainConfig { blocks, dense, evaluate_every, label_smoothing, focal_gamma, patience } =
        train;
    let parts = tables.is_empty() && features.is_empty() && columns.is_empty();
    assert!(parts, "they have lists of their own");
    let own = [
        ("seed", json!(seed)),
        ("threads", json!(threads)),
        ("memory", json!(memory.map(|bytes| bytes.0))),
        ("device", json!(device.to_string())),
        ("train.dense", json!(dense.name())),
        ("ranks.count", json!(count)),
        ("ranks.exchange", json!(exchange.name())),
        ("ranks.timeout", json!(timeout)),
        ("sync.dense", json!(protocol.name())),
        ("sync.rows", json!(old.name())),
        ("sync.staleness", json!(missed)),
        ("sync.probes", json!(probes)),
        ("sync.age", json!(age)),
        ("synth.examples", json!(examples)),
        ("synth.vocab_scale", json!(vocab_scale)),
        ("pipeline.lookahead", json!(lookahead)),
        ("pipeline.horizon", json!(horizon)),
        ("pipeline.staleness", json!(staleness)),
        ("train.blocks", json!(blocks)),
        ("train.evaluate_every", json!(evaluate_every)),
        ("train.patience", json!(patience)),
        ("train.label_smoothing", json!(label_smoothing)),
        ("train.focal_gamma", json!(focal_gamma)),
    ];
    let of_rows = of_row_optimizer(of_rows);
    let of_dense = of_optimizer(of_dense);
    let parts = [of_data(data), of_model(model), of_tiers(tiers), of_life(rows), of_rows, of_dense];
    own.into_iter().chain(parts.concat()).chain(of_checkpoint(checkpoint)).collect()
}

fn of_row_optimizer(optimizer: &RowOptimizerConfig) -> Vec<(&'static str, Value)> {
    let RowOptimizerConfig { kind, lr, eps, initial, beta1, beta2, .. } = optimizer;
    let RowOptimizerConfig { momentum, beta, l1, l2, weight_decay, clip_norm, .. } = optimizer;
    let RowOptimizerConfig { max_norm, ema: None, plateau_patience, .. } = optimizer else {
        panic!("only dense parameters are averaged")
    };
    let RowOptimizerConfig { schedule, warmup_steps, decay_steps, decay_factor, .. } = optimizer;
    vec![
        ("optim.rows.kind", json!(kind.name())),
        ("optim.rows.lr", json!(lr)),
        ("optim.rows.eps", json!(eps)),
        ("optim.rows.initial", json!(initial)),
        ("optim.rows.beta1", json!(beta1)),
        ("optim.rows.beta2", json!(beta2)),
        ("optim.rows.momentum", json!(momentum)),
        ("optim.rows.beta", json!(beta)),
        ("optim.rows.l1", json!(l1)),
        ("optim.rows.l2", json!(l2)),
        ("optim.rows.weight_decay", json!(weight_decay)),
        ("optim.rows.clip_norm", json!(clip_norm)),
        ("optim.rows.max_norm", json!(max_norm)),
        ("optim.rows.schedule", json!(schedule.name())),
        ("optim.rows.warmup_steps", json!(warmup_steps)),
        ("optim.rows.decay_steps", json!(decay_steps)),
        ("optim.rows.decay_factor", json!(decay_factor)),
        ("optim.rows.plateau_patience", json!(plateau_patience)),
    ]
}

fn of_optimizer(optimizer: &OptimizerConfig) -> Vec<(&'static str, Value)> {
    let OptimizerConfig {
        kind,
        lr,
        eps,
        initial,
        beta1,
        beta2,
        momentum,
        beta: None,
        l1: None,
        l2,
        weight_decay,
        clip_norm,
        max_norm: None,
        ema,
        schedule,
        warmup_steps,
        decay_steps,
        decay_factor,
        plateau_patience,
    } = optimizer
    else {
        panic!("ftrl and max_norm are for rows only")
    };
    vec![
        ("optim.dense.kind", json!(kind.name())),
        ("optim.dense.lr", json!(lr)),
        ("optim.dense.eps", json!(eps)),
        ("optim.dense.initial", json!(initial)),
        ("optim.dense.beta1", json!(beta1)),
        ("optim.dense.beta2", json!(beta2)),
        ("optim.dense.momentum", json!(momentum)),
        ("optim.dense.l2", json!(l2)),
        ("optim.dense.weight_decay", json!(weight_decay)),
        ("optim.dense.clip_norm", json!(clip_norm)),
        ("optim.dense.ema", json!(ema)),
        ("optim.dense.schedule", json!(schedule.name())),
        ("optim.dense.warmup_steps", json!(warmup_steps)),
        ("optim.dense.decay_steps", json!(decay_steps)),
        ("optim.dense.decay_factor", json!(decay_factor)),
        ("optim.dense.plateau_patience", json!(plateau_patience)),
    ]
}

pub(crate) fn of_data(data: &DataConfig) -> Vec<(&'static str, Value)> {
    let DataConfig {
        paths,
        epochs,
        class_weight,
        negative_rate,
        mini_batch,
        batch,
        eval_paths,
        eval_fraction: share,
        shuffle,
        streams,
        skip_max,
        cache,
        preset,
        format,
        header,
        separator,
        trim,
        missing,
        labels,
        eval_column,
        eval_values,
        eval_from,
    } = data;
    vec![
        ("data.paths", json!(paths)),
        ("data.eval_paths", json!(eval_paths)),
        ("data.eval_fraction", json!(share)),
        ("data.epochs", json!(epochs)),
        ("data.class_weight", json!(class_weight)),
        ("data.negative_rate", json!(negative_rate)),
        ("data.mini_batch", json!(mini_batch)),
        ("data.batch", json!(batch)),
        ("data.shuffle", json!(shuffle)),
        ("data.streams", json!(streams)),
        ("data.skip_max", json!(skip_max)),
        ("data.cache", json!(cache)),
        ("data.preset", json!(preset.name())),
        ("data.format", json!(format.name())),
        ("data.header", json!(header)),
        ("data.separator", json!(separator)),
        ("data.trim", json!(trim)),
        ("data.missing", json!(missing)),
        ("data.labels", json!(labels)),
        ("data.eval_column", json!(eval_column)),
        ("data.eval_values", json!(eval_values)),
        ("data.eval_from", json!(eval_from)),
    ]
}

pub(crate) fn of_model(model: &ModelConfig) -> Vec<(&'static str, Value)> {
    let ModelConfig { kind, dim, hidden, second, cross_layers, bottom, .. } = model;
    let ModelConfig { mask_blocks, mask_dim, mask_ratio, experts, label_experts, .. } = model;
    let ModelConfig { levels, tower, target, sequences, attention, .. } = model;
    let ModelConfig { item, vector, temperature, log_q, .. } = model;
    let ModelConfig { init_range, init_std, init_value, precision, dropout, layers, .. } = model;
    let ModelConfig { batch_norm, .. } = model;
    assert!(layers.is_empty(), "they have a list of their own");
    vec![
        ("model.kind", json!(kind.name())),
        ("model.dim", json!(dim)),
        ("model.hidden", json!(hidden)),
        ("model.second", json!(second)),
        ("model.cross_layers", json!(cross_layers)),
        ("model.bottom", json!(bottom)),
        ("model.mask_blocks", json!(mask_blocks)),
        ("model.mask_dim", json!(mask_dim)),
        ("model.mask_ratio", json!(mask_ratio)),
        ("model.experts", json!(experts)),
        ("model.label_experts", json!(label_experts)),
        ("model.levels", json!(levels)),
        ("model.tower", json!(tower)),
        ("model.target", json!(target)),
        ("model.sequences", json!(sequences)),
        ("model.attention", json!(attention)),
        ("model.item", json!(item)),
        ("model.vector", json!(vector)),
        ("model.temperature", json!(temperature)),
        ("model.log_q", json!(log_q)),
        ("model.batch_norm", json!(batch_norm)),
        ("model.dropout", json!(dropout)),
        ("model.init_range", json!(init_range)),
        ("model.init_std", json!(init_std)),
        ("model.init_value", json!(init_value)),
        ("model.precision", json!(precision.name())),
    ]
}

pub(crate) fn of_tiers(tiers: &TierConfig) -> Vec<(&'static str, Value)> {
    let TierConfig {
        hbm,
        lookup,
        warm_up,
        dram,
        ssd,
        index,
        segment,
        page_cache,
        harvest,
        read_unit,
        space,
        policy,
    } = tiers;
    vec![
        ("tiers.hbm", json!(hbm.map(|bytes| bytes.0))),
        ("tiers.warm_up", json!(warm_up)),
        ("tiers.lookup", json!(lookup.name())),
        ("tiers.dram", json!(dram.map(|bytes| bytes.0))),
        ("tiers.ssd", json!(ssd)),
        ("tiers.index", json!(index.map(|bytes| bytes.0))),
        ("tiers.segment", json!(segment.map(|bytes| bytes.0))),
        ("tiers.page_cache", json!(page_cache.0)),
        ("tiers.harvest", json!(harvest.map(|bytes| bytes.0))),
        ("tiers.read_unit", json!(read_unit.0)),
        ("tiers.space", json!(space)),
        ("tiers.policy", json!(policy.name())),
    ]
}

pub(crate) fn of_life(rows: &RowsConfig) -> Vec<(&'static str, Value)> {
    let RowsConfig { admit_after, admit_probability, expire_after, history, sketch, storage } =
        rows;
    vec![
        ("rows.admit_after", json!(admit_after)),
        ("rows.admit_probability", json!(admit_probability)),
        ("rows.expire_after", json!(expire_after)),
        ("rows.history", json!(history)),
        ("rows.sketch", json!(sketch.0)),
        ("rows.storage", json!(storage.name())),
    ]
}

pub(crate) fn of_checkpoint(checkpoint: &CheckpointConfig) -> Vec<(&'static str, Value)> {
    let CheckpointConfig { dir, every, minutes, initial, keep, best } = checkpoint;
    vec![
        ("checkpoint.dir", json!(dir)),
        ("checkpoint.every", json!(every)),
        ("checkpoint.minutes", json!(minutes)),
        ("checkpoint.initial", json!(initial)),
        ("checkpoint.keep", json!(keep)),
        ("checkpoint.best", json!(best.name())),
    ]
}

pub(crate) fn of_table(table: &TableConfig) -> Vec<(&'static str, Value)> {
    let TableConfig {
        name: _,
        dim,
        optimizer,
        lr,
        l2,
        weight_decay,
        clip_norm,
        max_norm,
        storage,
        init_range,
        init_std,
        init_value,
        pretrained,
        admit_after,
        admit_probability,
        expire_after,
        history,
        sketch,
        place,
        dram,
    } = table;
    vec![
        ("dim", json!(dim)),
        ("optimizer", json!(optimizer.map(|kind| kind.name()))),
        ("lr", json!(lr)),
        ("l2", json!(l2)),
        ("weight_decay", json!(weight_decay)),
        ("clip_norm", json!(clip_norm)),
        ("max_norm", json!(max_norm)),
        ("storage", json!(storage.map(|storage| storage.name()))),
        ("init_range", json!(init_range)),
        ("init_std", json!(init_std)),
        ("init_value", json!(init_value)),
        ("pretrained", json!(pretrained)),
        ("admit_after", json!(admit_after)),
        ("admit_probability", json!(admit_probability)),
        ("expire_after", json!(expire_after)),
        ("history", json!(history)),
        ("sketch", json!(sketch.map(|bytes| bytes.0))),
        ("place", json!(place.name())),
        ("dram", json!(dram.map(|bytes| bytes.0))),
    ]
}

pub(crate) fn of_feature(feature: &FeatureConfig) -> Vec<(&'static str, Value)> {
    let FeatureConfig { columns, table, pooling, ids, weight } = feature;
    vec![
        ("columns", json!(columns)),
        ("table", json!(table)),
        ("pooling", json!(pooling.name())),
        ("ids", json!(ids)),
        ("weight", json!(weight)),
    ]
}

pub(crate) fn of_layer(layer: &LayerConfig) -> Vec<(&'static str, Value)> {
    let LayerConfig { name, kind, inputs, width, function, dim, rate, temperature, bias, zero } =
        layer;
    vec![
        ("name", json!(name)),
        ("kind", json!(kind.name())),
        ("inputs", json!(inputs)),
        ("width", json!(width)),
        ("function", json!(function.map(|function| function.name()))),
        ("dim", json!(dim)),
        ("rate", json!(rate)),
        ("temperature", json!(temperature)),
        ("bias", json!(bias)),
        ("zero", json!(zero)),
    ]
}

pub(crate) fn of_column(column: &ColumnConfig) -> Vec<(&'static str, Value)> {
    let ColumnConfig {
        names,
        kind,
        of,
        loss,
        positive,
        class_weight,
        transform,
        mean,
        deviation,
        low,
        high,
        fill,
        indicator,
        namespace,
        buckets,
        part,
        separator,
        values,
        ids,
        bins,
        missing,
    } = column;
    vec![
        ("names", json!(names)),
        ("type", json!(kind.name())),
        ("of", json!(of)),
        ("loss", json!(loss.name())),
        ("positive", json!(positive)),
        ("class_weight", json!(class_weight)),
        ("transform", json!(transform.name())),
        ("mean", json!(mean)),
        ("deviation", json!(deviation)),
        ("low", json!(low)),
        ("high", json!(high)),
        ("fill", json!(fill)),
        ("indicator", json!(indicator)),
        ("namespace", json!(namespace)),
        ("buckets", json!(buckets)),
        ("part", json!(part.name())),
        ("separator", json!(separator)),
        ("values", json!(values)),
        ("ids", json!(ids)),
        ("bins", json!(bins)),
        ("missing", json!(missing.name())),
    ]
}
