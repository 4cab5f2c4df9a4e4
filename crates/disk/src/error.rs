//! Errors of files; each names the operation, the path and, if there is one, the place in the file.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use stepwell_base::mend;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Environment variable that selects the engine of queues.
pub(crate) const ENGINE_VARIABLE: &str = "STEPWELL_IO_ENGINE";

/// An operation on a disk or a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Making a new file.
    Create,
    /// Opening a file that exists.
    Open,
    /// Reading from a file.
    Read,
    /// Writing to a file.
    Write,
    /// Setting a file's length.
    Truncate,
    /// Making a file's content durable.
    Sync,
    /// Asking for a file's length.
    Measure,
    /// Giving a file or a directory another name.
    Rename,
    /// Removing a file or a directory.
    Remove,
    /// Listing a directory, or checking for a name in it.
    List,
    /// Finding out a directory's identity.
    Identify,
    /// Linking or copying a file into another directory.
    Link,
    /// Making a directory's names durable.
    SyncDirectory,
    /// Making a directory.
    CreateDirectory,
    /// Taking a lock.
    Lock,
    /// Submitting a queue's operations.
    Submit,
}

impl Operation {
    /// All operations, for tests that make each of them fail.
    pub const ALL: [Self; 16] = [
        Self::Create,
        Self::Open,
        Self::Read,
        Self::Write,
        Self::Truncate,
        Self::Sync,
        Self::Measure,
        Self::Rename,
        Self::Remove,
        Self::List,
        Self::Identify,
        Self::Link,
        Self::SyncDirectory,
        Self::CreateDirectory,
        Self::Lock,
        Self::Submit,
    ];

    /// Whether the operation changes the disk's content or its durability.
    pub fn mutates(self) -> bool {
        !matches!(
            self,
            Self::Open
                | Self::Read
                | Self::Measure
                | Self::List
                | Self::Identify
                | Self::Lock
                | Self::Submit
        )
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Create => "create",
            Self::Open => "open",
            Self::Read => "read",
            Self::Write => "write",
            Self::Truncate => "set the length of",
            Self::Sync => "sync",
            Self::Measure => "measure",
            Self::Rename => "rename",
            Self::Remove => "remove",
            Self::List => "list",
            Self::Identify => "identify",
            Self::Link => "link",
            Self::SyncDirectory => "sync directory",
            Self::CreateDirectory => "create directory",
            Self::Lock => "lock",
            Self::Submit => "submit operations in",
        })
    }
}

/// A range of bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Offset of the first byte.
    pub offset: u64,
    /// Number of bytes.
    pub bytes: u64,
}

/// An operating error of a disk.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused an operation.
    #[error("cannot {operation} {}{}: {source}{}", path.display(), place(extent), mend(source))]
    Io {
        /// The operation.
        operation: Operation,
        /// The file or directory.
        path: PathBuf,
        /// The range of bytes, if the operation has one.
        extent: Option<Extent>,
        /// The system's reason.
        source: io::Error,
    },
    /// There is no room for a new file.
    #[error("no room for {} of {bytes} bytes: {source}; {}", path.display(), room_mend(source))]
    Room {
        /// The file, which was removed again.
        path: PathBuf,
        /// The room that it needs.
        bytes: u64,
        /// The system's reason.
        source: io::Error,
    },
    /// The requested engine for queues is not available.
    #[error("{why}; {ENGINE_VARIABLE} may be auto, uring or pool")]
    Engine {
        /// What is wrong.
        why: String,
        /// Kind of the system's error, or of this crate's.
        kind: io::ErrorKind,
    },
    /// A name that is not admitted below a disk's directory.
    #[error("'{name}' is not a valid file name below {}: {why}", path.display())]
    Name {
        /// The disk's directory.
        path: PathBuf,
        /// The name.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A file to read completely is larger than admitted.
    #[error("{} holds {bytes} bytes, but at most {bytes_max} were expected", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Length of the file.
        bytes: u64,
        /// The reader's bound.
        bytes_max: u64,
    },
}

fn place(extent: &Option<Extent>) -> String {
    extent.map_or_else(String::new, |Extent { offset, bytes }| {
        format!(" at offset {offset} ({bytes} bytes)")
    })
}

fn room_mend(source: &io::Error) -> &'static str {
    match mend(source) {
        "" => "free some space, or use another directory",
        mend => mend.trim_start_matches("; "),
    }
}

impl Error {
    /// An error of an operation on a file or directory as a whole.
    pub fn io(operation: Operation, path: &Path, source: io::Error) -> Self {
        Self::Io { operation, path: path.to_owned(), extent: None, source }
    }

    /// An error of an operation on a range of a file.
    pub fn io_at(
        operation: Operation,
        path: &Path,
        offset: u64,
        bytes: usize,
        source: io::Error,
    ) -> Self {
        let extent = Some(Extent { offset, bytes: bytes as u64 });
        Self::Io { operation, path: path.to_owned(), extent, source }
    }

    /// Whether the process or the system had no free descriptor, so that a retry may succeed.
    pub fn is_no_descriptor(&self) -> bool {
        match self {
            Self::Io { source, .. } | Self::Room { source, .. } => {
                stepwell_base::is_exhausted(source)
            }
            _ => false,
        }
    }

    /// The system's kind of error; `InvalidInput` and `InvalidData` for this crate's own.
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            Self::Io { source, .. } | Self::Room { source, .. } => source.kind(),
            Self::Engine { kind, .. } => *kind,
            Self::Name { .. } => io::ErrorKind::InvalidInput,
            Self::TooLarge { .. } => io::ErrorKind::InvalidData,
        }
    }
}
