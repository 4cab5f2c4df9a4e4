//! Disks through their trait.

mod conformance;
mod directories;
mod engines;
mod faults;
mod open_files;
mod quiet_faults;
