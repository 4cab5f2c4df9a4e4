//! `stepwell synth`.

use std::fs::File;
use std::io::{BufWriter, Write};

use stepwell_data::SynthOptions;
use stepwell_data::synth::write_tsv;

use crate::cli::SynthArgs;

/// Writes the built-in click stream.
pub(crate) fn run(args: &SynthArgs) -> Result<(), String> {
    let path = args.out.display();
    let file = if args.force { File::create(&args.out) } else { File::create_new(&args.out) };
    let file = file.map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => format!("{path} exists; replace it with --force"),
        _ => format!("cannot create {path}: {error}"),
    })?;
    let options = SynthOptions {
        seed: args.seed,
        examples: args.examples,
        vocab_scale: args.vocab_scale,
        ..SynthOptions::default()
    };
    let mut out = BufWriter::with_capacity(1 << 20, file);
    write_tsv(&options, &mut out).map_err(|error| format!("{path}: {error}"))?;
    out.flush().map_err(|error| format!("{path}: {error}"))?;
    println!("{} examples in {path}", args.examples);
    Ok(())
}
