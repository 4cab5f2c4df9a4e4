//! What the program says: the one place that writes to standard output and standard error.
//!
//! A run says how it goes with [`line()`] and what came of it with [`result()`], and goes on where
//! nobody can hear it. A command whose output is its job says it with [`whole`], and ends where
//! nobody can. What goes to standard error ([`end`], [`warn`], [`note`], [`remark`]) is lost where
//! that cannot be written, for there is nobody left to tell. With `--quiet` results, warnings and
//! errors are all that is said.

use std::fmt::{Arguments, Display};
use std::io::{ErrorKind, Write, stderr, stdout};
use std::sync::atomic::{AtomicBool, Ordering};

use console::Term;
use serde::Serialize;
use stepwell_base::mend;

use crate::failure::Failure;
use crate::width::{columns, folded};

/// Whether standard output has failed.
static UNHEARD: AtomicBool = AtomicBool::new(false);

/// Whether standard output is for results alone.
static ASIDE: AtomicBool = AtomicBool::new(false);

/// Whether nothing is said but results, warnings and errors.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Says nothing but results, warnings and errors from now on.
pub(crate) fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// Whether that is so.
pub(crate) fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Says what is said about the run on standard error from now on: the results of this command go
/// to standard output.
pub(crate) fn aside() {
    ASIDE.store(true, Ordering::Relaxed);
}

/// A line about a run, as `println!` takes it.
macro_rules! say {
    ($($text:tt)*) => { $crate::say::line(format_args!($($text)*)) };
}
pub(crate) use say;

/// A line of what came of a run, as `println!` takes it.
macro_rules! tell {
    ($($text:tt)*) => { $crate::say::result(format_args!($($text)*)) };
}
pub(crate) use tell;

/// Says a line about a run, unless all is to be quiet.
pub(crate) fn line(text: Arguments<'_>) {
    if !is_quiet() {
        put_line(text);
    }
}

/// Says what a run notes of itself, in one line, whatever names and values are in it.
pub(crate) fn told(note: &str) {
    line(format_args!("{}", visible(note)));
}

/// Says a line of what came of a run. Where standard output is for other results, this one is said
/// as a line about the run.
pub(crate) fn result(text: Arguments<'_>) {
    if !(is_quiet() && ASIDE.load(Ordering::Relaxed)) {
        put_line(text);
    }
}

/// Says a line, unless standard output has failed before; that it has is said once, but not where
/// the reader has simply seen enough.
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

/// Says all that a command has to say.
///
/// # Errors
/// That nobody reads it any more, or that it cannot be written.
pub(crate) fn whole(text: &str) -> Result<(), Failure> {
    let mut out = stdout().lock();
    written(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// Says figures as JSON, which are all that a command has to say.
///
/// # Errors
/// Those of [`whole`].
pub(crate) fn json(figures: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(figures).map_err(|error| error.to_string())?;
    whole(&(text + "\n"))
}

/// A path as JSON has it: what is no text in it is replaced, for a value has to be one.
pub(crate) fn path(path: &std::path::Path) -> String {
    path.display().to_string()
}

/// Several.
pub(crate) fn paths(paths: &[std::path::PathBuf]) -> Vec<String> {
    paths.iter().map(|of| path(of)).collect()
}

/// What becomes of a command that has said all.
///
/// # Errors
/// Those of [`whole`].
pub(crate) fn written(said: std::io::Result<()>) -> Result<(), Failure> {
    said.map_err(|why| match why.kind() {
        ErrorKind::BrokenPipe => Failure::Unheard,
        _ => Failure::Error(format!("cannot write to standard output: {why}{}", mend(&why))),
    })
}

/// Lines that are said together.
#[derive(Debug, Default)]
pub(crate) struct Page(String);

impl Page {
    /// Puts a line below the others.
    pub(crate) fn line(&mut self, line: Arguments<'_>) {
        self.0.push_str(&visible_lines(&line.to_string()));
        self.0.push('\n');
    }

    /// All lines.
    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    /// Says them as a command whose job they are.
    ///
    /// # Errors
    /// Those of [`whole`].
    pub(crate) fn say(&self) -> Result<(), Failure> {
        whole(&folded(&self.0, columns(&Term::stdout())))
    }
}

/// A line of a [`Page`], as `println!` takes it.
macro_rules! put {
    ($page:expr) => { $page.line(format_args!("")) };
    ($page:expr, $($text:tt)*) => { $page.line(format_args!($($text)*)) };
}
pub(crate) use put;

/// Says on standard error how far the program is.
pub(crate) fn remark(text: impl Display) {
    if !is_quiet() {
        error(visible_lines(&text.to_string()));
    }
}

fn error(text: impl Display) {
    let text = text.to_string();
    let text = folded(&text, columns(&Term::stderr()));
    // One write, so that lines of several threads stay apart.
    let _ = stderr().write_all(format!("{text}\n").as_bytes());
}

/// Says on standard error why the program ends, in one line, whatever names and values are in it.
pub(crate) fn end(text: &str) {
    error(format_args!("stepwell: {}", visible(text)));
}

/// Says on standard error what is worth knowing, in one line.
pub(crate) fn note(text: impl Display) {
    if !is_quiet() {
        error(format_args!("stepwell: note: {}", visible(&text.to_string())));
    }
}

/// Says on standard error what went wrong and does not end the program, in one line.
pub(crate) fn warn(text: impl Display) {
    error(format_args!("stepwell: warning: {}", visible(&text.to_string())));
}

/// A text with its control characters as escapes, such as `\n`.
fn visible(text: &str) -> String {
    escaped(text, |_| false)
}

/// The same of several lines, which stay as many.
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
