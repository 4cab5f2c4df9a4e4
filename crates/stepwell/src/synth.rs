//! `stepwell synth`.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;
use stepwell_base::stop::StopRequest;
use stepwell_data::SynthOptions;
use stepwell_data::synth::write_tsv;

use crate::cli::SynthArgs;
use crate::failure::Failure;
use crate::outputs::{self, Output};
use crate::say::{self, tell};
use crate::signals::Signals;

/// Writes the built-in click stream.
pub(crate) fn run(args: &SynthArgs) -> Result<(), Failure> {
    // Before any output is tried, so that an interruption leaves no file.
    let signals = Signals::heed()?;
    let path = args.out.display();
    if args.out.is_file() && !args.force {
        return Err(Failure::Usage(format!("{path} exists; replace it with --force")));
    }
    let packing = packing_of(&args.out).map_err(Failure::Usage)?;
    outputs::check(&[("--out", Some(&args.out))], &[])?;
    let options = SynthOptions {
        seed: args.seed,
        examples: args.examples,
        vocab_scale: args.vocab_scale,
        ..SynthOptions::default()
    };
    let mut output = Output::begin(&args.out).map_err(|error| format!("{path}: {error}"))?;
    let out = Stoppable { out: &output.file, stop: signals.stop() };
    let written = write(&options, packing, BufWriter::with_capacity(1 << 20, out));
    if signals.stop().is_made() {
        return Err(signals.interrupted(format!("interrupted: nothing is left in {path}")));
    }
    written.map_err(|why| format!("{path}: {why}"))?;
    output.finish().map_err(|error| format!("{path}: {error}"))?;
    if args.json {
        return say::json(&json!({ "out": say::path(&args.out), "examples": args.examples }));
    }
    tell!("{} examples in {path}", args.examples);
    Ok(())
}

/// Compression of the text.
#[derive(Clone, Copy)]
enum Packing {
    Plain,
    Gzip,
    Zstd,
}

/// The compression that a file's name calls for.
fn packing_of(path: &Path) -> Result<Packing, String> {
    const OTHERS: [&str; 6] = ["xz", "bz2", "lz4", "zip", "parquet", "packed"];
    let end = path.extension().map(|end| end.to_string_lossy().to_lowercase());
    match end.as_deref() {
        Some("gz") => Ok(Packing::Gzip),
        Some("zst" | "zstd") => Ok(Packing::Zstd),
        Some(end) if OTHERS.contains(&end) => {
            let mend = match end {
                "packed" => "`stepwell convert --synth` writes packed files",
                _ => "name it .tsv, .tsv.gz or .tsv.zst",
            };
            Err(format!("--out {}: only text is written: {mend}", path.display()))
        }
        _ => Ok(Packing::Plain),
    }
}

/// Writes the whole stream.
fn write(
    options: &SynthOptions,
    packing: Packing,
    mut out: BufWriter<Stoppable<&File>>,
) -> Result<(), String> {
    let say = |error: io::Error| error.to_string();
    let all = |to: &mut dyn Write| write_tsv(options, to).map_err(|error| error.to_string());
    match packing {
        Packing::Plain => all(&mut out)?,
        Packing::Gzip => {
            let mut packed = GzEncoder::new(&mut out, Compression::fast());
            all(&mut packed)?;
            packed.finish().map_err(say)?;
        }
        Packing::Zstd => {
            // 0 is the library's default level.
            let mut packed = zstd::Encoder::new(&mut out, 0).map_err(say)?;
            all(&mut packed)?;
            packed.finish().map_err(say)?;
        }
    }
    out.flush().map_err(say)
}

/// A writer that fails after a request to stop.
struct Stoppable<W> {
    out: W,
    stop: StopRequest,
}

impl<W: Write> Write for Stoppable<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.stop.is_made() {
            return Err(io::Error::other("stopped, as was asked for"));
        }
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
