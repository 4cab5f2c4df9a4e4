//! How a penalty on weights changes their gradient.

/// The gradient of a weight, with a penalty.
pub(crate) trait Penalty: Copy {
    fn gradient(self, gradient: f32, weight: f32) -> f32;
}

/// The gradient without a penalty.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoPenalty;

impl Penalty for NoPenalty {
    #[inline(always)]
    fn gradient(self, gradient: f32, _: f32) -> f32 {
        gradient
    }
}

/// A penalty of half this factor times the squared weight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ridge(pub(crate) f32);

impl Penalty for Ridge {
    #[inline(always)]
    fn gradient(self, gradient: f32, weight: f32) -> f32 {
        gradient + self.0 * weight
    }
}
