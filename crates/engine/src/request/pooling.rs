//! How the rows of a bag become one embedding.

/// How the rows of a bag become one embedding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pooling {
    /// Their sum.
    #[default]
    Sum,
    /// Their sum over their number.
    Mean,
    /// Their sum over the square root of their number.
    SqrtN,
    /// Not at all: each has columns of its own, up to the most ids of a bag.
    None,
}

impl Pooling {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Sum, Self::Mean, Self::SqrtN, Self::None];

    /// Its name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Mean => "mean",
            Self::SqrtN => "sqrt_n",
            Self::None => "none",
        }
    }

    /// What each row of a bag of `ids` ids is multiplied by before it is added.
    pub fn factor(self, ids: usize) -> f32 {
        match self {
            Self::Sum | Self::None => 1.0,
            Self::Mean => 1.0 / ids as f32,
            Self::SqrtN => 1.0 / (ids as f32).sqrt(),
        }
    }
}
