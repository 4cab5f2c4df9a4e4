//! GeePS through its public interface.

mod again;
mod bsp;
mod disturbed;
mod drawn;
mod failure;
mod interface;
mod memory;
mod rules;
mod staleness;
mod support;
mod threads;
