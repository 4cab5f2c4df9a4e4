//! The paper's machines and measurements. Source: Cui et al., "GeePS" (EuroSys 2016), section 5;
//! bars of its figures without values in its text are omitted.

use serde::Serialize;

/// Bytes of the AdamLike model's parameters (section 5.3).
pub(super) const PARAMETER_BYTES: f64 = 474e6;
/// Device memory that holds all of its data, in bytes (section 5.3).
pub(super) const FULL_BYTES: f64 = 4.73e9;
/// Measured bytes per second between machines (section 5.1).
pub(super) const NETWORK_BYTES_PER_SECOND: f64 = 12e9 / 8.0;
/// Upper bound on the seconds of a mini-batch of 200 images: four machines process more than 570 G
/// connections per second, at 2.4 G per image (section 5.2).
pub(super) const MINI_BATCH_SECONDS: f64 = 200.0 * 2.4e9 / (570e9 / 4.0);
/// Bytes per second between host and device: the copy rate of a Tesla K20c over PCIe 2.0 x16, each
/// way.
pub(super) const PCIE_BYTES_PER_SECOND: f64 = 6e9;
/// Remaining share of the throughput with everything swapped (figure 12).
pub(super) const SWAPPED_OVER_FULL: f64 = 0.73;
/// Share of the memory in that case (figure 12).
pub(super) const SWAPPED_SHARE: f64 = 0.35;

/// The paper's measurements.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PaperFigures {
    /// Images that SSP with a slack of 1 needs to reach 10 %, relative to BSP (figure 15).
    pub ssp_1_examples_over_bsp: f64,
    /// Images that Async needs, likewise (figure 15).
    pub async_examples_over_bsp: f64,
    /// Share of its time that a device is idle under BSP (figure 8).
    pub bsp_stall: f64,
    /// Throughput relative to all memory with everything swapped (figure 12).
    pub swapped_over_full: f64,
    /// Share of the memory in that case (figure 12).
    pub swapped_share: f64,
}

pub(super) const PAPER: PaperFigures = PaperFigures {
    ssp_1_examples_over_bsp: 2.0,
    async_examples_over_bsp: 3.0,
    bsp_stall: 0.08,
    swapped_over_full: SWAPPED_OVER_FULL,
    swapped_share: SWAPPED_SHARE,
};
