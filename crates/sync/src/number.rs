//! The numbers that models are made of.

use bytemuck::Pod;
use stepwell_nn::Scalar;

/// A number of a model that can be sent: f32 or f64.
pub trait Number: Scalar + Pod {}

impl<T: Scalar + Pod> Number for T {}
