//! `stepwell synth`.

use std::io::{self, BufWriter, Write};

use stepwell_base::stop::StopRequest;
use stepwell_data::SynthOptions;
use stepwell_data::synth::write_tsv;

use crate::cli::SynthArgs;
use crate::failure::Failure;
use crate::outputs::{self, Output};
use crate::say::say;
use crate::signals::Signals;

/// Writes the built-in click stream.
pub(crate) fn run(args: &SynthArgs) -> Result<(), Failure> {
    // From the first file on that is tried: none is left behind.
    let signals = Signals::heed()?;
    let path = args.out.display();
    if args.out.is_file() && !args.force {
        return Err(format!("{path} exists; replace it with --force").into());
    }
    outputs::check(&[("--out", Some(&args.out))], &[])?;
    let options = SynthOptions {
        seed: args.seed,
        examples: args.examples,
        vocab_scale: args.vocab_scale,
        ..SynthOptions::default()
    };
    let output = Output::begin(&args.out).map_err(|error| format!("{path}: {error}"))?;
    let out = Stoppable { out: &output.file, stop: signals.stop() };
    let mut out = BufWriter::with_capacity(1 << 20, out);
    let written = write_tsv(&options, &mut out).map_err(|error| error.to_string());
    let written = written.and_then(|()| out.flush().map_err(|error| error.to_string()));
    drop(out);
    if signals.stop().is_made() {
        return Err(signals.interrupted(format!("interrupted: nothing is left in {path}")));
    }
    written.map_err(|why| format!("{path}: {why}"))?;
    output.finish().map_err(|error| format!("{path}: {error}"))?;
    say!("{} examples in {path}", args.examples);
    Ok(())
}

/// Writes until somebody asks to stop.
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
