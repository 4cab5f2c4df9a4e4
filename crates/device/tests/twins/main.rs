//! Every kernel compared to its plain twin on devices: the tests of `stepwell-kernels`, launched
//! like all code above this crate does.
//!
//! Without an NVIDIA device, emulated ones are used.

#[path = "../../../kernels/tests/twins/dense_blocks.rs"]
mod dense_blocks;
#[path = "../../../kernels/tests/twins/dense_in_batch.rs"]
mod dense_in_batch;
#[path = "../../../kernels/tests/twins/dense_interactions.rs"]
mod dense_interactions;
#[path = "../../../kernels/tests/twins/dense_layers.rs"]
mod dense_layers;
#[path = "../../../kernels/tests/twins/dense_sequences.rs"]
mod dense_sequences;
#[path = "../../../kernels/tests/twins/dense_step.rs"]
mod dense_step;
#[path = "../../../kernels/tests/twins/group.rs"]
mod group;
#[path = "../../../kernels/tests/twins/partition.rs"]
mod partition;
#[path = "../../../kernels/tests/twins/rows_move.rs"]
mod rows_move;
#[path = "../../../kernels/tests/twins/rows_pool.rs"]
mod rows_pool;
#[path = "../../../kernels/tests/twins/rows_update.rs"]
mod rows_update;
mod runner;
#[path = "../../../kernels/tests/twins/scan_and_sort.rs"]
mod scan_and_sort;
#[path = "../../../kernels/tests/twins/support/mod.rs"]
mod support;
#[path = "../../../kernels/tests/twins/table.rs"]
mod table;
