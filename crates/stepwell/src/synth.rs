//! `stepwell synth`.

use std::io::{BufWriter, Write};

use stepwell_data::SynthOptions;
use stepwell_data::synth::write_tsv;

use crate::cli::SynthArgs;
use crate::outputs::{self, Output};
use crate::say::say;

/// Writes the built-in click stream.
pub(crate) fn run(args: &SynthArgs) -> Result<(), String> {
    let path = args.out.display();
    if args.out.is_file() && !args.force {
        return Err(format!("{path} exists; replace it with --force"));
    }
    outputs::check(&[("--out", Some(&args.out))], &[])?;
    let options = SynthOptions {
        seed: args.seed,
        examples: args.examples,
        vocab_scale: args.vocab_scale,
        ..SynthOptions::default()
    };
    let output = Output::begin(&args.out).map_err(|error| format!("{path}: {error}"))?;
    let mut out = BufWriter::with_capacity(1 << 20, &output.file);
    write_tsv(&options, &mut out).map_err(|error| format!("{path}: {error}"))?;
    out.flush().map_err(|error| format!("{path}: {error}"))?;
    drop(out);
    output.finish().map_err(|error| format!("{path}: {error}"))?;
    say!("{} examples in {path}", args.examples);
    Ok(())
}
