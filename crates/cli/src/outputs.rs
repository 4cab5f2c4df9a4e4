//! Files that a command writes.
//!
//! Before the work begins, files are refused that cannot be written or that the command reads under
//! any name: files are compared by device and inode. A file is written next to its place under an
//! unused name, synced and moved there, so that a full disk or a power cut leaves an older file
//! unchanged. The next process that writes the same file removes temporary files of killed
//! processes: a temporary name has the number of its process, and nobody holds the lock.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use serde::Serialize;
use stepwell_base::mend;
use stepwell_data::publish;

use crate::failure::Failure;

/// Longest target name that the temporary name includes: names have at most 255 bytes.
const NAME_MAX: usize = 180;

/// Refuses outputs, given with their flags, that cannot be written, are the same file, or are one
/// of `inputs` or in one.
pub fn check(outputs: &[(&str, Option<&Path>)], inputs: &[PathBuf]) -> Result<(), Failure> {
    let given = outputs.iter().filter_map(|(flag, path)| Some((*flag, (*path)?)));
    let mut before: Vec<PathBuf> = Vec::new();
    for (flag, path) in given {
        let fail = |why: String| Err(Failure::Usage(format!("{flag} {}: {why}", path.display())));
        let real = match writable(path) {
            Ok(real) => real,
            Err(error) => return fail(explain(path, &error)),
        };
        for input in inputs.iter().filter_map(|input| input.canonicalize().ok()) {
            if real == input || is_one_file(&real, &input) {
                return fail("this run reads that file: name another one".to_owned());
            }
            if real.starts_with(&input) {
                let input = input.display();
                return fail(format!("it is in {input}, which this run reads: name another one"));
            }
            if has_other_names(&real) && holds(&input, &real) {
                let input = input.display();
                return fail(format!(
                    "it is another name of a file in {input}, which this run reads: name another \
                     one"
                ));
            }
        }
        if before.iter().any(|other| *other == real || is_one_file(other, &real)) {
            return fail("named for two outputs: name two files".to_owned());
        }
        before.push(real);
    }
    Ok(())
}

/// Whether both are names of one existing file.
fn is_one_file(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| {
        let about = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
        Some((about.dev(), about.ino()))
    };
    identity(one).is_some_and(|of| identity(other) == Some(of))
}

/// Whether a file has other hard links.
fn has_other_names(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|about| about.is_file() && about.nlink() > 1)
}

/// Whether `file` is in a directory or below it.
fn holds(directory: &Path, file: &Path) -> bool {
    fs::read_dir(directory).into_iter().flatten().flatten().any(|entry| match entry.file_type() {
        Ok(of) if of.is_dir() => holds(&entry.path(), file),
        Ok(of) => of.is_file() && is_one_file(&entry.path(), file),
        Err(_) => false,
    })
}

/// Refuses two outputs that are the same file. Does not try to write, since another run may be
/// writing one of them.
pub fn check_apart(flag: &str, path: &Path, key: &str, other: &Path) -> Result<(), Failure> {
    if are_one(path, other) {
        let path = path.display();
        return Err(Failure::Usage(format!("{flag} {path} is also {key}: name two files")));
    }
    Ok(())
}

/// Whether two paths name the same file or directory, which need not exist yet.
pub fn are_one(one: &Path, other: &Path) -> bool {
    let place = |path: &Path| {
        path.canonicalize().or_else(|_| {
            let folder = folder_of(path).canonicalize()?;
            Ok(folder.join(path.file_name().unwrap_or_default()))
        })
    };
    let places: [io::Result<PathBuf>; 2] = [one, other].map(place);
    matches!(places, [Ok(first), Ok(second)] if first == second) || is_one_file(one, other)
}

/// The canonical form of `path`, after an attempt to write there, which changes nothing.
fn writable(path: &Path) -> io::Result<PathBuf> {
    if fs::metadata(path).is_ok_and(|about| about.file_type().is_fifo()) {
        // Opening a pipe would wait for its reader, and closing it would end the reader's data.
        // A pipe without a name, as /dev/stdout may be, has no canonical path.
        return path.canonicalize().or_else(|_| Ok(path.to_owned()));
    }
    match File::create_new(path) {
        Ok(_) => {
            let real = path.canonicalize();
            fs::remove_file(path)?;
            real
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let real = path.canonicalize()?;
            if File::options().append(true).open(path)?.metadata()?.is_file() {
                // The replacement is written next to the file first: check that this is possible.
                fs::remove_file(create_beside(&real)?.0)?;
            }
            Ok(real)
        }
        Err(error) => Err(error),
    }
}

/// Why nothing can be written to `path`, with the fix.
fn explain(path: &Path, error: &io::Error) -> String {
    let folder = folder_of(path);
    match (error.kind(), mend(error)) {
        (ErrorKind::NotFound, _) if !folder.is_dir() => {
            format!("there is no directory {}: create it, or name another place", folder.display())
        }
        (ErrorKind::IsADirectory, _) => "is a directory: name a file in it".to_owned(),
        (ErrorKind::NotADirectory, _) => {
            format!("{} is not a directory: name another place", folder.display())
        }
        (_, "") => format!("cannot be written: {error}; name another place"),
        (_, mend) => format!("cannot be written: {error}{mend}"),
    }
}

/// Writes figures as JSON if a file was named.
pub fn write(path: Option<&Path>, figures: &impl Serialize) -> Result<(), String> {
    let Some(path) = path else { return Ok(()) };
    let text = serde_json::to_string_pretty(figures).map_err(|error| error.to_string())? + "\n";
    write_text(path, &text)
}

/// Writes a text; an error names the file and the fix.
pub fn write_text(path: &Path, text: &str) -> Result<(), String> {
    let fail =
        |error: io::Error| format!("cannot write {}: {error}{}", path.display(), mend(&error));
    put_text(path, text).map_err(fail)
}

/// Writes a text.
///
/// # Errors
/// If the disk refuses; an existing file is then unchanged.
pub fn put_text(path: &Path, text: &str) -> io::Result<()> {
    let mut output = Output::begin(path)?;
    output.file.write_all(text.as_bytes())?;
    output.finish()
}

/// Refuses a directory in which no file can be created. A missing one is not created yet.
pub fn check_directory(flag: &str, path: &Path) -> Result<(), Failure> {
    let fail = |why: String| Err(Failure::Usage(format!("{flag} {}: {why}", path.display())));
    if path.exists() && !path.is_dir() {
        return fail("is not a directory: name another place".to_owned());
    }
    let tried = match fs::create_dir(path) {
        Ok(()) => fs::remove_dir(path),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            create_beside(&path.join("events")).and_then(|(tried, _)| fs::remove_file(tried))
        }
        Err(error) => Err(error),
    };
    tried.or_else(|error| fail(explain(path, &error)))
}

/// A file that is being written. Dropping it before [`Output::finish`] removes it.
#[derive(Debug)]
pub struct Output {
    /// The file, under a temporary name until [`finish`](Output::finish).
    pub file: File,
    /// Temporary and final path; `None` for a device or a pipe, which is written directly.
    moves: Option<(PathBuf, PathBuf)>,
}

impl Output {
    /// Begins the file that will be at `path`, or at the target of a link there. An existing file
    /// stays until the new one is complete.
    pub fn begin(path: &Path) -> io::Result<Self> {
        let there = fs::metadata(path).ok();
        if there.as_ref().is_some_and(|about| !about.is_file()) {
            return Ok(Self { file: open_special(path)?, moves: None });
        }
        let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        sweep(&target);
        let (unfinished, file) = create_beside(&target)?;
        let output = Self { file, moves: Some((unfinished, target)) };
        if let Some(about) = there {
            output.file.set_permissions(about.permissions())?;
        }
        Ok(output)
    }

    /// Gives the file its name, durably.
    pub fn finish(&mut self) -> io::Result<()> {
        let Some((unfinished, target)) = &self.moves else { return Ok(()) };
        publish(&self.file, unfinished, target)?;
        self.moves = None;
        Ok(())
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some((unfinished, _)) = &self.moves {
            // An error cannot be reported here.
            let _ = fs::remove_file(unfinished);
        }
    }
}

/// Opens a device or a pipe, which is written directly. Refuses a pipe without a reader, as opening
/// it would wait.
///
/// A pipe is opened only once: its reader would take the end of a first opening for the end of the
/// data.
pub fn open_special(path: &Path) -> io::Result<File> {
    if !fs::metadata(path)?.file_type().is_fifo() {
        return File::options().write(true).open(path);
    }
    let opened = File::options().write(true).custom_flags(libc::O_NONBLOCK).open(path);
    let file = opened.map_err(|error| match error.raw_os_error() {
        Some(libc::ENXIO) => {
            io::Error::other("it is a pipe that nobody reads; start its reader first")
        }
        _ => error,
    })?;
    // From here on, writes wait for a full pipe.
    let flags = fcntl_getfl(&file)?;
    fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
    Ok(file)
}

/// End of a temporary name.
const END: &str = "-unfinished";

/// Start of the temporary names for `target`, before the number of the process.
fn start_beside(target: &Path) -> String {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let name = if name.len() > NAME_MAX { "" } else { &*name };
    format!(".{name}.stepwell-")
}

/// Creates a file next to `target` under an unused name, locked until it is closed.
fn create_beside(target: &Path) -> io::Result<(PathBuf, File)> {
    let (start, process) = (start_beside(target), std::process::id());
    let mut number = 0u32;
    loop {
        let path = folder_of(target).join(format!("{start}{process}-{number}{END}"));
        number += 1;
        let file = match File::create_new(&path) {
            // Left by an earlier process with the same number.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
            made => made?,
        };
        // Without locks, as on some network file systems, nobody else can lock it either.
        let _ = file.try_lock();
        // Another process may have taken it for a leftover before it was locked, and removed it.
        if path.symlink_metadata().is_ok() {
            return Ok((path, file));
        }
    }
}

/// Removes what killed processes left next to `target`. What cannot be removed stays for the next
/// process.
fn sweep(target: &Path) {
    let start = start_beside(target);
    let is_gone = |name: &str| {
        let numbers = name.strip_prefix(&start)?.strip_suffix(END)?;
        let (process, number) = numbers.split_once('-')?;
        let (process, _): (u32, u32) = (process.parse().ok()?, number.parse().ok()?);
        Some(!Path::new("/proc").join(process.to_string()).exists())
    };
    for entry in fs::read_dir(folder_of(target)).into_iter().flatten().flatten() {
        let path = entry.path();
        if is_gone(&entry.file_name().to_string_lossy()) != Some(true)
            || !path.symlink_metadata().is_ok_and(|about| about.is_file())
        {
            continue;
        }
        // The process may be alive on another machine, where it holds the lock.
        let lock = File::open(&path);
        if lock.is_ok_and(|file| file.try_lock().is_ok()) {
            let _ = fs::remove_file(&path);
        }
    }
}

/// The parent directory of a path.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_taken_are_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("figures.json");
        let (first, _) = create_beside(&target).unwrap();
        fs::write(&first, "another's").unwrap();
        write_text(&target, "{}").unwrap();
        assert_eq!(fs::read_to_string(&first).unwrap(), "another's");
        assert_eq!(fs::read_to_string(&target).unwrap(), "{}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
        let long = folder.path().join("n".repeat(255));
        write_text(&long, "{}").unwrap();
        assert_eq!(fs::read_to_string(&long).unwrap(), "{}");
    }

    #[test]
    fn what_is_not_finished_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("figures.json");
        fs::write(&target, "older").unwrap();
        let mut output = Output::begin(&target).unwrap();
        output.file.write_all(b"half").unwrap();
        drop(output);
        assert_eq!(fs::read_to_string(&target).unwrap(), "older");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_reader_of_a_pipe_gets_all_that_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        // More than a pipe holds, so that writing waits for its reader.
        let text = "0123456789abcdef".repeat(1 << 14);
        for _ in 0..50 {
            let from = pipe.clone();
            let reader = std::thread::spawn(move || fs::read_to_string(from).unwrap());
            // Refused until the reader has opened it.
            while write_text(&pipe, &text).is_err() {
                std::thread::yield_now();
            }
            assert_eq!(reader.join().unwrap(), text);
        }
    }

    #[test]
    fn links_lead_to_the_file_and_modes_stay() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("real.json"), folder.path().join("link.json"));
        fs::write(&target, "older").unwrap();
        fs::set_permissions(&target, fs::Permissions::from_mode(0o600)).unwrap();
        symlink(&target, &link).unwrap();
        write_text(&link, "newer").unwrap();
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&target).unwrap(), "newer");
        assert_eq!(target.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
}
