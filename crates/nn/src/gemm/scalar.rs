//! Number types of a graph: f32 for training, f64 for checking gradients.

use std::fmt::Debug;
use std::ops::{Add, AddAssign, Div, Mul, MulAssign, Neg, Sub, SubAssign};

use bytemuck::Zeroable;

use super::product::Product;
use crate::exponential;

/// A floating-point number: f32 or f64.
pub trait Scalar:
    Product
    + Copy
    + Zeroable
    + Default
    + Debug
    + PartialOrd
    + Send
    + Sync
    + Add<Output = Self>
    + AddAssign
    + Sub<Output = Self>
    + SubAssign
    + Mul<Output = Self>
    + MulAssign
    + Div<Output = Self>
    + Neg<Output = Self>
    + 'static
{
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// 1/2.
    const HALF: Self;

    /// The number nearest to `value`.
    fn from_f64(value: f64) -> Self;

    /// Converts to f64.
    fn to_f64(self) -> f64;

    /// 1 / (1 + e⁻ˣ), computed in this type.
    fn logistic(self) -> Self;

    /// eˣ, computed in this type.
    fn exp(self) -> Self;
}

impl Scalar for f32 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
    const HALF: Self = 0.5;

    #[inline]
    fn from_f64(value: f64) -> Self {
        value as Self
    }

    #[inline]
    fn to_f64(self) -> f64 {
        f64::from(self)
    }

    #[inline(always)]
    fn logistic(self) -> Self {
        exponential::sigmoid_f32(self)
    }

    #[inline(always)]
    fn exp(self) -> Self {
        exponential::exp_f32(self)
    }
}

impl Scalar for f64 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
    const HALF: Self = 0.5;

    #[inline]
    fn from_f64(value: f64) -> Self {
        value
    }

    #[inline]
    fn to_f64(self) -> f64 {
        self
    }

    #[inline(always)]
    fn logistic(self) -> Self {
        exponential::sigmoid(self)
    }

    #[inline(always)]
    fn exp(self) -> Self {
        exponential::exp(self)
    }
}
