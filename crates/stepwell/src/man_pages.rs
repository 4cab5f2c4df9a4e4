//! `stepwell completions` and `stepwell man`: shell completions and manual pages from the
//! definition of the command line.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Command;
use clap_mangen::Man;

use crate::cli::{self, CompletionsArgs, ManArgs};
use crate::failure::{Failure, STATUSES};
use crate::say::tell;
use crate::{outputs, say};

/// Prints a shell's completion script.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut cli::command(&[]), "stepwell", &mut script);
    say::whole(&String::from_utf8_lossy(&script))
}

/// Prints the page of a command, or writes all pages.
pub(crate) fn man(args: &ManArgs) -> Result<(), Failure> {
    let mut all = cli::command(&[]);
    all.build();
    let Some(directory) = &args.dir else {
        let mut command = &all;
        for name in &args.of {
            command = command.find_subcommand(name).ok_or_else(|| {
                let why = "give one that `stepwell --help` lists";
                Failure::Usage(format!("there is no command '{name}': {why}"))
            })?;
        }
        return say::whole(&page(command)?);
    };
    outputs::check_directory("--dir", directory)?;
    let fail = |error| format!("cannot make {}: {error}", directory.display());
    fs::create_dir_all(directory).map_err(fail)?;
    if !args.force
        && let Some(there) = files(&all, directory).into_iter().find(|file| file.exists())
    {
        let why = format!("{} exists; replace the pages with --force", there.display());
        return Err(Failure::Usage(why));
    }
    let pages = write(&all, directory)?;
    tell!("{pages} pages in {}", directory.display());
    Ok(())
}

/// The subcommands of a command that have pages.
fn below(command: &Command) -> impl Iterator<Item = &Command> {
    let below = command.get_subcommands();
    below.filter(|below| !below.is_hide_set() && below.get_name() != "help")
}

/// The file of a command's page.
fn file_of(command: &Command, directory: &Path) -> PathBuf {
    directory.join(format!("{}.1", name(command)))
}

/// The files of the pages of a command and its subcommands.
fn files(command: &Command, directory: &Path) -> Vec<PathBuf> {
    let of_below = below(command).flat_map(|below| files(below, directory));
    std::iter::once(file_of(command, directory)).chain(of_below).collect()
}

/// Writes the pages of a command and its subcommands; returns their number.
fn write(command: &Command, directory: &Path) -> Result<usize, String> {
    outputs::write_text(&file_of(command, directory), &page(command)?)?;
    below(command).map(|below| write(below, directory)).try_fold(1, |all, pages| Ok(all + pages?))
}

/// The name of a command's page, such as `stepwell-bench-ssd`.
fn name(command: &Command) -> String {
    command.get_display_name().unwrap_or(command.get_name()).to_owned()
}

/// The exit statuses as a section of a page.
fn statuses() -> String {
    let items = STATUSES.iter().map(|(status, what)| format!(".TP\n\\fB{status}\\fR\n{what}\n"));
    format!(".SH \"EXIT STATUS\"\n{}", items.collect::<String>())
}

fn page(command: &Command) -> Result<String, String> {
    let mut page = Vec::new();
    let mut named = command.clone().name(name(command));
    if command.get_name() == "stepwell" {
        // The text on exit statuses has a section of its own.
        named = named.after_help(None::<&str>);
    }
    let source = concat!("stepwell ", env!("CARGO_PKG_VERSION"));
    Man::new(named)
        .source(source)
        .manual("Stepwell")
        .render(&mut page)
        .map_err(|error| error.to_string())?;
    page.extend_from_slice(statuses().as_bytes());
    Ok(String::from_utf8_lossy(&page).into_owned())
}
