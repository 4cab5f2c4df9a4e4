//! Arguments of `stepwell-lab`, typed. No I/O happens here.

mod bench;
mod cache_sim;
mod study;

use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory, Parser, Subcommand};
use stepwell_cache_sim::Candidate;
use stepwell_cli::Failure;
use stepwell_cli::args::{self, Named};
use stepwell_cli::failure::statuses;
use stepwell_cli::log::Verbosity;
use stepwell_settings::ModelKind;

pub(crate) use self::bench::{
    BenchArgs, BenchCpuArgs, BenchHbmArgs, BenchJob, BenchMemArgs, BenchRanksArgs, BenchSsdArgs,
    BenchTrainArgs,
};
pub(crate) use self::cache_sim::CacheSimArgs;
pub(crate) use self::study::{
    CostsArgs, CtrStudyArgs, GivenCosts, HashStudyArgs, OneStudyArgs, RnaArgs, StudyArgs, StudyJob,
};

/// Measures the parts of Stepwell, runs the papers' experiments, and tries eviction policies
#[derive(Debug, Parser)]
#[command(name = "stepwell-lab", version)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) verbosity: Verbosity,
    /// The command.
    #[command(subcommand)]
    pub(crate) job: Job,
}

/// A command.
#[derive(Debug, Subcommand)]
pub(crate) enum Job {
    /// Measure a part against what the machine can do
    Bench(BenchArgs),
    /// Run a paper's experiments on how ranks agree, on a virtual clock
    Study(StudyArgs),
    /// Try eviction policies on traces of look-ups
    CacheSim(CacheSimArgs),
}

/// Destination of figures as JSON: `--json` prints them, `--json FILE` writes a file; a file named
/// `-` is standard output.
pub(crate) type Json = Option<Option<PathBuf>>;

/// The file that figures go to.
pub(crate) fn file_of(json: &Json) -> Option<&Path> {
    json.as_ref()?.as_deref().filter(|path| *path != Path::new("-"))
}

/// Whether the command prints figures as JSON.
pub(crate) fn is_said(json: &Json) -> bool {
    json.is_some() && file_of(json).is_none()
}

/// Parses the command line of this process.
///
/// # Errors
/// If the command line is wrong or the help cannot be written.
pub(crate) fn parse() -> Result<Cli, Failure> {
    let (_, cli) = args::parse(command(), std::env::args_os().collect())?;
    Ok(cli)
}

/// All commands, with the names that their arguments accept.
fn command() -> Command {
    let models = |command: Command| {
        let models = Named(ModelKind::OF_ANY_DATA.map(ModelKind::name).to_vec());
        command.mut_arg("models", |arg| arg.value_parser(models))
    };
    let mut policies = Candidate::ALL.map(Candidate::name).to_vec();
    policies.insert(0, "all");
    Cli::command()
        .mut_subcommand("bench", |bench| {
            let bench = bench::with_quick(bench);
            ["train", "cpu", "ranks"].iter().fold(bench, |of, name| of.mut_subcommand(name, models))
        })
        .mut_subcommand("cache-sim", |command| {
            command.mut_arg("policies", |arg| arg.value_parser(Named(policies)))
        })
        .after_help(statuses())
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches as _;

    use super::*;

    /// Every benchmark accepts the defaults that `--quick` gives.
    #[test]
    fn quick_is_a_flag_of_every_benchmark() {
        let bench = command();
        let bench = bench.find_subcommand("bench").into_iter().flat_map(Command::get_subcommands);
        let names: Vec<&str> =
            bench.filter(|of| !of.is_hide_set()).map(Command::get_name).collect();
        for name in names {
            let args = ["stepwell-lab", "bench", name, "--quick", "--dir", "."];
            let has_dir = ["ssd", "train", "ranks"].contains(&name);
            let args = if has_dir { &args[..] } else { &args[..4] };
            let parsed = command().try_get_matches_from(args);
            assert!(parsed.is_ok_and(|matches| Cli::from_arg_matches(&matches).is_ok()), "{name}");
        }
    }
}
