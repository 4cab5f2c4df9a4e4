//! Standard input and other pipes: data that can be read only once.
//!
//! The first bytes are kept, so that any number of readers can examine them. The first reader to go
//! beyond them takes the rest; for any other reader that is an error. A stop request ends a read
//! that waits for data.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, IsTerminal, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stepwell_base::stop::StopRequest;

use crate::error::DataError;
use crate::open_file::{Unreadable, explain};

/// Bytes kept from the start: a block of text, the most that is ever examined, and a decompressor's
/// read-ahead.
pub(super) const HEAD_BYTES: usize = 2 << 20;
/// Bytes per read of the start.
const STEP_BYTES: u64 = 64 << 10;

/// Opened streams, by name: a pipe can be opened only once.
static OPENED: Mutex<BTreeMap<PathBuf, Arc<Stream>>> = Mutex::new(BTreeMap::new());

/// Whether `path` is standard input, such as `-`, or another pipe that this process inherited.
/// Named pipes are excluded, as opening one may block forever.
pub fn is_stream(path: &Path) -> bool {
    let handed = ["/dev/stdin", "/dev/fd", "/proc/self/fd"];
    path == Path::new("-")
        || (handed.iter().any(|of| path.starts_with(of))
            && std::fs::metadata(path).is_ok_and(|about| about.file_type().is_fifo()))
}

type Rest = Box<dyn Read + Send>;

#[derive(Debug)]
struct Stream {
    name: PathBuf,
    state: Mutex<State>,
}

struct State {
    /// First bytes.
    head: Vec<u8>,
    /// The rest, until a reader takes it.
    rest: Option<Rest>,
    /// Whether the stream ends after `head`.
    ended: bool,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("head", &self.head.len()).finish_non_exhaustive()
    }
}

impl Stream {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reader of a stream.
pub(crate) struct StreamFile {
    stream: Arc<Stream>,
    at: usize,
    /// The rest, once this reader has taken it. // only accessed through `&mut`
    rest: Mutex<Option<Rest>>,
}

impl std::fmt::Debug for StreamFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { stream, at, .. } = self;
        f.debug_struct("StreamFile").field("stream", stream).field("at", at).finish_non_exhaustive()
    }
}

impl StreamFile {
    pub(super) fn open(path: &Path) -> Result<Self, DataError> {
        let wrong = |why: String| DataError::Path { path: path.to_owned(), why };
        let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stream) = opened.get(path) {
            return Ok(Self { stream: Arc::clone(stream), at: 0, rest: Mutex::default() });
        }
        let source = if path == Path::new("-") {
            let input = std::io::stdin();
            if input.is_terminal() {
                let why = "is standard input, which is a terminal: send the data to it (|, <)";
                return Err(wrong(why.to_owned()));
            }
            input.as_fd().try_clone_to_owned().map(File::from)
        } else {
            File::open(path)
        };
        let source = source.map_err(|error| wrong(explain(&error)))?;
        let source = UntilStop { source, stop: StopRequest::of_process() };
        let stream = Arc::new(Stream::new(path, Box::new(source)));
        opened.insert(path.to_owned(), Arc::clone(&stream));
        Ok(Self { stream, at: 0, rest: Mutex::default() })
    }

    pub(super) fn again(&self) -> Self {
        Self { stream: Arc::clone(&self.stream), at: 0, rest: Mutex::default() }
    }
}

/// Reads a file until a stop is requested, even while no data arrives.
struct UntilStop {
    source: File,
    stop: StopRequest,
}

impl Read for UntilStop {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        match self.stop.wait_readable(self.source.as_fd())? {
            true => self.source.read(into),
            false => Err(StopRequest::error()),
        }
    }
}

impl Stream {
    fn new(name: &Path, source: Box<dyn Read + Send>) -> Self {
        let state = State { head: Vec::new(), rest: Some(source), ended: false };
        Self { name: name.to_owned(), state: Mutex::new(state) }
    }

    /// Reads bytes of the head from `at`. At the end of the head, returns no bytes and the rest of
    /// the stream, unless it has ended.
    fn read(&self, at: usize, into: &mut [u8]) -> std::io::Result<(usize, Option<Rest>)> {
        let mut state = self.state();
        let State { head, rest, ended } = &mut *state;
        if at == head.len() && head.len() < HEAD_BYTES && !*ended {
            let room = STEP_BYTES.min((HEAD_BYTES - head.len()) as u64);
            let read = match rest {
                Some(rest) => rest.as_mut().take(room).read_to_end(head)?,
                None => 0,
            };
            *ended = (read as u64) < room;
        }
        if at < head.len() {
            return Ok(((&head[at..]).read(into)?, None));
        }
        if *ended {
            return Ok((0, None));
        }
        match rest.take() {
            Some(rest) => Ok((0, Some(rest))),
            None => Err(Unreadable::error(
                ErrorKind::Other,
                format!(
                    "{} can be read only once, and already was: write the data to a file, and name \
                     that file",
                    match self.name == Path::new("-") {
                        true => "standard input",
                        false => "a pipe",
                    }
                ),
            )),
        }
    }
}

impl Read for StreamFile {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        let own = self.rest.get_mut().unwrap_or_else(PoisonError::into_inner);
        if own.is_none() {
            let (read, rest) = self.stream.read(self.at, into)?;
            self.at += read;
            match rest {
                None => return Ok(read),
                rest => *own = rest,
            }
        }
        own.as_mut().map_or(Ok(0), |rest| rest.read(into))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(bytes: usize) -> (StreamFile, Vec<u8>) {
        let all: Vec<u8> = (0..bytes).map(|n| (n / 7) as u8).collect();
        let source = Box::new(std::io::Cursor::new(all.clone()));
        let stream = Arc::new(Stream::new(Path::new("-"), source));
        (StreamFile { stream, at: 0, rest: Mutex::default() }, all)
    }

    #[test]
    fn the_beginning_is_read_as_often_as_anybody_likes_and_all_of_it_once() {
        let (first, all) = open(HEAD_BYTES + 100_000);
        for bytes in [1, 70_000, HEAD_BYTES] {
            let mut read = Vec::new();
            first.again().take(bytes as u64).read_to_end(&mut read).unwrap();
            assert_eq!(read, all[..bytes]);
        }
        let mut read = Vec::new();
        first.again().read_to_end(&mut read).unwrap();
        assert!(read == all);
        let error = first.again().read_to_end(&mut read).unwrap_err().to_string();
        assert_eq!(
            error,
            "standard input can be read only once, and already was: write the data to a file, and \
             name that file"
        );
    }

    #[test]
    fn a_short_stream_is_read_as_often_as_anybody_likes() {
        for bytes in [0, 1, STEP_BYTES as usize, HEAD_BYTES - 1] {
            let (first, all) = open(bytes);
            for _ in 0..3 {
                let mut read = Vec::new();
                first.again().read_to_end(&mut read).unwrap();
                assert!(read == all, "{bytes}");
            }
        }
    }
}
