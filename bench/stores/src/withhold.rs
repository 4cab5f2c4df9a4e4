//! Keeps an engine's files out of the page cache, for engines that cannot read around it.
//!
//! - **How.** Where this process stands in a cgroup of version 2 whose children may have their
//!   memory bounded, it enters a child bounded to what is left of the engine's memory until the
//!   guard is dropped; what was allocated before stays charged where it was; pages cached by others
//!   before do not count, so the cache is dropped first. Elsewhere a thread asks the system every
//!   [`SWEEP`] to forget the files' pages (POSIX_FADV_DONTNEED): what is read twice within that
//!   time may still come from memory.
//! - **Failure.** Nothing here fails a run: what could not be done is said in a note.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::fs::{Advice, fadvise};

use crate::{Result, meter};

const SWEEP: Duration = Duration::from_millis(100);

/// While it lives, pages are withheld.
#[derive(Debug)]
#[expect(dead_code, reason = "guards are held to be dropped")]
pub(crate) enum Withheld {
    Bounded(Group, usize),
    Swept(Sweeper),
}

impl Withheld {
    /// Withholds the pages of the files in `directory`, but for `bytes` of them where possible.
    pub(crate) fn begin(directory: &Path, bytes: usize) -> Self {
        match Group::enter(bytes) {
            Ok(group) => Self::Bounded(group, bytes),
            Err(_) => Self::Swept(Sweeper::start(directory.to_path_buf())),
        }
    }

    /// How, in words.
    pub(crate) fn note(&self) -> String {
        match self {
            Self::Bounded(_, bytes) => format!("read in a cgroup of {} MiB", bytes >> 20),
            Self::Swept(_) => format!(
                "read through the page cache, whose pages were dropped every {} ms",
                SWEEP.as_millis()
            ),
        }
    }
}

/// Writes everything back and empties the page cache of the machine.
pub(crate) fn drop_page_cache() -> Result<()> {
    const PATH: &str = "/proc/sys/vm/drop_caches";
    rustix::fs::sync();
    std::fs::write(PATH, "3\n").map_err(|error| {
        format!("the page cache was not dropped between phases: {PATH}: {error}; run as root")
    })
}

/// This process in a memory cgroup of its own.
#[derive(Debug)]
pub(crate) struct Group {
    home: PathBuf,
    child: PathBuf,
}

impl Group {
    fn enter(bytes: usize) -> Result<Self> {
        let read = |path| std::fs::read_to_string(path).map_err(|e| format!("{path}: {e}"));
        let mounts = read("/proc/self/mounts")?;
        let memberships = read("/proc/self/cgroup")?;
        let home = home(&mounts, &memberships).ok_or("no cgroup of version 2")?;
        Self::enter_below(home, &format!("stepwell-stores-{}", std::process::id()), bytes)
    }

    fn enter_below(home: PathBuf, name: &str, bytes: usize) -> Result<Self> {
        let controllers = home.join("cgroup.subtree_control");
        let controllers = std::fs::read_to_string(&controllers)
            .map_err(|error| format!("{}: {error}", controllers.display()))?;
        if !controllers.split_whitespace().any(|controller| controller == "memory") {
            return Err(format!("children of {} have no memory bound", home.display()));
        }
        let child = home.join(name);
        std::fs::create_dir(&child).map_err(|e| format!("{}: {e}", child.display()))?;
        let group = Self { home, child };
        group.set(&group.child, "memory.max", bytes)?;
        group.set(&group.child, "cgroup.procs", std::process::id() as usize)?;
        Ok(group)
    }

    fn set(&self, group: &Path, file: &str, value: usize) -> Result<()> {
        let path = group.join(file);
        std::fs::write(&path, format!("{value}\n")).map_err(|e| format!("{}: {e}", path.display()))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A group that cannot be left or removed stays; it bounds nobody else.
        let _ = self.set(&self.home, "cgroup.procs", std::process::id() as usize);
        let _ = std::fs::remove_dir(&self.child);
    }
}

/// The directory of this process's cgroup of version 2.
fn home(mounts: &str, memberships: &str) -> Option<PathBuf> {
    let mut mounts = mounts.lines().map(|line| line.split_whitespace());
    let mount = mounts.find_map(|mut fields| {
        let path = fields.nth(1)?;
        (fields.next()? == "cgroup2").then_some(path)
    })?;
    let own = memberships.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(Path::new(mount).join(own))
}

/// A thread that has the system forget pages.
#[derive(Debug)]
pub(crate) struct Sweeper {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Sweeper {
    fn start(directory: PathBuf) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                // A file that went away meanwhile has no pages.
                let _ = meter::each_file(&directory, &mut forget);
                std::thread::sleep(SWEEP);
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

fn forget(path: &Path) {
    if let Ok(file) = File::open(path) {
        let _ = fadvise(&file, 0, None, Advice::DontNeed);
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn the_home_is_the_mount_and_the_membership() {
        let mounts = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw";
        let found = home(mounts, "4:memory:/x\n0::/a/b\n");
        assert_eq!(found, Some(PathBuf::from("/sys/fs/cgroup/unified/a/b")));
        assert_eq!(home(mounts, "4:memory:/x\n"), None);
        assert_eq!(home("tmpfs / tmpfs rw 0 0", "0::/\n"), None);
    }

    #[test]
    fn a_group_without_a_bound_for_children_is_not_entered() {
        let scratch = Scratch::of_test("group");
        let home = scratch.path().to_path_buf();
        assert!(Group::enter_below(home.clone(), "child", 1 << 30).is_err());
        std::fs::write(home.join("cgroup.subtree_control"), "cpu io\n").unwrap();
        assert!(Group::enter_below(home.clone(), "child", 1 << 30).is_err());
        assert!(!home.join("child").exists());
        std::fs::write(home.join("cgroup.subtree_control"), "cpu memory\n").unwrap();
        let group = Group::enter_below(home.clone(), "child", 1 << 30).unwrap();
        let bound = std::fs::read_to_string(home.join("child/memory.max")).unwrap();
        assert_eq!(bound.trim(), (1 << 30).to_string());
        drop(group);
        let back = std::fs::read_to_string(home.join("cgroup.procs")).unwrap();
        assert_eq!(back.trim(), std::process::id().to_string());
    }

    #[test]
    fn sweeping_ends_with_its_guard_and_leaves_files_alone() {
        let scratch = Scratch::of_test("sweep");
        let path = scratch.path().join("file");
        std::fs::write(&path, [7; 10_000]).unwrap();
        let sweeper = Sweeper::start(scratch.path().to_path_buf());
        std::thread::sleep(2 * SWEEP);
        drop(sweeper);
        assert_eq!(std::fs::read(&path).unwrap(), [7; 10_000]);
    }
}
