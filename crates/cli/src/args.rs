//! Command lines: parsing and help.

use std::ffi::{OsStr, OsString};

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Command, FromArgMatches};
use console::Term;

use crate::failure::Failure;
use crate::{launcher, say, width};

/// Parser of an argument that is one of these names: help and completions list them. It accepts any
/// text; the code that reads the value rejects unknown names, in one line with the key.
#[derive(Clone, Debug)]
pub struct Named(pub Vec<&'static str>);

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

/// Parses the command line `args`, which begins with the program's name. If it only asks for help
/// or the version, prints that and ends the process.
///
/// # Errors
/// If the command line is wrong or the help cannot be written.
pub fn parse<C: FromArgMatches>(
    command: Command,
    args: Vec<OsString>,
) -> Result<(ArgMatches, C), Failure> {
    let parsed = command.try_get_matches_from(args).and_then(|matches| {
        let parsed = C::from_arg_matches(&matches)?;
        Ok((matches, parsed))
    });
    match parsed {
        Ok(parsed) => Ok(parsed),
        Err(answer) if is_help(&answer) && launcher::speaks() => answer.exit(),
        Err(answer) if answer.use_stderr() => Err(launcher::report_once(&wrong(&answer))),
        Err(answer) => {
            help(&answer)?;
            std::process::exit(answer.exit_code());
        }
    }
}

/// Whether a command was given without arguments, which prints its help.
fn is_help(answer: &clap::Error) -> bool {
    answer.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
}

/// The error of a command line, in one line.
fn wrong(answer: &clap::Error) -> Failure {
    let text = answer.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let is_said = |line: &&str| !line.starts_with("Usage:") && !line.starts_with("For more");
    let lines = text.lines().take_while(is_said).map(str::trim).filter(|line| !line.is_empty());
    // Leave out the tip to pass an unknown flag as a value: most are mistyped.
    let lines = lines.filter(|line| !line.contains("as a value, use '"));
    let line = lines.fold(String::new(), |line, next| match line.chars().last() {
        None => next.to_owned(),
        Some(':') => line + " " + next,
        Some(_) => line + "; " + next,
    });
    Failure::Usage(line)
}

/// Prints help or the version; on a terminal in colour and folded to its width.
fn help(answer: &clap::Error) -> Result<(), Failure> {
    match width::columns(&Term::stdout()) {
        None => say::written(answer.print()),
        columns => say::whole(&width::folded(&answer.render().ansi().to_string(), columns)),
    }
}
