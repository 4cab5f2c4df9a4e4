//! Arguments of `stepwell completions` and `stepwell man`.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

/// `stepwell completions`.
#[derive(Debug, Args)]
#[command(after_help = "\
For example:
  stepwell completions bash > ~/.local/share/bash-completion/completions/stepwell
  stepwell completions zsh > ~/.zfunc/_stepwell
  stepwell completions fish > ~/.config/fish/completions/stepwell.fish")]
pub(crate) struct CompletionsArgs {
    /// Shell to complete for
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
}

/// `stepwell man`.
#[derive(Debug, Args)]
#[command(after_help = "\
For example:
  stepwell man store check | man -l -
  stepwell man --dir ~/.local/share/man/man1")]
pub(crate) struct ManArgs {
    /// Command whose page is printed, such as train or store check (default: stepwell itself)
    #[arg(value_name = "COMMAND", conflicts_with = "dir")]
    pub(crate) of: Vec<String>,
    /// Write the pages of all commands into this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Replace existing pages
    #[arg(long, requires = "dir")]
    pub(crate) force: bool,
}
