//! What the paper says of its machines and measured. Source: Cui et al., "GeePS" (EuroSys 2016),
//! section 5; bars of its figures whose heights its text does not tell are left out.

use serde::Serialize;

/// Bytes of the AdamLike model's parameters (section 5.3).
pub(super) const PARAMETER_BYTES: f64 = 474e6;
/// Bytes with which all of its data is in a device's memory (section 5.3).
pub(super) const FULL_BYTES: f64 = 4.73e9;
/// Bytes a second between machines, as measured there (section 5.1).
pub(super) const NETWORK_BYTES_PER_SECOND: f64 = 12e9 / 8.0;
/// Seconds of a mini-batch of 200 images: four machines do more than 570 G connections a second, of
/// 2.4 G an image (section 5.2), so at most this.
pub(super) const MINI_BATCH_SECONDS: f64 = 200.0 * 2.4e9 / (570e9 / 4.0);
/// Bytes a second between host and device: what a Tesla K20c copies over PCIe 2.0 x16, each way.
pub(super) const PCIE_BYTES_PER_SECOND: f64 = 6e9;
/// What is left of the throughput where all is swapped (figure 12).
pub(super) const SWAPPED_OVER_FULL: f64 = 0.73;
/// And with what share of the memory (figure 12).
pub(super) const SWAPPED_SHARE: f64 = 0.35;

/// What the paper measured.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PaperFigures {
    /// How many times as many images SSP with a slack of 1 takes to 10 % (figure 15).
    pub ssp_1_examples_over_bsp: f64,
    /// And Async (figure 15).
    pub async_examples_over_bsp: f64,
    /// Share of its time that a device stands still under BSP (figure 8).
    pub bsp_stall: f64,
    /// Throughput over that with all memory, where all is swapped (figure 12).
    pub swapped_over_full: f64,
    /// Share of the memory that this takes (figure 12).
    pub swapped_share: f64,
}

pub(super) const PAPER: PaperFigures = PaperFigures {
    ssp_1_examples_over_bsp: 2.0,
    async_examples_over_bsp: 3.0,
    bsp_stall: 0.08,
    swapped_over_full: SWAPPED_OVER_FULL,
    swapped_share: SWAPPED_SHARE,
};
