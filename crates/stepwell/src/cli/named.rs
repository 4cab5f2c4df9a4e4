//! Arguments that are one of a few names, which help and completions list. The parser accepts any
//! text: the code that reads the setting refuses unknown names, in one line with the key.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Command};
use stepwell_bench::cache_sim::PolicyKind;
use stepwell_settings::{Config, ModelKind, PresetKind};

/// A parser that accepts any text and lists the possible names.
#[derive(Clone, Debug)]
pub(super) struct Named(pub(super) Vec<&'static str>);

impl TypedValueParser for Named {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.0.iter().map(PossibleValue::new)))
    }
}

/// Adds the names of models, presets and policies to the arguments that take them.
pub(super) fn with_names(command: Command) -> Command {
    let models = || Named(ModelKind::ALL.map(ModelKind::name).to_vec());
    let presets = || Named(PresetKind::ALL.map(PresetKind::name).to_vec());
    let of_settings = |command: Command| {
        let default = Config::default().model.kind.name();
        let help = format!("Model to train [default: {default}]");
        let command = command.mut_arg("model", |arg| arg.value_parser(models()).help(help));
        command.mut_arg("preset", |arg| arg.value_parser(presets()))
    };
    let command = ["train", "config", "plan"]
        .iter()
        .fold(command, |command, name| command.mut_subcommand(name, of_settings));
    let command = command.mut_subcommand("convert", |command| {
        command.mut_arg("preset", |arg| arg.value_parser(presets()))
    });
    let of_bench = |command: Command| command.mut_arg("models", |arg| arg.value_parser(models()));
    let command = command.mut_subcommand("bench", |bench| {
        ["train", "cpu", "ranks"].iter().fold(bench, |of, name| of.mut_subcommand(name, of_bench))
    });
    let mut policies = PolicyKind::ALL.map(PolicyKind::name).to_vec();
    policies.insert(0, "all");
    command.mut_subcommand("cache-sim", |command| {
        command.mut_arg("policies", |arg| arg.value_parser(Named(policies)))
    })
}
