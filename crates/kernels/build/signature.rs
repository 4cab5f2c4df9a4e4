//! Reads signatures of kernels from their sources.
//!
//! ```text
//! KERNEL_LANES(name, IN(float) from, OUT(float) to, u32 count) { ... }
//! KERNEL_BLOCK(name, 256, IN(u32) values, u32 count) { ... }
//! ```

use crate::Result;

/// A kernel, as declared in its source.
pub(crate) struct Kernel {
    pub(crate) name: String,
    file: String,
    /// Threads of every block of a KERNEL_BLOCK.
    threads: Option<u32>,
    params: Vec<Param>,
}

struct Param {
    name: String,
    access: &'static str,
    of: String,
}

/// Accesses, by the macros that declare them.
const ACCESSES: [(&str, &str); 4] =
    [("IN", "In"), ("OUT", "Out"), ("INOUT", "InOut"), ("ATOMIC", "Atomic")];

/// Types, by their names in C++ and Rust.
const TYPES: [(&str, &str); 7] = [
    ("u8", "U8"),
    ("u16", "U16"),
    ("u32", "U32"),
    ("u64", "U64"),
    ("i32", "I32"),
    ("float", "F32"),
    ("double", "F64"),
];

/// Structs that both languages know; they are passed only by pointer.
const STRUCTS: [&str; 2] = ["PoolTable", "UpdateTable"];

/// Text that may not occur in kernels of lanes, as these can't synchronize.
const MEETINGS: [&str; 5] = ["__sync", "__shfl_", "_sync(", "SHARED(", "__threadfence"];

/// The kernels that `text`, the source `file`, declares.
pub(crate) fn kernels(text: &str, file: &str) -> Result<Vec<Kernel>> {
    let mut kernels = Vec::new();
    for (macro_name, is_block) in [("\nKERNEL_LANES(", false), ("\nKERNEL_BLOCK(", true)] {
        for (at, _) in text.match_indices(macro_name) {
            let inside = enclosed(&text[at + macro_name.len() - 1..], '(', ')')
                .ok_or_else(|| format!("{file}: a declaration without its closing bracket"))?;
            let kernel = kernel(inside, is_block, file)?;
            let rest = &text[at + macro_name.len() + inside.len() + 1..];
            let body = enclosed(rest.trim_start(), '{', '}')
                .ok_or_else(|| format!("{file}: {} has no body", kernel.name))?;
            if let Some(word) = MEETINGS.iter().find(|word| !is_block && body.contains(**word)) {
                return Err(format!("{file}: lanes of {} may not meet: {word}", kernel.name));
            }
            kernels.push((at, kernel));
        }
    }
    kernels.sort_by_key(|(at, _)| *at);
    Ok(kernels.into_iter().map(|(_, kernel)| kernel).collect())
}

/// The text between the bracket at the start of `text` and its closing bracket.
fn enclosed(text: &str, open: char, close: char) -> Option<&str> {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        depth += i32::from(c == open) - i32::from(c == close);
        if depth == 0 {
            return text.get(open.len_utf8()..at);
        }
    }
    None
}

fn kernel(inside: &str, is_block: bool, file: &str) -> Result<Kernel> {
    let mut parts = inside.split(',').map(str::trim);
    let name = parts.next().unwrap_or_default().to_owned();
    let threads = if is_block {
        let text = parts.next().unwrap_or_default();
        Some(text.parse().map_err(|_| format!("{file}: {name}: `{text}` is no count of threads"))?)
    } else {
        None
    };
    let params = parts.map(|part| param(part).ok_or_else(|| format!("{file}: {name}: `{part}`")));
    let params = params.collect::<Result<_>>()?;
    Ok(Kernel { name, file: file.to_owned(), threads, params })
}

fn param(text: &str) -> Option<Param> {
    let (of, name) = text.rsplit_once(' ')?;
    let (access, of) = match of.split_once('(') {
        Some((word, of)) => {
            let access = ACCESSES.iter().find(|(known, _)| *known == word)?.1;
            (access, of.strip_suffix(')')?)
        }
        None => ("Value", of),
    };
    let is_known =
        TYPES.iter().any(|(known, _)| *known == of) || (access != "Value" && STRUCTS.contains(&of));
    is_known.then(|| Param { name: name.to_owned(), access, of: of.to_owned() })
}

impl Kernel {
    /// The kernel as a Rust expression.
    pub(crate) fn rust(&self) -> String {
        let Self { name, file, threads, .. } = self;
        let kind = match threads {
            Some(threads) => format!("Kind::Block {{ threads: {threads} }}"),
            None => "Kind::Lanes".to_owned(),
        };
        let params: String = self.params.iter().map(Param::rust).collect();
        format!(
            "    Kernel {{ name: {name:?}, file: {file:?}, kind: {kind}, params: &[\n{params}    \
             ], entry: stepwell_kernel_{name} }},\n"
        )
    }
}

impl Param {
    fn rust(&self) -> String {
        let Self { name, access, of } = self;
        let known = TYPES.iter().find(|(known, _)| known == of);
        let (ty, bytes) = match known {
            Some((_, rust)) => {
                (format!("ScalarType::{rust}"), format!("ScalarType::{rust}.bytes()"))
            }
            None => (format!("ScalarType::Struct({of:?})"), format!("size_of::<crate::{of}>()")),
        };
        format!(
            "        Param {{ name: {name:?}, access: Access::{access}, ty: {ty}, \
             element_bytes: {bytes} }},\n"
        )
    }
}
