//! The engine through its public interface.

mod checkpoint;
mod hierarchy;
mod leases;
mod meaning;
mod preload;
mod session;
mod whole;
