//! Defaults of all settings, from the entries that define them.

use stepwell_base::ByteCount;
use stepwell_data::{Format, TimePart};
use stepwell_device::Choice;
use stepwell_engine::{Lookup, Pooling};
use stepwell_mem::PolicyKind;
use stepwell_nn::{Loss, Precision};
use stepwell_optim::Storage;

use crate::all_settings::SETTINGS;
use crate::columns::COLUMN_SETTINGS;
use crate::config::{
    BestKind, CheckpointConfig, ColumnConfig, ColumnType, Config, DataConfig, DenseKind,
    DensePlace, ExchangeKind, FeatureConfig, LayerConfig, LayerKind, MissingKind, ModelConfig,
    ModelKind, OptimConfig, OptimizerConfig, OptimizerKind, PipelineConfig, PlaceKind, PresetKind,
    RanksConfig, RowOptimizerConfig, RowOptimizerKind, RowsConfig, RowsKind, SyncConfig,
    SynthConfig, TableConfig, TierConfig, TrainConfig, TransformKind,
};
use crate::layer_settings::LAYER_SETTINGS;
use crate::table_settings::{FEATURE_SETTINGS, TABLE_SETTINGS};

/// All settings with the defaults of the table.
impl Default for Config {
    fn default() -> Self {
        let mut config = Self::blank();
        SETTINGS.iter().for_each(|setting| (setting.begin)(&mut config));
        config
    }
}

impl Config {
    /// A placeholder that the table's defaults overwrite completely.
    fn blank() -> Self {
        Self {
            seed: 0,
            threads: 0,
            memory: None,
            device: Choice::Host,
            ranks: RanksConfig { count: 0, exchange: ExchangeKind::WorkingSet, timeout: 0.0 },
            sync: SyncConfig {
                dense: DenseKind::Geeps,
                rows: RowsKind::Async,
                staleness: 0,
                probes: 0,
                age: 0,
            },
            data: DataConfig::blank(),
            synth: SynthConfig { examples: 0, vocab_scale: 0.0 },
            model: ModelConfig::blank(),
            train: TrainConfig::blank(),
            columns: Vec::new(),
            tables: Vec::new(),
            features: Vec::new(),
            tiers: TierConfig::blank(),
            pipeline: PipelineConfig { lookahead: 0, horizon: 0, staleness: 0 },
            rows: RowsConfig {
                admit_after: 0,
                admit_probability: 0.0,
                expire_after: 0,
                history: false,
                sketch: ByteCount(0),
                storage: Storage::default(),
            },
            optim: OptimConfig {
                rows: RowOptimizerConfig::new(RowOptimizerKind::Sgd, 0.0),
                dense: OptimizerConfig::new(OptimizerKind::Sgd, 0.0),
            },
            checkpoint: CheckpointConfig {
                dir: None,
                every: 0,
                minutes: 0.0,
                initial: false,
                keep: 0,
                best: BestKind::None,
            },
        }
    }
}

impl ModelConfig {
    /// A placeholder that the table's defaults overwrite completely.
    fn blank() -> Self {
        Self {
            kind: ModelKind::Lr,
            dim: 0,
            hidden: Vec::new(),
            second: Vec::new(),
            cross_layers: 0,
            bottom: Vec::new(),
            mask_blocks: 0,
            mask_dim: 0,
            mask_ratio: 0.0,
            experts: 0,
            label_experts: 0,
            levels: 0,
            tower: Vec::new(),
            target: Vec::new(),
            sequences: Vec::new(),
            attention: 0,
            item: Vec::new(),
            vector: 32,
            temperature: 0.1,
            log_q: true,
            batch_norm: false,
            dropout: 0.0,
            layers: Vec::new(),
            init_range: 0.0,
            init_std: None,
            init_value: None,
            precision: Precision::default(),
        }
    }
}

impl DataConfig {
    /// Part of [`Config::blank`].
    fn blank() -> Self {
        Self {
            paths: Vec::new(),
            eval_paths: Vec::new(),
            eval_fraction: 0.0,
            epochs: 0,
            class_weight: 0.0,
            negative_rate: 0.0,
            mini_batch: 0,
            batch: 0,
            shuffle: 0,
            streams: 0,
            skip_max: 0,
            cache: None,
            preset: PresetKind::default(),
            format: Format::default(),
            header: None,
            separator: None,
            trim: false,
            missing: Vec::new(),
            labels: false,
            eval_column: None,
            eval_values: Vec::new(),
            eval_from: None,
        }
    }
}

impl TrainConfig {
    /// Part of [`Config::blank`].
    fn blank() -> Self {
        Self {
            blocks: 0,
            dense: DensePlace::Host,
            evaluate_every: 0,
            label_smoothing: 0.0,
            focal_gamma: 0.0,
            patience: 0,
        }
    }
}

impl TierConfig {
    /// Part of [`Config::blank`].
    fn blank() -> Self {
        Self {
            hbm: None,
            lookup: Lookup::Slots,
            warm_up: 0,
            dram: None,
            ssd: None,
            index: None,
            segment: None,
            page_cache: ByteCount(0),
            harvest: None,
            read_unit: ByteCount(0),
            space: 0.0,
            policy: PolicyKind::default(),
        }
    }
}

/// All settings with the defaults of their table.
impl Default for ColumnConfig {
    fn default() -> Self {
        let mut column = Self {
            names: Vec::new(),
            kind: ColumnType::default(),
            of: Vec::new(),
            loss: Loss::default(),
            positive: Vec::new(),
            class_weight: None,
            transform: TransformKind::default(),
            mean: Vec::new(),
            deviation: Vec::new(),
            low: None,
            high: None,
            fill: None,
            indicator: false,
            namespace: None,
            buckets: Vec::new(),
            part: TimePart::default(),
            separator: String::new(),
            values: None,
            ids: 0,
            bins: None,
            missing: MissingKind::default(),
        };
        COLUMN_SETTINGS.iter().for_each(|setting| (setting.begin)(&mut column));
        column
    }
}

/// All settings with the defaults of their table, and no name.
impl Default for TableConfig {
    fn default() -> Self {
        let mut table = Self {
            name: String::new(),
            dim: None,
            optimizer: None,
            lr: None,
            l2: None,
            weight_decay: None,
            clip_norm: None,
            max_norm: None,
            storage: None,
            init_range: None,
            init_std: None,
            init_value: None,
            pretrained: None,
            admit_after: None,
            admit_probability: None,
            expire_after: None,
            history: None,
            sketch: None,
            place: PlaceKind::default(),
            dram: None,
        };
        TABLE_SETTINGS.iter().for_each(|setting| (setting.begin)(&mut table));
        table
    }
}

/// All settings with the defaults of their table.
impl Default for FeatureConfig {
    fn default() -> Self {
        let mut feature = Self {
            columns: Vec::new(),
            table: String::new(),
            pooling: Pooling::default(),
            ids: 0,
            weight: None,
        };
        FEATURE_SETTINGS.iter().for_each(|setting| (setting.begin)(&mut feature));
        feature
    }
}

/// All settings with the defaults of their table.
impl Default for LayerConfig {
    fn default() -> Self {
        let mut layer = Self {
            name: String::new(),
            kind: LayerKind::default(),
            inputs: Vec::new(),
            width: None,
            function: None,
            dim: None,
            rate: None,
            temperature: None,
            bias: true,
            zero: false,
        };
        LAYER_SETTINGS.iter().for_each(|setting| (setting.begin)(&mut layer));
        layer
    }
}
