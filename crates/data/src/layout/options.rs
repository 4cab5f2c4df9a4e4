//! How files are read, whatever their columns are.

use super::SplitRule;

/// How records lie in a file of text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Known by the first bytes of each file.
    #[default]
    Auto,
    /// A line a record, with commas between fields, which may be quoted.
    Csv,
    /// The same with tabs.
    Tsv,
    /// A line a record: a label, then `index:value` for what is not zero; with three parts,
    /// `field:id:value`.
    LibSvm,
    /// A line a record, an object of JSON.
    JsonLines,
    /// A file of columns.
    Parquet,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Auto, Self::Csv, Self::Tsv, Self::LibSvm, Self::JsonLines, Self::Parquet];

    /// Its name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Csv => "csv",
            Self::Tsv => "tsv",
            Self::LibSvm => "libsvm",
            Self::JsonLines => "jsonl",
            Self::Parquet => "parquet",
        }
    }
}

/// How files are read, whatever their columns are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LayoutOptions {
    /// How records lie in them.
    pub format: Format,
    /// What is between fields of delimited text; none for what the format says.
    pub separator: Option<u8>,
    /// Whether the first line of delimited text names the columns; none to look.
    pub header: Option<bool>,
    /// Whether spaces around a field are no part of it.
    pub trim: bool,
    /// Texts that stand for a missing value, as the empty one does.
    pub missing: Vec<String>,
    /// Which examples are evaluated on, where a column says so.
    pub split: Option<SplitRule>,
}
