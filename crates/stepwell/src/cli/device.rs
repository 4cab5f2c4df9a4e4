//! What people type about devices.

use clap::Args;

/// `stepwell device`.
#[derive(Debug, Args)]
#[command(
    after_help = "It ends with 0 where there is a device that can be used, and with 1 where \
                        there is none, whatever is missing."
)]
pub(crate) struct DeviceArgs {
    /// Compile all kernels for each device, and say how long it takes
    #[arg(long)]
    pub(crate) compile: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
