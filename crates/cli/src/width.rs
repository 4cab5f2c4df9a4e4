//! Lines that fit a terminal.

use std::borrow::Cow;

use console::{Term, measure_text_width as width};

/// Least columns of a terminal for which lines are folded: in fewer, nothing fits next to a name.
const LEAST: usize = 40;

/// Width of a terminal; `None` if it isn't one or is too narrow.
pub fn columns(of: &Term) -> Option<usize> {
    let (_, columns) = of.size_checked().filter(|_| of.is_term())?;
    Some(usize::from(columns)).filter(|columns| *columns >= LEAST)
}

/// Breaks lines that are longer than `columns` between words. In a line such as `name      value`
/// continuation lines start below the value, in others they are indented by two. A word that is too
/// long stays whole, so that paths can be copied.
pub fn folded(text: &str, columns: Option<usize>) -> Cow<'_, str> {
    let Some(columns) = columns.filter(|columns| text.lines().any(|line| width(line) > *columns))
    else {
        return Cow::Borrowed(text);
    };
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    for line in text.split_inclusive('\n') {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        fold(line, columns, &mut out);
        out.push_str(end);
    }
    Cow::Owned(out)
}

fn fold(line: &str, columns: usize, out: &mut String) {
    let (indent, mut at) = (indent(line, columns), 0);
    for word in line.split_inclusive(' ') {
        if at > indent && at + width(word.trim_end()) > columns {
            out.truncate(out.trim_end_matches(' ').len());
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent));
            at = indent;
        }
        // A continuation line begins with a word.
        if word != " " || at != indent {
            out.push_str(word);
            at += width(word);
        }
    }
}

/// Indentation of a line's continuation lines.
fn indent(line: &str, columns: usize) -> usize {
    let begin = width(line) - width(line.trim_start());
    let value = line.trim_start().find("  ").map(|end| {
        let (name, value) = line.trim_start().split_at(end);
        begin + width(name) + width(value) - width(value.trim_start())
    });
    value.filter(|value| *value <= columns / 2).unwrap_or(begin + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_between_words_below_their_values() {
        let text = "examples        500 in 2.1 s\nrows            180 of them were in memory\n";
        let all = "examples        500 in 2.1 s\nrows            180 of them were\n                \
                   in memory\n";
        assert_eq!(
            folded(text, Some(40)),
            all.replace("were\n", "were in\n").replace("in memory", "memory")
        );
        assert_eq!(folded(text, Some(34)), all);
        assert_eq!(folded(text, Some(42)), text);
        assert_eq!(folded(text, None), text);
    }

    #[test]
    fn a_word_that_fits_nowhere_stays_whole() {
        let path = "/a/very/long/path/of/a/file/that/fits/nowhere";
        let text = format!("stepwell: {path}: no such file");
        let broken = format!("stepwell:\n  {path}:\n  no such file");
        assert_eq!(folded(&text, Some(40)), broken);
        assert_eq!(folded(path, Some(40)), path);
    }

    #[test]
    fn no_line_is_wider_and_no_word_is_lost() {
        let words = ["a", "bb,", "ccc", "dddd", "\u{e9}\u{e9}\u{e9}", "(ffffff)"];
        for count in 1..60 {
            let line: Vec<&str> = words.iter().cycle().take(count).copied().collect();
            for begin in ["", "  ", "name            "] {
                let text = format!("{begin}{}", line.join(" "));
                let broken = folded(&text, Some(40));
                assert!(broken.lines().all(|line| width(line) <= 40), "{broken}");
                assert!(broken.split_whitespace().eq(text.split_whitespace()));
            }
        }
    }
}
