//! What a run of several ranks will need of a network.

mod network;
mod traffic;

pub use self::network::Network;
pub use self::traffic::{Sent, Step, Touched};
