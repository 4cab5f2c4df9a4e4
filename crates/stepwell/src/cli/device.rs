//! Arguments of `stepwell device`.

use clap::Args;

/// `stepwell device`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exits with 0 if a device can be used, otherwise with 1, whatever is missing."
)]
pub(crate) struct DeviceArgs {
    /// Compile all kernels for each device, and print how long it takes
    #[arg(long)]
    pub(crate) compile: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
