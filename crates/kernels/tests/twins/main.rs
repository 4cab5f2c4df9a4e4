//! Every kernel compared to a plain twin, on this processor.
//!
//! `stepwell-device` has the same tests, with a `runner` that launches on its devices.

mod dense_blocks;
mod dense_in_batch;
mod dense_interactions;
mod dense_layers;
mod dense_sequences;
mod dense_step;
mod group;
mod partition;
mod rows_move;
mod rows_pool;
mod rows_update;
mod runner;
mod scan_and_sort;
mod support;
mod table;
