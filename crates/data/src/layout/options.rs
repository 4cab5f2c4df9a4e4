//! How to read files, independent of columns.

use super::evaluation_split::SplitRule;

/// Format of records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Detected by the first bytes of each file.
    #[default]
    Auto,
    /// One record per line, with commas between fields, which may be quoted.
    Csv,
    /// Like CSV, with tabs.
    Tsv,
    /// One record per line: a label, then `index:value` for nonzero values, or `field:id:value`.
    LibSvm,
    /// One record per line, a JSON object.
    JsonLines,
    /// A Parquet file.
    Parquet,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 6] =
        [Self::Auto, Self::Csv, Self::Tsv, Self::LibSvm, Self::JsonLines, Self::Parquet];

    /// Name in settings.
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

/// How to read files, independent of columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LayoutOptions {
    /// Format of records.
    pub format: Format,
    /// Separator of delimited text; `None` for the format's default.
    pub separator: Option<u8>,
    /// Whether the first line of delimited text is a header; `None` to detect it.
    pub header: Option<bool>,
    /// Whether to trim spaces around fields.
    pub trim: bool,
    /// Texts that mean a missing value, in addition to the empty one.
    pub missing: Vec<String>,
    /// Column that selects examples for evaluation, if any.
    pub split: Option<SplitRule>,
}

/// Whether a byte may separate fields: it isn't part of a number, a word, or a line end.
pub fn may_separate(byte: u8) -> bool {
    !byte.is_ascii_alphanumeric() && !b"\"\r\n.-+".contains(&byte)
}
