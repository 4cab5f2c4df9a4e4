//! Processes: started in a case's directory, ended by signals, and always limited in time.
//!
//! - **How.** Each process leads a process group, so that a program that is a script ends together
//!   with what it started. The shell's `kill` sends signals, as this crate has no unsafe code. All
//!   commands are also written to a script that repeats them.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::draw::{Listener, Signal};
use crate::fault::{Fault, Result, broken, found};

/// Polling interval for processes.
const LOOK: Duration = Duration::from_millis(1);
/// Name of the script in a case's directory that repeats its commands.
pub(crate) const SCRIPT: &str = "reproduce.sh";

impl Signal {
    /// Name for `kill` and `timeout`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Kill => "KILL",
            Self::Interrupt => "INT",
            Self::Terminate => "TERM",
        }
    }

    fn number(self) -> i32 {
        match self {
            Self::Kill => 9,
            Self::Interrupt => 2,
            Self::Terminate => 15,
        }
    }

    /// Whether a process ended because of this signal: killed by it, or in good order with the
    /// shell's status for a handled signal.
    fn ended(self, status: ExitStatus) -> bool {
        let handled = [Self::Interrupt, Self::Terminate].map(|signal| Some(128 + signal.number()));
        status.signal() == Some(self.number())
            || (self != Self::Kill && handled.contains(&status.code()))
    }
}

/// A signal to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Halt<'a> {
    pub(crate) signal: Signal,
    pub(crate) moment: Moment<'a>,
    /// Whether to send it again immediately, like an impatient user.
    pub(crate) twice: bool,
}

/// When to send a signal.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Moment<'a> {
    After(Duration),
    /// A duration after the newest checkpoint in a directory has changed this many times.
    Saved(&'a Path, u64, Duration),
}

/// A command to run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Call {
    pub(crate) args: Vec<String>,
    pub(crate) engine: Option<&'static str>,
    pub(crate) listener: Listener,
}

impl Call {
    pub(crate) fn new(args: &[&str]) -> Self {
        Self { args: args.iter().map(|arg| (*arg).to_owned()).collect(), ..Self::default() }
    }

    pub(crate) fn with(mut self, args: &[&str]) -> Self {
        self.args.extend(args.iter().map(|arg| (*arg).to_owned()));
        self
    }
}

/// Result of a process.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) status: ExitStatus,
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) wall: Duration,
    /// Whether a signal ended it.
    pub(crate) stopped: bool,
    /// Command line for reports.
    pub(crate) line: String,
}

/// The directory of a case, and the program to run in it.
pub(crate) struct Shop {
    pub(crate) folder: PathBuf,
    program: PathBuf,
    limit: Duration,
    calls: u64,
}

impl Shop {
    pub(crate) fn new(folder: PathBuf, program: &Path, limit: Duration) -> Result<Self> {
        let shop = Self { folder, program: program.to_owned(), limit, calls: 0 };
        fs::create_dir_all(shop.path("tmp")).map_err(broken("create the folder of a case"))?;
        let program = program.display();
        shop.note(&format!(
            "#!/bin/sh\n# Runs what the fuzzer ran, in a folder with the same data.\n\
             export TMPDIR=\"$PWD/tmp\"; P=\"${{STEPWELL:-{program}}}\"\n"
        ))?;
        Ok(shop)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        fs::write(self.path(name), bytes).map_err(broken("write a file of a case"))
    }

    /// Appends to the script.
    fn note(&self, text: &str) -> Result<()> {
        let file = File::options().create(true).append(true).open(self.path(SCRIPT));
        file.and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(broken("record a command"))
    }

    /// The program without arguments. If the fuzzer runs in the background of a shell, it ignores
    /// interrupts, and its children would inherit that; `env` restores the default.
    fn command(&self) -> Command {
        if !interrupts_ignored() {
            return Command::new(&self.program);
        }
        let mut command = Command::new("env");
        command.arg("--default-signal=INT").arg(&self.program);
        command
    }

    /// Runs the program until it ends or a signal ends it.
    pub(crate) fn run(&mut self, call: &Call, stop: Option<Halt>) -> Result<Ran> {
        self.calls += 1;
        let [out, err] = ["out", "err"].map(|kind| self.path(&format!("{}.{kind}", self.calls)));
        let create = |path: &Path| File::create(path).map_err(broken("create a file for output"));
        let mut command = self.command();
        command.args(&call.args).current_dir(&self.folder).process_group(0);
        command.env("TMPDIR", self.path("tmp")).env("RUST_BACKTRACE", "1");
        command.env_remove("STEPWELL_IO_ENGINE");
        command.envs(call.engine.map(|engine| ("STEPWELL_IO_ENGINE", engine)));
        let heard = create(&out)?;
        command.stdin(Stdio::null()).stderr(create(&err)?);
        match call.listener {
            Listener::Attentive => command.stdout(heard),
            // A pipe without a reader, which is dropped here.
            Listener::Gone => command.stdout(io::pipe().map_err(broken("create a pipe"))?.1),
            Listener::Full => command.stdout(create(Path::new("/dev/full"))?),
        };
        let begun = Instant::now();
        let mut child = command.spawn().map_err(broken("start the program"))?;
        let waited = self.wait(&mut child, begun, stop);
        let wall = begun.elapsed();
        let sent = waited.as_ref().ok().and_then(|(_, sent)| *sent);
        let line = line(call, stop.map(|stop| stop.signal).zip(sent));
        self.note(&format!("{line}\n"))?;
        let (status, sent) = match waited {
            Ok(waited) => waited,
            Err(why) => return Err(why.of(&line)),
        };
        let stopped = sent.is_some() && stop.is_some_and(|stop| stop.signal.ended(status));
        let text = |path| fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let (out, err) = (text(&out), text(&err));
        let out = out.map_err(broken("read output"))?;
        let err = err.map_err(broken("read output"))?;
        Ok(Ran { status, out, err, wall, stopped, line })
    }

    /// Waits for the end; returns the status, and when the signal was sent, if so.
    fn wait(
        &self,
        child: &mut Child,
        begun: Instant,
        stop: Option<Halt>,
    ) -> Result<(ExitStatus, Option<Duration>)> {
        let mut watch = stop.map(|stop| (stop, Watch::new(stop.moment)));
        let mut sent = None;
        loop {
            if let Some(status) = child.try_wait().map_err(broken("wait for the program"))? {
                return Ok((status, sent));
            }
            let now = begun.elapsed();
            if let Some((stop, _)) = watch.take_if(|(_, watch)| watch.is_due(now)) {
                for _ in 0..1 + u64::from(stop.twice) {
                    send(stop.signal, child.id())?;
                }
                sent = Some(now);
            }
            if now > self.limit {
                let threads = threads(child.id());
                send(Signal::Kill, child.id())?;
                child.wait().map_err(broken("wait for the program"))?;
                let limit = self.limit.as_secs();
                return Err(found(format!("it did not end within {limit} s:\n{threads}")));
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// Waits for the moment to send a signal.
struct Watch<'a> {
    moment: Moment<'a>,
    newest: Option<String>,
    changes: u64,
    due: Option<Duration>,
}

impl<'a> Watch<'a> {
    fn new(moment: Moment<'a>) -> Self {
        let (newest, due) = match moment {
            Moment::After(time) => (None, Some(time)),
            Moment::Saved(directory, ..) => (newest(directory), None),
        };
        Self { moment, newest, changes: 0, due }
    }

    fn is_due(&mut self, now: Duration) -> bool {
        if let (Moment::Saved(directory, count, later), None) = (self.moment, self.due) {
            let newest = newest(directory);
            if newest != self.newest {
                (self.newest, self.changes) = (newest, self.changes + 1);
                self.due = (self.changes >= count).then_some(now + later);
            }
        }
        self.due.is_some_and(|due| now >= due)
    }
}

/// Newest checkpoint in a directory of checkpoints.
pub(crate) fn newest(directory: &Path) -> Option<String> {
    let names = fs::read_dir(directory).ok()?.flatten();
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("step-") && !name.contains('.')).max()
}

/// Sends a signal to the group that a process leads. The process hasn't been waited for, so its id
/// can't have been reused.
fn send(signal: Signal, process: u32) -> Result<()> {
    let words = format!("kill -s {} -- -{process}", signal.name());
    let sent = Command::new("/bin/sh").args(["-c", &words]).stderr(Stdio::null()).status();
    sent.map(|_| ()).map_err(broken("run kill"))
}

/// Whether this process ignores interrupts, if Linux reports it.
fn interrupts_ignored() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask >> (Signal::Interrupt.number() - 1) & 1 == 1)
}

/// State of a process's threads, one line each, if Linux reports it.
fn threads(process: u32) -> String {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let mut lines = Vec::new();
    for task in tasks.map(|task| task.path()) {
        let read = |name| fs::read_to_string(task.join(name)).unwrap_or_default();
        let status = read("stat");
        // Fields after the name in parentheses: the state first; user and system time from the
        // eleventh.
        let after = status.rsplit(')').next().unwrap_or_default();
        let fields: Vec<&str> = after.split_whitespace().collect();
        let field = |at: usize| fields.get(at).copied().unwrap_or("?");
        lines.push(format!(
            "  thread {}: state {}, {} + {} ticks, waits in {}",
            read("comm").trim(),
            field(0),
            field(11),
            field(12),
            read("wchan").trim()
        ));
    }
    lines.join("\n")
}

/// A command for a shell.
fn line(call: &Call, stopped: Option<(Signal, Duration)>) -> String {
    let mut words = Vec::new();
    if let Some(engine) = call.engine {
        words.push(format!("STEPWELL_IO_ENGINE={engine}"));
    }
    if let Some((signal, after)) = stopped {
        words.push(format!("timeout -s {} {:.4}", signal.name(), after.as_secs_f64()));
    }
    words.push("\"$P\"".to_owned());
    words.extend(call.args.iter().map(|arg| quoted(arg)));
    match call.listener {
        Listener::Attentive => {}
        Listener::Gone => words.push("| :".to_owned()),
        Listener::Full => words.push(">/dev/full".to_owned()),
    }
    words.join(" ")
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:+".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.to_owned() } else { format!("'{word}'") }
}

impl Fault {
    /// Adds the command to a finding.
    pub(crate) fn of(self, line: &str) -> Self {
        match self {
            Self::Found(why) => Self::Found(format!("{why}\n  of: {line}")),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shop(limit: Duration) -> (tempfile::TempDir, Shop) {
        let folder = tempfile::tempdir().unwrap();
        let shop = Shop::new(folder.path().to_owned(), Path::new("/bin/sh"), limit).unwrap();
        (folder, shop)
    }

    #[test]
    fn signals_end_a_program_and_what_it_started() {
        let (_folder, mut shop) = shop(Duration::from_secs(30));
        let call = Call::new(&["-c", "echo on; sleep 40; echo over"]);
        for signal in [Signal::Kill, Signal::Interrupt, Signal::Terminate] {
            let moment = Moment::After(Duration::from_millis(100));
            let halt = Halt { signal, moment, twice: signal == Signal::Interrupt };
            let ran = shop.run(&call, Some(halt)).unwrap();
            assert!(ran.stopped && ran.wall < Duration::from_secs(20), "{ran:?}");
            assert_eq!(ran.out, "on\n");
            assert!(ran.line.starts_with(&format!("timeout -s {} 0.1", signal.name())));
        }
        let quick = shop.run(&Call::new(&["-c", "exit 130"]), None).unwrap();
        assert!(!quick.stopped, "no signal was sent");
    }

    #[test]
    fn a_program_that_ends_in_good_order_when_told_to_was_stopped() {
        let (_folder, mut shop) = shop(Duration::from_secs(30));
        let script = "trap 'exit 130' INT; echo on; while :; do sleep 0.01; done";
        let moment = Moment::After(Duration::from_millis(200));
        let halt = Halt { signal: Signal::Interrupt, moment, twice: false };
        let ran = shop.run(&Call::new(&["-c", script]), Some(halt)).unwrap();
        assert!(ran.stopped, "{ran:?}");
        assert_eq!(ran.status.code(), Some(130));
    }

    #[test]
    fn a_signal_can_follow_a_checkpoint() {
        let (_folder, mut shop) = shop(Duration::from_secs(30));
        let script = "mkdir saved; for i in 1 2 3; do sleep 0.05; mkdir saved/step-$i; done; \
                      sleep 40";
        let saved = shop.path("saved");
        let moment = Moment::Saved(&saved, 2, Duration::ZERO);
        let halt = Halt { signal: Signal::Kill, moment, twice: false };
        let ran = shop.run(&Call::new(&["-c", script]), Some(halt)).unwrap();
        assert!(ran.stopped, "{ran:?}");
        assert!(["step-2", "step-3"].contains(&newest(&saved).unwrap().as_str()));
    }

    #[test]
    fn a_program_may_be_unheard() {
        let (_folder, mut shop) = shop(Duration::from_secs(30));
        let say = Call::new(&["-c", "trap '' PIPE; sleep 0.05; echo on; echo $? >&2"]);
        for (listener, code, end) in [
            (Listener::Attentive, "0", ""),
            (Listener::Gone, "1", " | :"),
            (Listener::Full, "1", " >/dev/full"),
        ] {
            let ran = shop.run(&Call { listener, ..say.clone() }, None).unwrap();
            assert_eq!(ran.err.lines().last(), Some(code), "{ran:?}");
            assert!(ran.line.ends_with(end), "{}", ran.line);
        }
    }

    #[test]
    fn what_hangs_is_found_with_its_threads() {
        let (folder, mut shop) = shop(Duration::from_millis(300));
        let fault = shop.run(&Call::new(&["-c", "sleep 40; echo"]), None).unwrap_err();
        let Fault::Found(why) = fault else { panic!("{fault:?}") };
        assert!(why.contains("did not end") && why.contains("thread sh: state S"), "{why}");
        assert!(why.ends_with("of: \"$P\" -c 'sleep 40; echo'"), "{why}");
        let script = fs::read_to_string(folder.path().join(SCRIPT)).unwrap();
        assert!(script.ends_with("\"$P\" -c 'sleep 40; echo'\n"), "{script}");
    }
}
