//! How the rows of a bag become one embedding, and where it goes.

/// How the rows of a bag become one embedding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pooling {
    /// The sum of the rows.
    #[default]
    Sum,
    /// The sum divided by the number of rows.
    Mean,
    /// The sum divided by the square root of the number of rows.
    SqrtN,
    /// No pooling. The training pipeline gives each row its own columns, up to the maximum ids of a
    /// bag. A program with a [`Session`](crate::Session) reads and trains distinct rows. If other
    /// fields of the table are pooled, an unpooled field needs columns too: the program ignores
    /// their values and gives them zero gradients. Unpooled fields may share them.
    None,
}

impl Pooling {
    /// All poolings.
    pub const ALL: [Self; 4] = [Self::Sum, Self::Mean, Self::SqrtN, Self::None];

    /// Name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Mean => "mean",
            Self::SqrtN => "sqrt_n",
            Self::None => "none",
        }
    }

    /// Factor of each row in a bag of `ids` ids.
    pub fn factor(self, ids: usize) -> f32 {
        match self {
            Self::Sum | Self::None => 1.0,
            Self::Mean => 1.0 / ids as f32,
            Self::SqrtN => 1.0 / (ids as f32).sqrt(),
        }
    }
}

/// A field of a table: a bag of ids per example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Field {
    /// First column of the field's embeddings.
    pub column: usize,
    /// How the rows of a bag become one embedding.
    pub pooling: Pooling,
}

impl Field {
    /// A field whose rows are summed into the columns from `column` on.
    pub const fn sum(column: usize) -> Self {
        Self { column, pooling: Pooling::Sum }
    }
}

/// Columns of each table's fields in the matrix of pooled embeddings, and their pooling.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    /// The fields of each table. // (tables) of (fields)
    pub of_fields: Vec<Vec<Field>>,
    /// Number of columns of all fields.
    pub count: usize,
}

/// Whether any field of a table with these `fields` is pooled; then all of them have columns.
#[inline]
pub(crate) fn is_pooled(fields: &[Field]) -> bool {
    fields.iter().any(|field| field.pooling != Pooling::None)
}
