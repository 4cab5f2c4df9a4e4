//! What the machine says of itself and of this process, and how huge pages are asked of it.

use std::fs::read_to_string;
use std::os::unix::process::CommandExt;
use std::process::Command;

use serde::Serialize;

use crate::Result;
use crate::options::Pages;

/// The machine of a figure.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    pub(crate) kernel: String,
    /// Processes that wanted to run, as means over 1, 5 and 15 minutes, at the start.
    pub(crate) load_average: String,
}

impl Machine {
    pub(crate) fn here() -> Self {
        let info = read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = info.lines().find(|line| line.starts_with("model name"));
        let cpu = model.and_then(|line| line.split_once(':')).map_or("", |(_, name)| name.trim());
        let kernel = read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self {
            cpu: cpu.to_owned(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: kernel.trim().to_owned(),
            load_average: load_average(),
        }
    }
}

/// Means over 1, 5 and 15 minutes.
pub(crate) fn load_average() -> String {
    let text = read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}

/// Bytes of memory that this process has, and those of them in huge pages.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Memory {
    pub(crate) bytes: u64,
    pub(crate) huge_bytes: u64,
}

impl Memory {
    /// Zeros where the system does not tell.
    pub(crate) fn now() -> Self {
        Self::parse(&read_to_string("/proc/self/smaps_rollup").unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        let bytes = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
            kibibytes.and_then(|number| number.parse::<u64>().ok()).map_or(0, |number| number << 10)
        };
        Self { bytes: bytes("Rss:"), huge_bytes: bytes("AnonHugePages:") }
    }

    /// What came since `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(before.bytes),
            huge_bytes: self.huge_bytes.saturating_sub(before.huge_bytes),
        }
    }
}

/// Begins the program anew with the settings of the C library's allocator that figures need,
/// where it does not have them yet: huge pages asked for or not, one heap for all threads, and
/// large arrays outside of it, so that what an engine had goes back to the system with it.
///
/// # Errors
/// When the program cannot be started.
pub(crate) fn set_up_allocator(pages: Pages) -> Result<()> {
    const VARIABLE: &str = "GLIBC_TUNABLES";
    let huge = match pages {
        Pages::Huge => 1,
        Pages::Plain => 0,
    };
    let wanted = format!(
        "glibc.malloc.hugetlb={huge}:glibc.malloc.arena_max=1:glibc.malloc.mmap_threshold=1048576"
    );
    if std::env::var(VARIABLE).is_ok_and(|tunables| tunables == wanted) {
        return Ok(());
    }
    let cannot = |error| format!("cannot start the program again: {error}");
    let program = std::env::current_exe().map_err(cannot)?;
    let mut again = Command::new(program);
    // Comes back only where it failed.
    let error = again.args(std::env::args_os().skip(1)).env(VARIABLE, wanted).exec();
    Err(cannot(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_in_bytes() {
        let text = "00400000-7fff ---p 00000000 00:00 0    [rollup]\nRss:              2048 kB\n\
                    Pss:  9 kB\nAnonHugePages:      1024 kB\n";
        let memory = Memory::parse(text);
        assert_eq!((memory.bytes, memory.huge_bytes), (2 << 20, 1 << 20));
        assert_eq!(Memory::parse("").bytes, 0);
        assert_eq!(Memory::parse("Rss: many kB").bytes, 0);
        assert_eq!(Memory::default().since(memory).bytes, 0);
        assert!(Memory::now().bytes > 0);
    }
}
