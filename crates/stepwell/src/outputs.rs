//! Files that a command writes its figures to.
//!
//! Refused before the work begins where they cannot be written, or where they are something that
//! the command reads. Written beside their place and moved there, so that a full disk leaves an
//! older file as it was.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

/// What follows the name of a file that is being written.
const UNFINISHED: &str = ".unfinished";

/// Refuses outputs, each with the flag that names it, that cannot be written, that are one file,
/// or that are one of `inputs` or lie in one.
pub(crate) fn check(outputs: &[(&str, Option<&Path>)], inputs: &[PathBuf]) -> Result<(), String> {
    let given = outputs.iter().filter_map(|(flag, path)| Some((*flag, (*path)?)));
    let mut before = Vec::new();
    for (flag, path) in given {
        let fail = |why: String| Err(format!("{flag} {}: {why}", path.display()));
        let real = match writable(path) {
            Ok(real) => real,
            Err(error) => return fail(error.to_string()),
        };
        for input in inputs.iter().filter_map(|input| input.canonicalize().ok()) {
            if real == input {
                return fail("this run reads that file: name another one".to_owned());
            }
            if real.starts_with(&input) {
                let input = input.display();
                return fail(format!("it lies in {input}, which this run reads: name another one"));
            }
        }
        if before.contains(&real) {
            return fail("named for two outputs: name two files".to_owned());
        }
        before.push(real);
    }
    Ok(())
}

/// Refuses two outputs that are one file; none is tried, since another run may be writing one.
pub(crate) fn check_apart(one: (&str, &Path), other: (&str, &Path)) -> Result<(), String> {
    let place = |path: &Path| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).canonicalize();
        path.canonicalize().or_else(|_| Ok(folder?.join(path.file_name().unwrap_or_default())))
    };
    let places: [std::io::Result<PathBuf>; 2] = [one.1, other.1].map(place);
    if let [Ok(first), Ok(second)] = places
        && first == second
    {
        return Err(format!("{} {} is also {}: name two files", one.0, one.1.display(), other.0));
    }
    Ok(())
}

/// Where `path` really is, after a try to write to it, which changes nothing.
fn writable(path: &Path) -> std::io::Result<PathBuf> {
    let existed = path.exists();
    fs::File::options().append(true).create(true).open(path)?;
    let real = path.canonicalize()?;
    if !existed {
        fs::remove_file(path)?;
    }
    Ok(real)
}

/// Writes figures, where a place for them was named.
pub(crate) fn write(path: Option<&Path>, figures: &impl Serialize) -> Result<(), String> {
    let Some(path) = path else { return Ok(()) };
    let text = serde_json::to_string_pretty(figures).map_err(|error| error.to_string())? + "\n";
    let fail = |error: std::io::Error| format!("cannot write {}: {error}", path.display());
    // A device or a pipe is written as it is.
    if path.exists() && !path.is_file() {
        return fs::write(path, text).map_err(fail);
    }
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(UNFINISHED);
    let unfinished = PathBuf::from(unfinished);
    let written = fs::write(&unfinished, text).and_then(|()| fs::rename(&unfinished, path));
    written.map_err(|error| {
        let _ = fs::remove_file(&unfinished);
        fail(error)
    })
}
