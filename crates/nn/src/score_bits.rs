//! Scores as bits that sort like numbers, and bins of them.

/// Most scores that are stored individually.
pub(crate) const EXACT_SCORES_MAX: usize = 4 << 20;

/// Bits of a score that determine its bin, from the top.
pub(crate) const BIN_BITS: u32 = 20;

/// An AUC and its maximum error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AucValue {
    /// The area under the curve.
    pub auc: f64,
    /// Half the share of pairs that are in the same bin; 0 if exact.
    pub error_max: f64,
}

/// How well scores rank the labels, and how well they are calibrated.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ranked {
    /// `None` unless both labels occurred.
    pub auc: Option<AucValue>,
    /// Expected calibration error over ten bins of equal mass; `None` without examples. If scores
    /// are binned, that of the middle of their bins.
    pub calibration_error: Option<f64>,
}

/// Maps a score to bits with the same order as unsigned integers.
pub(crate) fn ordered(score: f32) -> u32 {
    // Both zeros are the same number.
    let bits = (score + 0.0).to_bits();
    if bits >> 31 == 0 { bits | 1 << 31 } else { !bits }
}

/// Inverse of [`ordered`].
pub(crate) fn number(ordered: u32) -> f32 {
    f32::from_bits(if ordered >> 31 == 1 { ordered & !(1 << 31) } else { !ordered })
}

/// A score in the middle of a bin.
pub(crate) fn middle(bin: usize) -> f32 {
    number((bin as u32) << (32 - BIN_BITS) | 1 << (31 - BIN_BITS))
}

/// The bits of a score as displayed.
pub(crate) fn shown_bits(score: u32, shown: fn(f32) -> f32) -> u32 {
    ordered(shown(number(score)))
}

/// Groups nonempty bins, in ascending order, whose lowest scores have the same display. Returns
/// with each group the bins in which every score has that display.
pub(crate) fn shown_together(
    filled: &[usize],
    shown: fn(f32) -> f32,
) -> impl Iterator<Item = (&[usize], &[usize])> {
    let edge = move |bin: usize, of: u32| shown(number((bin as u32) << (32 - BIN_BITS) | of));
    let together = filled.chunk_by(move |one, other| edge(*one, 0) == edge(*other, 0));
    together.map(move |bins| {
        let last = bins[bins.len() - 1];
        let is_one = edge(last, 0) == edge(last, (1 << (32 - BIN_BITS)) - 1);
        (bins, &bins[..bins.len() - usize::from(!is_one)])
    })
}
