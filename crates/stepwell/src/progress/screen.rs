//! The terminal that bars are drawn on.

use std::io;

use console::Term;
use indicatif::TermLike;

/// Columns left free at the end of a bar, where terminals echo `^C`. Bars are padded to the width
/// of their terminal, so an echo would start a new line that nobody clears.
pub(super) const ECHO: u16 = 4;

/// Standard error, reported as [`ECHO`] columns narrower than it is.
#[derive(Debug)]
pub(super) struct Screen(Term);

impl Screen {
    pub(super) fn new() -> Self {
        Self(Term::buffered_stderr())
    }
}

impl TermLike for Screen {
    fn width(&self) -> u16 {
        TermLike::width(&self.0).saturating_sub(ECHO).max(1)
    }

    fn height(&self) -> u16 {
        TermLike::height(&self.0)
    }

    fn move_cursor_up(&self, n: usize) -> io::Result<()> {
        self.0.move_cursor_up(n)
    }

    fn move_cursor_down(&self, n: usize) -> io::Result<()> {
        self.0.move_cursor_down(n)
    }

    fn move_cursor_right(&self, n: usize) -> io::Result<()> {
        self.0.move_cursor_right(n)
    }

    fn move_cursor_left(&self, n: usize) -> io::Result<()> {
        self.0.move_cursor_left(n)
    }

    fn write_line(&self, s: &str) -> io::Result<()> {
        self.0.write_line(s)
    }

    fn write_str(&self, s: &str) -> io::Result<()> {
        self.0.write_str(s)
    }

    fn clear_line(&self) -> io::Result<()> {
        self.0.clear_line()
    }

    fn flush(&self) -> io::Result<()> {
        self.0.flush()
    }
}
