//! Training: the pipeline from examples to a trained model, with models, metrics and reports.
//!
//! [`train`] is the main entry point; [`evaluate`] scores data with a checkpoint; [`plan`] computes
//! the resources a run needs; [`forecast()`] predicts the traffic and speed of several ranks.

#![forbid(unsafe_code)]

mod batch;
mod capacity;
mod data_file;
mod dense;
mod derived;
mod error;
mod exchange;
mod features;
pub mod forecast;
mod labels;
mod limits;
mod machine;
mod metrics;
mod models;
mod pipeline;
mod pretrained;
mod profile;
mod ranks;
mod report;
mod resume;
mod run;
mod run_plan;
mod statistics;
mod step;
mod steps;
mod talk;
mod warm_start;

pub use batch::RunPosition;
pub use capacity::{Capacity, DeviceRoom, Expected, slab_bytes};
pub use data_file::DataFile;
pub use dense::HostProducts;
pub use error::{Error, Result};
pub use labels::{Label, labels};
pub use limits::Limits;
pub use machine::{
    Accelerators, Checkpoints, Devices, DiskRoom, Files, Machine, OnNote, Places, RowPlaces, Sizes,
};
pub use metrics::{
    AtMetrics, Evaluation, GroupMeter, GroupMetrics, LabelMetrics, Meter, Metrics, RecallMeter,
    RecallMetrics, Scored,
};
pub use models::kernels;
pub use pipeline::{Held, Measured, Observer, Observers, Silence, Snapshot};
pub use profile::{Bound, KernelReport, LayerReport, PassReport};
pub use ranks::{Late, Ranks};
pub use report::{
    ColumnIds, DeviceReport, Exchanged, GroupReport, OtherValues, OutOfStepReport, RankReport,
    Report, StageReport, StoppedEarly, Tiers, ValueMetrics, ValuesReport, peak_rss_bytes,
};
pub use resume::{FallenRate, FallenRates, Metric, RunState, Waited};
pub use run::{
    DenseParts, PairLayers, ReadyData, RowsAtStart, Surroundings, dense_parts, evaluate, forecast,
    layer_columns, layers, pair_layers, plan, ready_data, synth_options, tables, train,
};
pub use run_plan::StoragePlan;
pub use statistics::with_statistics;
pub use steps::{StepInput, StepSeconds, Steps};
pub use stepwell_engine::process_limits::memory_bytes;
pub use stepwell_nn::{Loss, LossSums, ParameterSpec};
pub use stepwell_settings::Config;
pub use warm_start::{Course, WarmPlan, WarmRequest, WarmStart};
