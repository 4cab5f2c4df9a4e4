//! Time limits for a program of tests and the processes it started.
//!
//! - **Why.** A hanging test must not block the suite, and a hang that occurs once in a thousand
//!   runs must explain itself the first time.
//! - **How.** The program runs with its output piped. It prints when a test begins and ends, so the
//!   time between two outputs is that of one test. Past a limit, [`explain`] lists what every
//!   thread of its process tree waits for (from `/proc`, and its stack if `gdb` is installed); then
//!   the tree is killed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Polling interval for a running program.
const POLL: Duration = Duration::from_millis(20);
/// Most bytes of `gdb`'s output to keep per process.
const STACK_BYTES_MAX: usize = 64 << 10;

/// How a program ended.
pub(crate) struct Ended {
    /// Output, standard output first.
    pub(crate) said: String,
    pub(crate) how: How,
}

/// Whether a program ended by itself.
pub(crate) enum How {
    Exited(ExitStatus),
    /// Killed at the limit; what its threads waited for.
    Killed(String),
}

/// How long a program may run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// For a test: from one output to the next.
    pub(crate) test: Duration,
    /// In all.
    pub(crate) program: Duration,
}

/// Runs `command` within `limits`.
///
/// # Errors
/// The program can't be started or waited for.
pub(crate) fn run(command: &mut Command, limits: Limits) -> io::Result<Ended> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let progress = Arc::new(AtomicU64::new(0));
    let stdout = child.stdout.take().map(|pipe| collect(pipe, &progress));
    let stderr = child.stderr.take().map(|pipe| collect(pipe, &progress));
    let how = match wait(&mut child, limits, &progress)? {
        Some(status) => How::Exited(status),
        None => {
            let why = explain(child.id());
            tree(child.id()).into_iter().rev().for_each(kill);
            child.wait()?;
            How::Killed(why)
        }
    };
    let mut said = String::new();
    for reader in [stdout, stderr].into_iter().flatten() {
        let bytes = reader.join().unwrap_or_default();
        said.push_str(&String::from_utf8_lossy(&bytes));
    }
    Ok(Ended { said, how })
}

/// Reads a pipe to its end or an error, and counts the bytes in `progress`.
fn collect(mut pipe: impl Read + Send + 'static, progress: &Arc<AtomicU64>) -> JoinHandle<Vec<u8>> {
    let progress = Arc::clone(progress);
    thread::spawn(move || {
        let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
        while let Ok(read @ 1..) = pipe.read(&mut piece) {
            bytes.extend_from_slice(&piece[..read]);
            progress.fetch_add(read as u64, Ordering::Relaxed);
        }
        bytes
    })
}

/// Waits for the end of a process; `None` if it is over a limit.
fn wait(child: &mut Child, limits: Limits, progress: &AtomicU64) -> io::Result<Option<ExitStatus>> {
    let begin = Instant::now();
    let (mut seen, mut since) = (0, begin);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        let printed = progress.load(Ordering::Relaxed);
        if printed != seen {
            (seen, since) = (printed, Instant::now());
        }
        if since.elapsed() >= limits.test || begin.elapsed() >= limits.program {
            return Ok(None);
        }
        thread::sleep(POLL);
    }
}

/// A process and all its descendants, parents first.
fn tree(root: u32) -> Vec<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let parent = pid.and_then(parent);
        if let (Some(pid), Some(parent)) = (pid, parent) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = vec![root];
    let mut at = 0;
    while let Some(pid) = found.get(at) {
        found.extend(children.remove(pid).unwrap_or_default());
        at += 1;
    }
    found
}

fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may contain spaces; state and parent follow it.
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

fn kill(pid: u32) {
    // The process may have ended already.
    let _ = Command::new("kill").args(["-9", &pid.to_string()]).stderr(Stdio::null()).status();
}

/// Describes what every thread of a process tree waits for.
fn explain(root: u32) -> String {
    let mut text = String::new();
    for pid in tree(root) {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words).replace('\0', " ");
        let _ = writeln!(text, "process {pid}: {words}");
        for thread in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            let of = |name: &str| {
                let text = fs::read_to_string(thread.path().join(name)).unwrap_or_default();
                text.trim().replace('\n', " < ")
            };
            let state = of("stat");
            let state = state.rsplit_once(')').map_or("", |(_, rest)| rest.trim());
            let state = state.chars().next().unwrap_or('?');
            let (name, call, stack) = (of("comm"), of("syscall"), of("stack"));
            let _ = writeln!(text, "  {name}: {state}, system call {call}, {stack}");
        }
        let mut gdb = Command::new("gdb");
        gdb.args(["-p", &pid.to_string(), "-batch", "-ex", "thread apply all backtrace"]);
        if let Ok(output) = gdb.stdin(Stdio::null()).output() {
            let stacks = String::from_utf8_lossy(&output.stdout);
            text.extend(stacks.chars().take(STACK_BYTES_MAX));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn a_program_that_ends_in_time_says_all_and_has_its_status() {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "echo out; echo error >&2; exit 3"]);
        let ended = run(&mut command, Limits { test: MINUTE, program: MINUTE }).unwrap();
        assert_eq!(ended.said, "out\nerror\n");
        assert!(matches!(ended.how, How::Exited(status) if status.code() == Some(3)));
    }

    #[test]
    fn a_program_that_hangs_is_explained_and_killed_with_its_children() {
        let begin = Instant::now();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "echo begun; sleep 1000 & wait"]);
        let moment = Duration::from_millis(300);
        for limits in
            [Limits { test: moment, program: MINUTE }, Limits { test: MINUTE, program: moment }]
        {
            let ended = run(&mut command, limits).unwrap();
            assert!(begin.elapsed() < MINUTE, "its children hold the pipe no longer");
            assert_eq!(ended.said, "begun\n");
            let How::Killed(why) = ended.how else { panic!("it was over its limit") };
            assert!(why.contains("sleep 1000") && why.contains("system call"), "{why}");
        }
    }

    #[test]
    fn a_program_that_prints_is_within_the_limit_of_a_test() {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "for n in 1 2 3 4 5 6 7 8; do echo $n; sleep 0.1; done"]);
        let limits = Limits { test: Duration::from_millis(700), program: MINUTE };
        let ended = run(&mut command, limits).unwrap();
        assert!(matches!(ended.how, How::Exited(status) if status.success()));
    }
}
