//! The cost of a put for the thread that puts: a bulk load onto a disk that accepts all writes and
//! keeps none, or into a directory that is made and removed.
//!
//! ```text
//! cargo run --release -p stepwell-ssd --example put -- [ROWS] [ROUNDS] [DIRECTORY]
//! ```

#![expect(clippy::print_stdout, reason = "its figures are what it is for")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use stepwell_base::Key;
use stepwell_base::random::{Stream, finalize};
use stepwell_disk::{
    Buffer, Disk, Done, EntryKind, File, FileDisk, Identity, Lock, MemDisk, Queue, QueueOptions,
    Result, Wait,
};
use stepwell_ssd::{Store, StoreOptions};

const ROW_BYTES: usize = 256;
const BATCH: usize = 1024;
/// Number of distinct rows; they are put again under other keys.
const ROWS_MADE: usize = 1 << 20;

/// A disk in memory whose direct files discard their bytes.
#[derive(Debug)]
struct Sink(MemDisk);

impl Disk for Sink {
    fn path(&self) -> &Path {
        self.0.path()
    }

    fn directory(&self, path: &Path) -> Result<Arc<dyn Disk>> {
        self.0.directory(path)
    }

    fn make_directory(&self, path: &Path) -> Result<()> {
        self.0.make_directory(path)
    }

    fn remove_directory(&self, path: &Path) -> Result<()> {
        self.0.remove_directory(path)
    }

    fn identity(&self, path: &Path) -> Result<Identity> {
        self.0.identity(path)
    }

    fn entries(&self) -> Result<Vec<(String, EntryKind)>> {
        self.0.entries()
    }

    fn bytes_free(&self) -> Result<u64> {
        self.0.bytes_free()
    }

    fn create(&self, name: &str) -> Result<Arc<dyn File>> {
        self.0.create(name)
    }

    fn open(&self, name: &str) -> Result<Arc<dyn File>> {
        self.0.open(name)
    }

    fn create_direct(&self, name: &str, bytes: u64) -> Result<Arc<dyn File>> {
        Ok(Arc::new(Forgetful { of: self.0.create(name)?, bytes: bytes.into() }))
    }

    fn open_direct(&self, name: &str) -> Result<Arc<dyn File>> {
        self.0.open_direct(name)
    }

    fn exists(&self, name: &str) -> Result<bool> {
        self.0.exists(name)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.0.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.0.rename(from, to)
    }

    fn list(&self) -> Result<Vec<String>> {
        self.0.list()
    }

    fn try_link(&self, name: &str, directory: &Path, to: &str) -> Result<bool> {
        self.0.try_link(name, directory, to)
    }

    fn sync_directory(&self) -> Result<()> {
        self.0.sync_directory()
    }

    fn lock(&self, name: &str) -> Result<Option<Box<dyn Lock>>> {
        self.0.lock(name)
    }

    fn lock_shared(&self, name: &str) -> Result<Option<Box<dyn Lock>>> {
        self.0.lock_shared(name)
    }

    fn queue(&self, options: QueueOptions) -> Result<Box<dyn Queue>> {
        Ok(Box::new(Forgets { depth: options.depth, tokens: Vec::new() }))
    }
}

/// A file that only has a length.
#[derive(Debug)]
struct Forgetful {
    of: Arc<dyn File>,
    bytes: AtomicU64,
}

impl File for Forgetful {
    fn path(&self) -> &Path {
        self.of.path()
    }

    fn len(&self) -> Result<u64> {
        Ok(self.bytes.load(Ordering::Relaxed))
    }

    fn write_at(&self, _offset: u64, _bytes: &[u8]) -> Result<()> {
        Ok(())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.of.read_at(offset, buffer)
    }

    fn truncate(&self, bytes: u64) -> Result<()> {
        self.bytes.store(bytes, Ordering::Relaxed);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn is_direct(&self) -> bool {
        true
    }
}

/// A queue whose writes are done once they are waited for.
#[derive(Debug)]
struct Forgets {
    depth: usize,
    tokens: Vec<u64>,
}

impl Queue for Forgets {
    fn in_flight(&self) -> usize {
        self.tokens.len()
    }

    fn read(&mut self, _: u64, _: &Arc<dyn File>, _: u64, _: usize) -> Result<bool> {
        unreachable!("a load reads nothing")
    }

    fn write(
        &mut self,
        token: u64,
        _: &Arc<dyn File>,
        _: u64,
        _: &Arc<Buffer>,
        _: usize,
    ) -> Result<bool> {
        let room = self.tokens.len() < self.depth;
        if room {
            self.tokens.push(token);
        }
        Ok(room)
    }

    fn complete(&mut self, wait: Wait, done: &mut dyn FnMut(Done<'_>)) -> Result<usize> {
        let count = if wait == Wait::ForOne { self.tokens.len() } else { 0 };
        self.tokens.drain(..count).for_each(|token| done(Done { token, outcome: Ok(&[]) }));
        Ok(count)
    }
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let rows = arguments.next().map_or(Ok(10_000_000), |rows| rows.parse::<usize>())?;
    let rounds = arguments.next().map_or(Ok(3), |rounds| rounds.parse::<usize>())?;
    let directory = arguments.next();
    let mut dice = Stream::from_state(1);
    let made: Vec<u8> =
        (0..ROWS_MADE * ROW_BYTES / 8).flat_map(|_| dice.next_u64().to_le_bytes()).collect();
    let used = vec![0; BATCH];
    for _ in 0..rounds {
        let options = StoreOptions {
            rows_hint: rows as u64,
            index_bytes_max: u64::MAX,
            ..StoreOptions::new(0, ROW_BYTES)
        };
        let disk: Arc<dyn Disk> = match &directory {
            Some(directory) => Arc::new(FileDisk::create(Path::new(directory))?),
            None => Arc::new(Sink(MemDisk::new())),
        };
        let store = Store::create(disk, options)?;
        let (mut keys, mut put) = (Vec::new(), 0);
        let started = Instant::now();
        while put < rows {
            let count = BATCH.min(rows - put);
            keys.clear();
            keys.extend((put..put + count).map(|number| Key(finalize(number as u64 + 1))));
            let first = put % ROWS_MADE * ROW_BYTES;
            store.put_many(&keys, &used[..count], &made[first..first + count * ROW_BYTES])?;
            put += count;
        }
        if directory.is_some() {
            store.commit()?;
        }
        let ns = started.elapsed().as_secs_f64() * 1e9 / rows as f64;
        let bytes = store.stats().index_bytes as f64 / store.stats().rows_live as f64;
        println!("{ns:.1} ns a row, {bytes:.3} bytes of the index");
        if let Some(directory) = &directory {
            drop(store);
            std::fs::remove_dir_all(directory)?;
        }
    }
    Ok(())
}
