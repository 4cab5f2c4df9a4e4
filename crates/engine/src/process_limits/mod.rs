//! Limits of this process: the machine's memory, and the limits that it was started with.
//!
//! The machine's memory, or a container's control group, limits memory that is touched, which the
//! capacity plan counts. A limit on addresses (`ulimit -v`) or data (`ulimit -d`) also limits
//! reserved memory, and a process reserves far more than it touches. Beyond such a limit an
//! allocation fails and the process ends without a helpful message, so a run that could reach it is
//! rejected before it starts. So is one that could exceed the limit on open files (`ulimit -n`).
//!
//! In addition to the plan, measured on x86-64 with glibc 2.36 and mimalloc 3.3:
//! - 1 GiB that the allocator reserves when the process starts, if there is room. The process's
//!   current usage includes it, and it holds what the plan takes from the allocator, after 32 MiB
//!   per thread.
//! - 2 MiB of stack per thread, and 64 MiB of addresses that the C library reserves for each thread
//!   that allocates through it; the latter aren't data.

mod control_group;
mod files;

use std::fs;

use stepwell_base::ByteCount;

pub use self::files::{FilesWanted, files_at_first, lacks_files};

const MIB: u64 = 1 << 20;
/// Bytes that the allocator reserves at once.
const ARENA: u64 = 1 << 30;
/// Part of the arena that each thread takes.
const SEGMENT: u64 = 32 * MIB;
/// Stack of a thread, with its guard.
const STACK: u64 = 2 * MIB + (64 << 10);
/// Addresses that the C library reserves for a thread.
const HEAP: u64 = 64 * MIB;
/// Libraries loaded later and buffers of the system: a round number.
const OTHER: u64 = 64 * MIB;

/// Needs of a run.
#[derive(Clone, Copy, Debug)]
pub struct Wants {
    /// Bytes of the capacity plan.
    pub bytes: u64,
    /// Part of `bytes` that is mapped, not taken from the allocator.
    pub mapped: u64,
    /// Number of threads that the run starts.
    pub threads: u64,
    /// Number of processes like this one that share the machine's memory.
    pub processes: u64,
}

/// A limit of this process.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Limit {
    /// The shell command that sets the limit.
    set_by: &'static str,
    what: &'static str,
    bytes: u64,
    /// Amount that the process already uses.
    taken: u64,
    /// Amount that each thread needs.
    thread: u64,
}

impl Limit {
    /// Maximum that a run needs.
    fn needed(&self, wants: &Wants) -> u64 {
        let threads = wants.threads.saturating_mul(self.thread);
        let room = match self.taken >= ARENA {
            true => ARENA.saturating_sub(wants.threads.saturating_mul(SEGMENT)),
            false => 0,
        };
        // Without the arena, each thread still has a heap segment of its own.
        let apart = if self.taken >= ARENA { 0 } else { wants.threads.saturating_mul(SEGMENT) };
        let heap = wants.bytes.saturating_sub(wants.mapped).saturating_sub(room);
        [self.taken, wants.mapped, heap, threads, apart, OTHER]
            .into_iter()
            .fold(0, u64::saturating_add)
    }
}

/// Why a run doesn't fit here; `None` if it does.
pub fn lacks(wants: &Wants) -> Option<String> {
    let all = wants.bytes.saturating_mul(wants.processes);
    let total = match wants.processes {
        1 => ByteCount(all).to_string(),
        processes => format!("{} here ({processes} processes together)", ByteCount(all)),
    };
    if let Some(memory) = machine_bytes().filter(|memory| *memory < all) {
        let memory = ByteCount(memory);
        return Some(format!("the run may take {total} of memory, but this machine has {memory}"));
    }
    if let Some(limit) = control_group::limit().filter(|limit| limit.bytes < all) {
        return Some(format!(
            "the run may take {total} of memory, but its control group is limited to {} ({}): \
             raise that limit, or make the run smaller",
            ByteCount(limit.bytes),
            limit.file.display()
        ));
    }
    let [limits, status] = ["limits", "status"].map(|name| {
        // A system that doesn't report limits is taken to have none.
        fs::read_to_string(format!("/proc/self/{name}")).unwrap_or_default()
    });
    let limit = limits_of(&limits, &status).into_iter().find(|it| it.needed(wants) > it.bytes)?;
    let total = ByteCount(wants.bytes);
    Some(format!(
        "the run may take {total} of memory, for which this process with {} more threads needs up \
         to {} of {}, but its limit is {} ({}): raise it, or make the run smaller",
        wants.threads,
        ByteCount(limit.needed(wants)),
        limit.what,
        ByteCount(limit.bytes),
        limit.set_by
    ))
}

/// The limits in force, from files that Linux provides about a process.
fn limits_of(limits: &str, status: &str) -> Vec<Limit> {
    let limit = |name: &str| limit_of(limits, name);
    let taken = |name: &str| kib_of(status, name).unwrap_or(0);
    let mut found = Vec::new();
    if let Some(bytes) = limit("Max address space") {
        let (set_by, what, thread) = ("ulimit -v", "addresses", STACK + HEAP);
        found.push(Limit { set_by, what, bytes, taken: taken("VmSize:"), thread });
    }
    if let Some(bytes) = limit("Max data size") {
        let (set_by, what, thread) = ("ulimit -d", "data", STACK);
        found.push(Limit { set_by, what, bytes, taken: taken("VmData:"), thread });
    }
    found
}

/// The limit with this name; `None` if there is none.
fn limit_of(limits: &str, name: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Memory available to this process: the machine's, or its control groups' limit.
pub fn memory_bytes() -> Option<u64> {
    let of_groups = control_group::limit().map(|limit| limit.bytes);
    machine_bytes().into_iter().chain(of_groups).min()
}

/// Memory of this machine, according to Linux.
fn machine_bytes() -> Option<u64> {
    kib_of(&fs::read_to_string("/proc/meminfo").ok()?, "MemTotal:")
}

/// Bytes from a line of a file in /proc with a number of KiB.
fn kib_of(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: &str = "\
Limit                     Soft Limit           Hard Limit           Units
Max cpu time              unlimited            unlimited            seconds
Max data size             unlimited            unlimited            bytes
Max address space         2048000000           unlimited            bytes
";
    const STATUS: &str = "VmPeak:\t 1200000 kB\nVmSize:\t 1100000 kB\nVmData:\t 1060000 kB\n";

    #[test]
    fn limits_are_read_as_linux_writes_them() {
        let found = limits_of(LIMITS, STATUS);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].bytes, found[0].taken), (2_048_000_000, 1_100_000 * 1024));
        let data = LIMITS.replace("Max data size             unlimited", "Max data size    7");
        assert_eq!(limits_of(&data, STATUS)[1].taken, 1_060_000 * 1024);
        assert_eq!(limits_of("", ""), []);
    }

    #[test]
    fn what_the_allocator_has_already_is_not_needed_again() {
        let limit = Limit { set_by: "", what: "", bytes: 0, taken: ARENA + 7 * MIB, thread: STACK };
        let wants = Wants { bytes: 600 * MIB, mapped: 100 * MIB, threads: 10, processes: 1 };
        let threads = 10 * STACK;
        assert_eq!(limit.needed(&wants), limit.taken + 100 * MIB + threads + OTHER);
        let much = Wants { bytes: 2100 * MIB, ..wants };
        let beyond = 2000 * MIB - (ARENA - 10 * SEGMENT);
        assert_eq!(limit.needed(&much), limit.taken + 100 * MIB + beyond + threads + OTHER);
        // Without room for the arena, everything is needed in addition.
        let small = Limit { taken: 30 * MIB, ..limit };
        let all = 30 * MIB + 600 * MIB + threads + 10 * SEGMENT + OTHER;
        assert_eq!(small.needed(&wants), all);
        let absurd = Wants { bytes: u64::MAX, mapped: u64::MAX, threads: u64::MAX, processes: 1 };
        assert_eq!(limit.needed(&absurd), u64::MAX);
    }

    #[test]
    fn processes_share_the_machine_and_have_limits_of_their_own() {
        let memory = memory_bytes().unwrap();
        let wants = Wants { bytes: memory / 2, mapped: memory / 2, threads: 1, processes: 1 };
        assert_eq!(lacks(&wants), None);
        let why = lacks(&Wants { processes: 3, ..wants }).unwrap();
        assert!(why.contains("here (3 processes together) of memory"), "{why}");
        let absurd = Wants { bytes: u64::MAX, processes: 3, ..wants };
        assert!(lacks(&absurd).is_some());
    }
}
