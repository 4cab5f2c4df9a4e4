//! Flags of every command that say how much it prints, and the log: events of the libraries, as
//! lines on standard error.
//!
//! - **Why.** The log is off by default: notes, warnings and errors are printed anyway, and scripts
//!   read standard error.
//! - **How.** Libraries emit events through `tracing` and read no clock for them; the time of a
//!   line is taken here. Lines go through [`say`], one per event.
//! - **Failure.** A line that cannot be written is lost, and the run continues.

use std::io::{self, Write};

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{fmt, registry};

use crate::say;

/// Levels of events, from the fewest to the most.
const LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];

/// Crates whose events are printed: Stepwell's own, and the one that retries requests to S3.
const SOURCES: [&str; 2] = ["stepwell", "object_store"];

/// How much a program prints.
#[derive(Clone, Copy, Debug, Args)]
pub struct Verbosity {
    /// Print only results, warnings and errors
    #[arg(long, short, global = true)]
    quiet: bool,
    /// Print events of this level and above to standard error, each with its time
    #[arg(long, global = true, value_name = "LEVEL", value_parser = level())]
    log: Option<LevelFilter>,
}

fn level() -> impl TypedValueParser<Value = LevelFilter> {
    PossibleValuesParser::new(LEVELS).try_map(|name| name.parse::<LevelFilter>())
}

impl Verbosity {
    /// Applies the flags to all later output.
    pub fn apply(self) {
        if self.quiet {
            say::be_quiet();
        }
        if let Some(level) = self.log {
            let sources = Targets::new().with_targets(SOURCES.map(|source| (source, level)));
            let lines = fmt::layer().with_ansi(false).with_writer(|| Line);
            // A second call would fail, but a program calls this once.
            let _ = registry().with(lines).with(sources).try_init();
        }
    }
}

/// Writes an event as a line of standard error; reports no error, which the caller would print.
struct Line;

impl Write for Line {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        say::event(&String::from_utf8_lossy(event));
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
