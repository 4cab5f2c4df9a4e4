//! Parses Rust source for `tidy`: code without comments and literals, and its functions.
//!
//! - **Why.** Words and braces in comments, strings and characters must not count.
//! - **How.** [`code`] blanks comments and the insides of literals and keeps every line end, so
//!   that positions remain valid; [`functions`] finds `fn name` in the rest and matches braces.

/// A function and its number of lines, from `fn` to its closing brace.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) name: String,
    /// 1 for the file's first line.
    pub(crate) line: usize,
    pub(crate) line_count: usize,
}

/// `source` with comments and the insides of literals replaced by spaces.
pub(crate) fn code(source: &str) -> String {
    let chars: Vec<char> = source.chars().collect();
    let mut code = String::with_capacity(source.len());
    let mut at = 0;
    while at < chars.len() {
        let end = literal_end(&chars, at).unwrap_or(at);
        code.extend(chars[at..end].iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
        if end == at {
            code.push(chars[at]);
        }
        at = end.max(at + 1);
    }
    code
}

/// End of the comment or literal that starts at `at`; `None` if none does.
fn literal_end(chars: &[char], at: usize) -> Option<usize> {
    let next = chars.get(at + 1).copied();
    match chars[at] {
        '/' if next == Some('/') => Some(find(chars, at, |c| c == '\n')),
        '/' if next == Some('*') => Some(block_comment_end(chars, at)),
        '"' => Some(quoted_end(chars, at, '"')),
        '\'' if next == Some('\\') || chars.get(at + 2) == Some(&'\'') => {
            Some(quoted_end(chars, at, '\''))
        }
        'r' if !continues_word(chars, at) => raw_string_end(chars, at),
        _ => None,
    }
}

/// Whether the `r` at `at` is part of a word such as `for`, unlike in `br"` and `cr"`.
fn continues_word(chars: &[char], at: usize) -> bool {
    let prefixed = at > 0 && matches!(chars[at - 1], 'b' | 'c');
    let before = if prefixed { at - 1 } else { at };
    before > 0 && is_word(chars[before - 1])
}

fn find(chars: &[char], at: usize, is: impl Fn(char) -> bool) -> usize {
    chars[at..].iter().position(|c| is(*c)).map_or(chars.len(), |skip| at + skip)
}

/// End of a block comment, which may be nested.
fn block_comment_end(chars: &[char], mut at: usize) -> usize {
    let mut depth = 0;
    while at + 1 < chars.len() {
        match (chars[at], chars[at + 1]) {
            ('/', '*') => depth += 1,
            ('*', '/') => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return at;
        }
    }
    chars.len()
}

/// End of a string or character with escapes.
fn quoted_end(chars: &[char], at: usize, quote: char) -> usize {
    let mut at = at + 1;
    while at < chars.len() {
        match chars[at] {
            '\\' => at += 2,
            c if c == quote => return at + 1,
            _ => at += 1,
        }
    }
    chars.len()
}

/// End of `r"..."` or `r#"..."#`; `None` for a raw identifier or a plain `r`.
fn raw_string_end(chars: &[char], at: usize) -> Option<usize> {
    let open = find(chars, at + 1, |c| c != '#');
    let hashes = open - at - 1;
    if chars.get(open) != Some(&'"') {
        return None;
    }
    let mut close = open + 1;
    while close < chars.len() {
        let tail = &chars[close + 1..chars.len().min(close + 1 + hashes)];
        if chars[close] == '"' && tail.len() == hashes && tail.iter().all(|c| *c == '#') {
            return Some(close + 1 + hashes);
        }
        close += 1;
    }
    Some(chars.len())
}

/// Whether `word` occurs in `code`, not as the end of a longer word.
pub(crate) fn has_word(code: &str, word: &str) -> bool {
    code.match_indices(word).any(|(at, _)| !ends_in_word(&code[..at]))
}

fn ends_in_word(code: &str) -> bool {
    code.chars().next_back().is_some_and(is_word)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Every function with a body in `code`, in order.
pub(crate) fn functions(code: &str) -> Vec<Function> {
    let mut functions = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let name: String = word_at(&code[at + 3..]);
        if name.is_empty() || ends_in_word(&code[..at]) {
            continue;
        }
        let Some(end) = body_end(&code[at..]) else { continue };
        let lines_before = code[..at].matches('\n').count();
        let line_count = code[at..at + end].matches('\n').count() + 1;
        functions.push(Function { name, line: lines_before + 1, line_count });
    }
    functions
}

fn word_at(code: &str) -> String {
    code.trim_start().chars().take_while(|c| is_word(*c)).collect()
}

/// Offset of the brace that closes the function at the start of `code`; `None` without a body.
fn body_end(code: &str) -> Option<usize> {
    let mut nested = 0_i64; // ( and [
    let mut braces = 0_i64;
    for (at, byte) in code.bytes().enumerate() {
        match byte {
            b'(' | b'[' => nested += 1,
            b')' | b']' => nested -= 1,
            b';' if nested == 0 && braces == 0 => return None,
            b'{' => braces += 1,
            b'}' => {
                braces -= 1;
                if braces == 0 && nested == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(source: &str) -> Vec<(String, usize, usize)> {
        let functions = functions(&code(source));
        functions.into_iter().map(|f| (f.name, f.line, f.line_count)).collect()
    }

    #[test]
    fn comments_and_literals_are_blank() {
        let blank = |source: &str| code(source).split_whitespace().collect::<String>();
        assert_eq!(blank("a // {\nb"), "ab");
        assert_eq!(blank("a /* { /* } */ { */ b"), "ab");
        assert_eq!(blank(r#"f("{ \" }", b"}")"#), "f(,b)");
        assert_eq!(blank("f(r\"\\\", r#\"\"{\"#, br##\"}\"#\"##)"), "f(,,b)");
        assert_eq!(blank("x: &'a str = '{'; '\\''; '\\u{7b}'; r#type"), "x:&'astr=;;;r#type");
        assert_eq!(blank("for\"{\""), "for");
    }

    #[test]
    fn code_keeps_every_line_end_also_of_broken_sources() {
        for source in ["a\n/* b\n", "\"x\n\\", "r#\"\n\"", "'\\", "/*", "r", "r##", ""] {
            assert_eq!(code(source).matches('\n').count(), source.matches('\n').count());
            functions(&code(source));
        }
    }

    #[test]
    fn a_function_runs_from_its_name_to_its_brace() {
        let source = "\nfn one() {}\n\npub fn two(\n    a: [u8; 4],\n) {\n    f('}');\n}\n";
        assert_eq!(measured(source), [("one".into(), 2, 1), ("two".into(), 4, 5)]);
    }

    #[test]
    fn inner_functions_count_for_themselves_and_for_the_outer_one() {
        let source = "fn outer() {\n    fn inner() {\n    }\n    let s = S { a: 1 };\n}\n";
        assert_eq!(measured(source), [("outer".into(), 1, 5), ("inner".into(), 2, 2)]);
    }

    #[test]
    fn declarations_and_pointers_have_no_body() {
        assert_eq!(measured("trait T { fn a(&self) -> [u8; 2]; }\nfn b() {\n}\n").len(), 1);
        assert_eq!(measured("type F = fn (u8) -> u8;\nstruct S { f: fn(u8) }\n"), []);
        assert_eq!(measured("let é_fn = 1; let b = é_fn + {2}; // fn c() {}\n"), []);
    }

    #[test]
    fn words_stand_alone() {
        assert!(has_word("  dbg!(x)", "dbg!"));
        assert!(!has_word("my_dbg!(x)", "dbg!"));
        assert!(!has_word(&code("// todo!()\n\"todo!\""), "todo!"));
    }
}
