//! Memory limits of this process's control groups.
//!
//! - **Why.** A container sees the machine's memory in /proc/meminfo, but its control group has a
//!   limit of its own; beyond it, the kernel kills the process without a message.
//! - **How.** `/proc/self/cgroup` has the groups, `/proc/self/mountinfo` the mount points of their
//!   hierarchies: `memory.max` in version 2, `memory.limit_in_bytes` in version 1. Limits of all
//!   parent groups apply as well, if they are visible.

use std::fs;
use std::path::{Path, PathBuf};

/// Above any real limit; version 1 reports such a number for no limit.
const NO_LIMIT: u64 = 1 << 62;

/// A limit, and the file that contains it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GroupLimit {
    pub(super) file: PathBuf,
    pub(super) bytes: u64,
}

/// The lowest limit of this process's groups; `None` if none is visible.
pub(super) fn limit() -> Option<GroupLimit> {
    let read = |name: &str| fs::read_to_string(format!("/proc/self/{name}")).ok();
    limit_in(Path::new("/"), &read("cgroup")?, &read("mountinfo")?)
}

/// Like [`limit`], for a system whose root is `root`.
fn limit_in(root: &Path, groups: &str, mounts: &str) -> Option<GroupLimit> {
    let hierarchies = mounts.lines().filter_map(Hierarchy::read);
    let limits = hierarchies.filter_map(|hierarchy| hierarchy.limit(root, groups));
    limits.min_by_key(|limit| limit.bytes)
}

/// A mounted hierarchy of groups that may limit memory.
struct Hierarchy {
    /// The group visible at `mount`.
    top: PathBuf,
    mount: PathBuf,
    version_2: bool,
}

impl Hierarchy {
    /// Parses a line of `mountinfo`: `36 35 98:0 /top /mount rw,... - TYPE SOURCE OPTIONS`.
    fn read(line: &str) -> Option<Self> {
        let (mount, system) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let (top, mount) = (unescaped(mount.next()?), unescaped(mount.next()?));
        let mut system = system.split(' ');
        let version_2 = match system.next()? {
            "cgroup2" => true,
            "cgroup" if system.nth(1)?.split(',').any(|option| option == "memory") => false,
            _ => return None,
        };
        Some(Self { top, mount, version_2 })
    }

    /// The lowest limit of the group that `groups` names in this hierarchy, and of its parents.
    fn limit(&self, root: &Path, groups: &str) -> Option<GroupLimit> {
        let named = groups.lines().find_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            let ours = match self.version_2 {
                true => controllers.is_empty(),
                false => controllers.split(',').any(|controller| controller == "memory"),
            };
            ours.then(|| PathBuf::from(path))
        })?;
        let name = if self.version_2 { "memory.max" } else { "memory.limit_in_bytes" };
        // In a container, the group may be named as on the machine, or as in the container.
        let below = named.strip_prefix(&self.top).or_else(|_| named.strip_prefix("/")).ok()?;
        let limits = below.ancestors().filter_map(|group| {
            let file = self.mount.join(group).join(name);
            let text = fs::read_to_string(root.join(file.strip_prefix("/").ok()?)).ok()?;
            let bytes: u64 = text.trim().parse().ok().filter(|bytes| *bytes < NO_LIMIT)?;
            Some(GroupLimit { file, bytes })
        });
        limits.min_by_key(|limit| limit.bytes)
    }
}

/// A path of `mountinfo`, in which white space is octal numbers.
fn unescaped(path: &str) -> PathBuf {
    let path = path.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n");
    PathBuf::from(path.replace("\\134", "\\"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const V2: &str = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n";
    const V1: &str = "35 25 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      36 25 0:31 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";

    fn system(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let file = root.path().join(file.trim_start_matches('/'));
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        root
    }

    fn found(files: &[(&str, &str)], groups: &str, mounts: &str) -> Option<(String, u64)> {
        let root = system(files);
        let limit = limit_in(root.path(), groups, mounts)?;
        Some((limit.file.display().to_string(), limit.bytes))
    }

    #[test]
    fn the_least_limit_of_all_groups_above_holds() {
        let files = [
            ("/sys/fs/cgroup/a/memory.max", "5000\n"),
            ("/sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("/sys/fs/cgroup/a/b/c/memory.max", "7000\n"),
            ("/sys/fs/cgroup/other/memory.max", "1\n"),
        ];
        let least = Some(("/sys/fs/cgroup/a/memory.max".to_owned(), 5000));
        assert_eq!(found(&files, "0::/a/b/c\n", V2), least);
        assert_eq!(found(&files, "0::/b\n", V2), None);
        assert_eq!(found(&files, "", V2), None);
        assert_eq!(found(&files, "0::/a/b/c\n", "nonsense\n1 2 - cgroup2\n"), None);
    }

    #[test]
    fn version_1_is_known_by_its_controller() {
        let files = [
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "4096\n"),
            ("/sys/fs/cgroup/cpu/job/memory.limit_in_bytes", "1\n"),
        ];
        let groups = "4:memory:/job\n1:cpu:/job\n0::/\n";
        let at = "/sys/fs/cgroup/memory/job/memory.limit_in_bytes".to_owned();
        assert_eq!(found(&files, groups, V1), Some((at, 4096)));
        assert_eq!(found(&files, "4:memory:/\n", V1), None, "that is no limit");
    }

    #[test]
    fn a_container_sees_its_own_group_at_the_top() {
        let files = [("/sys/fs/cgroup/memory.max", "4096\n")];
        let at = Some(("/sys/fs/cgroup/memory.max".to_owned(), 4096));
        // Named as in the container, then as on the machine, with and without its top.
        assert_eq!(found(&files, "0::/\n", V2), at);
        let mounts = V2.replace("0:26 / ", "0:26 /docker/7 ");
        assert_eq!(found(&files, "0::/docker/7\n", &mounts), at);
        assert_eq!(found(&files, "0::/docker/7/../..\n", &mounts), at);
        assert_eq!(found(&files, "0::/docker/7\n", V2), at);
    }
}
