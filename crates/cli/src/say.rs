//! The program's output: the one place that writes to standard output and standard error.
//!
//! A run prints progress with [`line()`] and results with [`result()`], and continues if that
//! fails. A command whose purpose is its output prints it with [`whole`], and fails if that fails.
//! Errors in writing to standard error ([`end`], [`warn`], [`note`], [`remark`]) are ignored, as
//! they cannot be reported. With `--quiet`, only results, warnings and errors are printed.

use std::fmt::{Arguments, Display};
use std::io::{ErrorKind, Write, stderr, stdout};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use console::Term;
use serde::Serialize;
use stepwell_base::mend;

use crate::failure::Failure;
use crate::width::{columns, folded};
pub use crate::{__put as put, __say as say, __tell as tell};

/// The program's name.
static PROGRAM: OnceLock<&str> = OnceLock::new();

/// Whether standard output has failed.
static UNHEARD: AtomicBool = AtomicBool::new(false);

/// Whether standard output is only for the command's JSON.
static ASIDE: AtomicBool = AtomicBool::new(false);

/// Whether only results, warnings and errors are printed.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Prints a remark that begins with the program's name.
pub(crate) fn remark_of_program(text: &str) {
    remark(format!("{}: {text}", program()));
}

/// The program's name.
fn program() -> &'static str {
    PROGRAM.get().copied().unwrap_or("stepwell")
}

/// Begins lines on standard error with this program's name.
pub(crate) fn speak_as(program: &'static str) {
    PROGRAM.get_or_init(|| program);
}

/// Suppresses later output, except results, warnings and errors.
pub fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// Whether only results, warnings and errors are printed.
pub fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Redirects later lines about the run to standard error, and leaves standard output to the
/// command's JSON.
pub fn aside() {
    ASIDE.store(true, Ordering::Relaxed);
}

/// Prints a line about a run; takes the arguments of `println!`.
#[doc(hidden)]
#[macro_export]
macro_rules! __say {
    ($($text:tt)*) => { $crate::say::line(format_args!($($text)*)) };
}

/// Prints a result of a run; takes the arguments of `println!`.
#[doc(hidden)]
#[macro_export]
macro_rules! __tell {
    ($($text:tt)*) => { $crate::say::result(format_args!($($text)*)) };
}

/// Prints a line about a run, unless quiet.
pub fn line(text: Arguments<'_>) {
    if !is_quiet() {
        put_line(text);
    }
}

/// Prints a result of a run. If standard output is for JSON, it is printed like a line about the
/// run.
pub fn result(text: Arguments<'_>) {
    if !(is_quiet() && ASIDE.load(Ordering::Relaxed)) {
        put_line(text);
    }
}

/// Prints a line unless standard output has failed before. The first failure is reported, unless
/// the reader closed the pipe.
fn put_line(text: Arguments<'_>) {
    if ASIDE.load(Ordering::Relaxed) {
        return error(visible_lines(&text.to_string()));
    }
    if UNHEARD.load(Ordering::Relaxed) {
        return;
    }
    let text = visible_lines(&text.to_string());
    let mut out = stdout().lock();
    let text = folded(&text, columns(&Term::stdout()));
    let said = writeln!(out, "{text}").and_then(|()| out.flush());
    drop(out);
    if let Err(why) = said {
        let first = !UNHEARD.swap(true, Ordering::Relaxed);
        if first && why.kind() != ErrorKind::BrokenPipe {
            warn(format_args!("cannot write to standard output ({why}): the run continues"));
        }
    }
}

/// Prints the whole output of a command.
///
/// # Errors
/// If the reader closed the pipe, or writing fails.
pub fn whole(text: &str) -> Result<(), Failure> {
    let mut out = stdout().lock();
    written(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// Prints figures as JSON, as the whole output of a command.
///
/// # Errors
/// Same as [`whole`].
pub fn json(figures: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(figures).map_err(|error| error.to_string())?;
    whole(&(text + "\n"))
}

/// A path for JSON; bytes that are not UTF-8 are replaced.
pub fn path(path: &std::path::Path) -> String {
    path.display().to_string()
}

/// Several paths for JSON.
pub fn paths(paths: &[std::path::PathBuf]) -> Vec<String> {
    paths.iter().map(|of| path(of)).collect()
}

/// Converts the result of printing a command's output.
///
/// # Errors
/// Same as [`whole`].
pub fn written(said: std::io::Result<()>) -> Result<(), Failure> {
    said.map_err(|why| match why.kind() {
        ErrorKind::BrokenPipe => Failure::Unheard,
        _ => Failure::Error(format!("cannot write to standard output: {why}{}", mend(&why))),
    })
}

/// Lines that are printed together.
#[derive(Debug, Default)]
pub struct Page(String);

impl Page {
    /// Adds a line.
    pub fn line(&mut self, line: Arguments<'_>) {
        self.0.push_str(&visible_lines(&line.to_string()));
        self.0.push('\n');
    }

    /// All lines.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Prints them as the whole output of a command.
    ///
    /// # Errors
    /// Same as [`whole`].
    pub fn say(&self) -> Result<(), Failure> {
        whole(&folded(&self.0, columns(&Term::stdout())))
    }
}

/// Adds a line to a [`Page`]; takes the arguments of `println!`.
#[doc(hidden)]
#[macro_export]
macro_rules! __put {
    ($page:expr) => { $page.line(format_args!("")) };
    ($page:expr, $($text:tt)*) => { $page.line(format_args!($($text)*)) };
}

/// Prints progress of the program to standard error, unless quiet.
pub fn remark(text: impl Display) {
    if !is_quiet() {
        error(visible_lines(&text.to_string()));
    }
}

fn error(text: impl Display) {
    let text = text.to_string();
    let text = folded(&text, columns(&Term::stderr()));
    // One write, so that lines of several threads don't mix.
    let _ = stderr().write_all(format!("{text}\n").as_bytes());
}

/// Prints to standard error, as one line, text about the program, which begins with its name.
fn of_program(text: Arguments<'_>) {
    let (program, text) = (program(), text.to_string());
    error(format_args!("{program}: {}", visible(&text)));
}

/// Prints to standard error why the program ends, as one line with control characters escaped.
pub fn end(text: &str) {
    of_program(format_args!("{text}"));
}

impl Failure {
    /// Prints the failure, unless it was printed before.
    pub fn say(&self) {
        if !matches!(self, Self::Unheard | Self::Said(_)) {
            end(&self.to_string());
        }
    }
}

/// Prints an event of the log to standard error, as one line.
pub(crate) fn event(text: &str) {
    // A progress bar is drawn again on the next line.
    let over_bar = if Term::stderr().is_term() { "\r\x1b[2K" } else { "" };
    error(format_args!("{over_bar}{}", visible(text.trim_end())));
}

/// Prints a note to standard error as one line, unless quiet.
pub fn note(text: impl Display) {
    if !is_quiet() {
        of_program(format_args!("note: {text}"));
    }
}

/// Prints to standard error, as one line, a problem that does not end the program.
pub fn warn(text: impl Display) {
    of_program(format_args!("warning: {text}"));
}

/// Escapes control characters, for example as `\n`.
fn visible(text: &str) -> String {
    escaped(text, |_| false)
}

/// Escapes control characters other than line breaks and tabs.
fn visible_lines(text: &str) -> String {
    escaped(text, |c| c == '\n' || c == '\t')
}

fn escaped(text: &str, stays: fn(char) -> bool) -> String {
    let shown = |c: char| match c.is_control() && !stays(c) {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    text.chars().map(shown).collect()
}
