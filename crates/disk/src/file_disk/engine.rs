//! Engines of a file disk's queues.

use std::env;
use std::io;
use std::path::Path;
use std::sync::{Arc, Once};

use tracing::{debug, warn};

use super::open_files::OpenFiles;
use crate::error::ENGINE_VARIABLE;
use crate::pool::{Pool, PoolQueue};
use crate::queue::{Queue, QueueOptions};
use crate::uring::{self, UringQueue};
use crate::{Error, Result};

/// Number of threads in the pool.
const POOL_THREADS: usize = 32;

/// Logs the lack of rings once, not for every disk.
static NO_RINGS: Once = Once::new();

/// How the operations of queues are performed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// By the environment variable `STEPWELL_IO_ENGINE` (`auto`, `uring`, `pool`); if it is unset
    /// or `auto`, rings of the kernel if available, otherwise threads.
    Auto,
    /// Rings of the kernel; an error if they are not available.
    Uring,
    /// Threads.
    Pool,
}

/// The engine of all directories reached from one disk.
#[derive(Debug)]
pub(super) struct Engines {
    kind: Kind,
    pool: Arc<Pool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Rings,
    /// Rings, but threads for a queue whose ring is refused.
    RingsFirst,
    Threads,
}

impl Engines {
    pub(super) fn new(engine: Engine, open_files: &OpenFiles) -> Result<Self> {
        let engine = if engine == Engine::Auto { from_environment()? } else { engine };
        let probe = || open_files.with_relief(uring::probe);
        let kind = match engine {
            Engine::Pool => Kind::Threads,
            Engine::Uring => probe().map(|()| Kind::Rings).map_err(refused)?,
            Engine::Auto => match probe() {
                Ok(()) => Kind::RingsFirst,
                Err(error) => {
                    NO_RINGS.call_once(|| {
                        warn!(%error, "io_uring is not available: threads read and write");
                    });
                    Kind::Threads
                }
            },
        };
        Ok(Self { kind, pool: Arc::new(Pool::new(POOL_THREADS)) })
    }

    pub(super) fn name(&self) -> &'static str {
        match self.kind {
            Kind::Rings | Kind::RingsFirst => "io_uring",
            Kind::Threads => "threads",
        }
    }

    pub(super) fn queue(
        &self,
        options: QueueOptions,
        path: &Path,
        open_files: &OpenFiles,
    ) -> Result<Box<dyn Queue>> {
        if self.kind != Kind::Threads {
            match open_files.with_relief(|| UringQueue::new(options, path.to_owned())) {
                Ok(queue) => return Ok(Box::new(queue)),
                // Out of descriptors or locked memory: only this queue uses threads.
                Err(error) if self.kind == Kind::RingsFirst => {
                    let (directory, depth) = (path.display(), options.depth);
                    debug!(%directory, depth, %error, "io_uring refuses a queue: it uses threads");
                }
                Err(error) => return Err(too_much(options, error)),
            }
        }
        Ok(Box::new(PoolQueue::new(options, &self.pool, path)?))
    }
}

fn refused(error: io::Error) -> Error {
    let why = format!("io_uring was requested, but the system refuses it ({error})");
    Error::Engine { why, kind: error.kind() }
}

fn too_much(options: QueueOptions, error: io::Error) -> Error {
    let QueueOptions { depth, .. } = options;
    let why = format!(
        "io_uring refuses a queue of {depth} operations ({error}): request fewer, or raise the \
         limit on open files (ulimit -n) or locked memory (ulimit -l)",
    );
    Error::Engine { why, kind: error.kind() }
}

fn from_environment() -> Result<Engine> {
    match env::var_os(ENGINE_VARIABLE) {
        None => Ok(Engine::Auto),
        Some(name) => parse(&name.to_string_lossy()),
    }
}

fn parse(name: &str) -> Result<Engine> {
    match name {
        "" | "auto" => Ok(Engine::Auto),
        "uring" => Ok(Engine::Uring),
        "pool" => Ok(Engine::Pool),
        other => {
            let why = format!("there is no engine '{other}' for reads and writes");
            Err(Error::Engine { why, kind: io::ErrorKind::InvalidInput })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_have_names() {
        for (name, engine) in [
            ("", Engine::Auto),
            ("auto", Engine::Auto),
            ("uring", Engine::Uring),
            ("pool", Engine::Pool),
        ] {
            assert_eq!(parse(name).unwrap(), engine);
        }
        let message = parse("aio").unwrap_err().to_string();
        assert!(message.contains("'aio'") && message.contains(ENGINE_VARIABLE), "{message}");
        assert_eq!(Engines::new(Engine::Pool, &OpenFiles::of_process()).unwrap().name(), "threads");
    }
}
