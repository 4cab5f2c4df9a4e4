//! How regularization changes the gradient of a weight.

pub(crate) trait Penalty: Copy {
    /// The gradient after clipping.
    fn scaled(self, gradient: f32) -> f32;

    /// The gradient after clipping, with the penalty's own.
    fn gradient(self, gradient: f32, weight: f32) -> f32;

    /// Factor of half the squared weight.
    fn l2(self) -> f32;
}

/// The gradient without a penalty.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoPenalty;

impl Penalty for NoPenalty {
    #[inline(always)]
    fn scaled(self, gradient: f32) -> f32 {
        gradient
    }

    #[inline(always)]
    fn gradient(self, gradient: f32, _: f32) -> f32 {
        gradient
    }

    #[inline(always)]
    fn l2(self) -> f32 {
        0.0
    }
}

/// The gradient of a row times `scale`, with a penalty of half `l2` times the squared weight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ridge {
    pub(crate) scale: f32,
    pub(crate) l2: f32,
}

impl Penalty for Ridge {
    #[inline(always)]
    fn scaled(self, gradient: f32) -> f32 {
        self.scale * gradient
    }

    #[inline(always)]
    fn gradient(self, gradient: f32, weight: f32) -> f32 {
        self.scale * gradient + self.l2 * weight
    }

    #[inline(always)]
    fn l2(self) -> f32 {
        self.l2
    }
}
