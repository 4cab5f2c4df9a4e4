//! Whole runs under simulated schedules.

mod apart;
mod clock;
mod excuses;
mod power;
mod ranks;
mod rules;
mod schedules;
mod soak;
mod timed;
