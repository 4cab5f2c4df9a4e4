//! What a piece of work cost this process: time, CPU time, bytes to and from the disk, memory.
//!
//! - **How.** Wall time from the monotonic clock, CPU time from the process's CPU clock (user and
//!   system of all threads, as getrusage has it), bytes from `/proc/self/io`: what the block layer
//!   was asked for, at the time it was asked (for buffered writes, when pages became dirty). The
//!   memory's peak is the system's own mark (`VmHWM`), put back when the work begins; pages of the
//!   page cache are not in it.
//! - **Failure.** Linux alone: a missing `/proc/self/io` is an error that says so.

use std::num::NonZero;
use std::path::Path;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use crate::Result;

/// The costs of something under way.
#[derive(Debug)]
pub(crate) struct Meter {
    began: Instant,
    cpu: Duration,
    transferred: Transferred,
}

/// The costs of something done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spent {
    pub(crate) seconds: f64,
    pub(crate) cpu_seconds: f64,
    pub(crate) read_bytes: u64,
    pub(crate) write_bytes: u64,
    pub(crate) memory_peak_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Transferred {
    read_bytes: u64,
    write_bytes: u64,
}

impl Meter {
    pub(crate) fn start() -> Result<Self> {
        // 5 puts the mark of the most memory back to what is held now. A system that refuses
        // leaves the mark of all phases so far.
        let _ = std::fs::write("/proc/self/clear_refs", "5");
        let transferred = transferred()?;
        Ok(Self { began: Instant::now(), cpu: cpu(), transferred })
    }

    pub(crate) fn stop(self) -> Result<Spent> {
        let (seconds, cpu_now, now) = (self.began.elapsed(), cpu(), transferred()?);
        Ok(Spent {
            seconds: seconds.as_secs_f64(),
            cpu_seconds: cpu_now.saturating_sub(self.cpu).as_secs_f64(),
            read_bytes: now.read_bytes.saturating_sub(self.transferred.read_bytes),
            write_bytes: now.write_bytes.saturating_sub(self.transferred.write_bytes),
            memory_peak_bytes: memory_peak()?,
        })
    }
}

fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

fn transferred() -> Result<Transferred> {
    const PATH: &str = "/proc/self/io";
    let text = std::fs::read_to_string(PATH).map_err(|e| format!("cannot read {PATH}: {e}"))?;
    parse(&text).ok_or_else(|| format!("{PATH} has no read_bytes and write_bytes"))
}

fn parse(text: &str) -> Option<Transferred> {
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.strip_prefix(':')?.trim().parse().ok()
    };
    Some(Transferred { read_bytes: field("read_bytes")?, write_bytes: field("write_bytes")? })
}

/// The most memory held since the mark was put back.
fn memory_peak() -> Result<u64> {
    const PATH: &str = "/proc/self/status";
    let text = std::fs::read_to_string(PATH).map_err(|e| format!("cannot read {PATH}: {e}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.map(|kib| kib << 10).ok_or_else(|| format!("{PATH} has no VmHWM"))
}

/// The machine at the start of a run: figures taken beside other work are worth less.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) processor: String,
    pub(crate) kernel: String,
    pub(crate) cores: usize,
    /// Processes that wanted to run, as a mean over the last minute.
    pub(crate) load_average: f64,
}

impl Machine {
    pub(crate) fn here() -> Self {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let load = read("/proc/loadavg");
        let load = load.split_whitespace().next().and_then(|load| load.parse().ok());
        let processor = read("/proc/cpuinfo");
        let processor = processor.lines().find_map(|line| line.strip_prefix("model name"));
        Self {
            processor: processor.unwrap_or_default().trim_matches([' ', '\t', ':']).to_owned(),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            cores: available_parallelism().map_or(1, NonZero::get),
            load_average: load.unwrap_or(f64::NAN),
        }
    }
}

/// Bytes that the files under `path` take on the disk, once no more of them come and go.
///
/// An engine removes the files of its last compaction a moment after it reports it done.
pub(crate) fn settled_bytes(path: &Path) -> Result<u64> {
    const TRIES: usize = 50;
    let mut before = directory_bytes(path)?;
    for _ in 0..TRIES {
        std::thread::sleep(Duration::from_millis(100));
        let now = directory_bytes(path)?;
        if now == before {
            break;
        }
        before = now;
    }
    Ok(before)
}

fn directory_bytes(path: &Path) -> Result<u64> {
    use std::os::unix::fs::MetadataExt;
    const SECTOR_BYTES: u64 = 512;
    let mut bytes = 0;
    each_file(path, &mut |path| {
        // A file removed since the directory was listed takes no room.
        bytes += std::fs::metadata(path).map_or(0, |metadata| metadata.blocks() * SECTOR_BYTES);
    })?;
    Ok(bytes)
}

/// Shows every file under `path` to `file`.
pub(crate) fn each_file(path: &Path, file: &mut dyn FnMut(&Path)) -> Result<()> {
    let entries = match std::fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(format!("cannot list {}: {error}", path.display())),
    };
    for entry in entries {
        let entry = entry.map_err(|error| format!("cannot list {}: {error}", path.display()))?;
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        match is_directory {
            true => each_file(&entry.path(), file)?,
            false => file(&entry.path()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_proc_self_io_are_found_by_their_whole_name() {
        let text = "rchar: 1\nread_bytes: 4096\nwrite_bytes: 512\ncancelled_write_bytes: 7\n";
        let expected = Transferred { read_bytes: 4096, write_bytes: 512 };
        assert_eq!(parse(text), Some(expected));
        assert_eq!(parse("rchar: 1\ncancelled_write_bytes: 7\n"), None);
        assert_eq!(parse("read_bytes: x\nwrite_bytes: 1\n"), None);
    }

    #[test]
    fn work_costs_cpu_time_and_wall_time() {
        let meter = Meter::start().unwrap();
        let mut sum = 0u64;
        while meter.began.elapsed() < Duration::from_millis(20) {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        let spent = meter.stop().unwrap();
        assert!(spent.seconds >= 0.02, "{spent:?}");
        assert!(spent.cpu_seconds > 0.0, "{spent:?}");
        assert!(spent.memory_peak_bytes > 1 << 20, "{spent:?}");
    }

    #[test]
    fn a_directory_weighs_what_its_files_take() {
        let scratch = crate::scratch::Scratch::of_test("weighed");
        std::fs::create_dir(scratch.path().join("below")).unwrap();
        std::fs::write(scratch.path().join("below/file"), vec![1u8; 100_000]).unwrap();
        std::fs::File::open(scratch.path().join("below/file")).unwrap().sync_all().unwrap();
        let bytes = settled_bytes(scratch.path()).unwrap();
        assert!((100_000..200_000).contains(&bytes), "{bytes}");
        assert_eq!(settled_bytes(&scratch.path().join("absent")).unwrap(), 0);
    }
}
