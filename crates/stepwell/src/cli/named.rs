//! Arguments that are one of a few names, which help and completions list. The parser accepts any
//! text: the code that reads the setting refuses unknown names, in one line with the key.

use clap::Command;
use stepwell_cli::args::Named;
use stepwell_settings::{Config, ModelKind, PresetKind};

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
    let command = ["train", "tune", "config", "plan"]
        .iter()
        .fold(command, |command, name| command.mut_subcommand(name, of_settings));
    command.mut_subcommand("convert", |command| {
        command.mut_arg("preset", |arg| arg.value_parser(presets()))
    })
}
