//! The store as callers see it: against a plain map, and with crashes, damage, full disks and
//! several threads.

#![expect(clippy::unwrap_used, reason = "helpers of tests panic like the tests")]

mod actor;
mod aside;
mod behaviour;
mod common;
mod crash;
mod damage;
mod deletes;
mod descriptors;
mod faults;
mod full_index;
mod fuzz;
mod going_on;
mod harness;
mod harvest;
mod history;
mod locks;
mod model;
mod old_format;
mod opening;
mod refusal;
mod repair;
mod reshard;
mod rest;
mod scans;
mod shards;
mod sharing;
mod snapshots;
mod space;
mod stripes;
mod sweep_model;
mod sweeps;
mod threads;
mod tickets;
mod views;
