//! The text of a kernel's file with all of its includes, since NVRTC looks up no files.

use std::path::{Path, PathBuf};

use crate::{Result, file_name, read};

/// The text of `file`, with every header in `folder` inserted at its first include. Lines keep
/// their numbers and files, so that the compiler's messages point to the sources.
pub(crate) fn expand(file: &Path, folder: &Path) -> Result<String> {
    let mut text = String::new();
    put(file, folder, &mut Vec::new(), &mut text)?;
    Ok(text)
}

fn put(file: &Path, folder: &Path, seen: &mut Vec<PathBuf>, text: &mut String) -> Result<()> {
    let name = file_name(file)?;
    *text += &format!("#line 1 \"{name}\"\n");
    for (index, line) in read(file)?.lines().enumerate() {
        if line == "#pragma once" {
            *text += "\n";
            continue;
        }
        // Headers that the prelude includes for the C++ compiler don't exist for NVRTC.
        let header = line.strip_prefix("#include \"").and_then(|rest| rest.strip_suffix('"'));
        let header = header.map(|header| folder.join(header)).filter(|header| header.exists());
        match header {
            Some(header) if seen.contains(&header) => *text += "\n",
            Some(header) => {
                seen.push(header.clone());
                put(&header, folder, seen, text)?;
                *text += &format!("#line {} \"{name}\"\n", index + 2);
            }
            None => *text += &format!("{line}\n"),
        }
    }
    Ok(())
}
