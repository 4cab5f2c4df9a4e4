//! Arguments of commands on data files: `synth`, `convert`, `schema`.

use std::path::PathBuf;

use clap::Args;
use stepwell_data::SynthOptions;

/// `stepwell synth`.
#[derive(Debug, Args)]
#[command(after_help = "Without --seed, --examples and --vocab-scale, it is the stream that \
                        `stepwell train` uses without data.")]
pub(crate) struct SynthArgs {
    /// File to write, compressed if its name ends in .gz or .zst
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Number of examples, of about 300 bytes each as plain text
    #[arg(
        long,
        visible_alias = "synth.examples",
        default_value_t = SynthOptions::EXAMPLES,
        value_name = "N"
    )]
    pub(crate) examples: u64,
    /// Seed
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
    /// Vocabulary, as a multiple of a real sample's
    #[arg(
        long,
        visible_alias = "synth.vocab_scale",
        default_value_t = SynthOptions::VOCAB_SCALE,
        value_name = "X"
    )]
    pub(crate) vocab_scale: f64,
    /// Replace the file if it exists
    #[arg(long)]
    pub(crate) force: bool,
    /// Print what was written as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// `stepwell convert`.
#[derive(Debug, Args)]
pub(crate) struct ConvertArgs {
    /// Settings in TOML, of which only the columns are used
    #[arg(long, value_name = "CONFIG.toml", conflicts_with = "synth")]
    pub(crate) config: Option<PathBuf>,
    /// Columns of a well-known data set
    #[arg(long, visible_alias = "data.preset", value_name = "NAME", conflicts_with = "synth")]
    pub(crate) preset: Option<String>,
    /// Data in the order of training: files or globs; plain, gzip, zstd or packed
    #[arg(value_name = "INPUT", required_unless_present = "synth", conflicts_with = "synth")]
    pub(crate) inputs: Vec<PathBuf>,
    /// Use the built-in click stream instead of files
    #[arg(long)]
    pub(crate) synth: bool,
    /// Packed file to write
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Malformed lines to skip; one more ends the conversion
    #[arg(
        long,
        visible_alias = "data.skip_max",
        default_value_t = 0,
        value_name = "N",
        conflicts_with = "synth"
    )]
    pub(crate) skip_max: u64,
    /// Threads that parse (default: the number of cores)
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// Number of examples of the stream
    #[arg(
        long,
        visible_alias = "synth.examples",
        default_value_t = SynthOptions::EXAMPLES,
        value_name = "N",
        conflicts_with = "inputs"
    )]
    pub(crate) examples: u64,
    /// Seed of the stream
    #[arg(long, default_value_t = 1, value_name = "N", conflicts_with = "inputs")]
    pub(crate) seed: u64,
    /// Vocabulary of the stream, as a multiple of a real sample's
    #[arg(
        long,
        visible_alias = "synth.vocab_scale",
        default_value_t = SynthOptions::VOCAB_SCALE,
        value_name = "X",
        conflicts_with = "inputs"
    )]
    pub(crate) vocab_scale: f64,
    /// Replace the file if it exists
    #[arg(long)]
    pub(crate) force: bool,
    /// Print what was written as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// `stepwell schema`.
#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    /// File of data: CSV, TSV, JSON lines, LibSVM or Parquet; text plain, gzip or zstd
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Settings file to write; without it, the settings are printed
    #[arg(long, value_name = "FILE.toml")]
    pub(crate) out: Option<PathBuf>,
    /// Replace the settings file if it exists
    #[arg(long, requires = "out")]
    pub(crate) force: bool,
}
