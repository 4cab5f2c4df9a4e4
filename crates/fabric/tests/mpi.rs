//! The conformance suite over MPI, and what is said of a rank that goes without a word.
//!
//! Not launched by MPI, this program launches itself by `mpirun`, once for each case.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a program of tests")]

use std::io::Read;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use stepwell_fabric::collective::Barrier;
use stepwell_fabric::mpi::{self, Options};
use stepwell_fabric::{Error, Fabric, Tag, WindowNumber, conformance};

/// Of ranks that are lost on purpose.
const PATIENCE_SECONDS: f64 = 2.0;
/// After which a case has failed.
const LIMIT: Duration = Duration::from_secs(50);

/// What ranks do, how many, and the words of their pieces.
const CASES: [(&str, usize, usize); 15] = [
    ("promises", 1, mpi::PIECE_WORDS),
    ("promises", 2, mpi::PIECE_WORDS),
    ("promises", 4, mpi::PIECE_WORDS),
    ("promises", 2, 7),
    ("promises", 3, 1024),
    ("failing", 2, mpi::PIECE_WORDS),
    ("failing", 4, 1),
    ("leaving", 3, mpi::PIECE_WORDS),
    ("broken", 3, mpi::PIECE_WORDS),
    ("idle", 2, mpi::PIECE_WORDS),
    ("KILL", 3, mpi::PIECE_WORDS),
    ("STOP", 3, mpi::PIECE_WORDS),
    ("STOP", 2, mpi::PIECE_WORDS),
    ("CONT", 2, mpi::PIECE_WORDS),
    // Ranks that are less patient than they were when they joined.
    ("sooner", 3, mpi::PIECE_WORDS),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if mpi::is_launched() {
        run_rank(&arguments[0], arguments[1].parse().unwrap());
        return ExitCode::SUCCESS;
    }
    if let Err(error) = Command::new("mpirun").arg("--version").output() {
        stepwell_skip::skipped(format_args!("mpirun does not start ({error})"));
        return ExitCode::SUCCESS;
    }
    // What is asked for by name, as with other tests.
    let wanted = arguments.iter().find(|argument| !argument.starts_with('-'));
    let mut failures = 0;
    for (name, ranks, piece) in CASES {
        if wanted.is_some_and(|wanted| wanted != name) {
            continue;
        }
        let start = Instant::now();
        let (ended, said) = launch(name, ranks, piece);
        let fault = verdict(name, ranks, ended, &said);
        let seconds = start.elapsed().as_secs_f64();
        println!(
            "{name}, {ranks} ranks, pieces of {piece}: {} ({seconds:.1} s)",
            match fault {
                None => "ok".to_owned(),
                Some(fault) => {
                    failures += 1;
                    format!("FAILED: {fault}\n{said}")
                }
            }
        );
    }
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What all ranks of a case print, and whether they ended well, unless it took too long.
fn launch(name: &str, ranks: usize, piece: usize) -> (Option<bool>, String) {
    let mut launcher = Command::new("mpirun");
    launcher.envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
    launcher.args(["--oversubscribe", "-n", &ranks.to_string()]);
    if name == "KILL" {
        // One that is killed does not end the others.
        launcher.arg("--enable-recovery");
    }
    launcher.arg(std::env::current_exe().unwrap()).args([name, &piece.to_string()]);
    launcher.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = launcher.spawn().unwrap();
    let (mut stdout, mut stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let stdout = std::thread::spawn(move || {
        let mut text = String::new();
        stdout.read_to_string(&mut text).map(|_| text)
    });
    let stderr = std::thread::spawn(move || {
        let mut text = String::new();
        stderr.read_to_string(&mut text).map(|_| text)
    });
    let start = Instant::now();
    let ended = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break Some(status.success());
        }
        if start.elapsed() > LIMIT {
            // It hands this on to the ranks, before it ends.
            signal("TERM", child.id());
            child.wait().unwrap();
            break None;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let (stdout, stderr) = (stdout.join().unwrap().unwrap(), stderr.join().unwrap().unwrap());
    (ended, stdout + &stderr)
}

fn verdict(name: &str, ranks: usize, ended: Option<bool>, said: &str) -> Option<&'static str> {
    let all_say = |text: &str, of: &dyn Fn(usize) -> bool| {
        (0..ranks).filter(|rank| of(*rank)).all(|rank| said.contains(&format!("{rank}: {text}")))
    };
    let wanted = match name {
        "KILL" | "STOP" | "sooner" => {
            all_say("rank 1 is lost: nothing was heard of it for 2 s", &|n| n != 1)
        }
        "broken" => all_say("rank 1 is lost: it went without a word", &|n| n != 1),
        "leaving" => all_say("rank 1 failed: it went before its end", &|n| n != 1),
        _ => ended == Some(true) && all_say("done", &|_| true),
    };
    match (ended, wanted) {
        (None, _) => Some("it hangs"),
        (_, false) => Some("not what was wanted"),
        _ => None,
    }
}

fn signal(name: &str, process: u32) {
    let status = Command::new("kill").args(["-s", name, &process.to_string()]).status();
    assert!(status.unwrap().success(), "a signal was sent");
}

/// One rank's part of a case.
fn run_rank(name: &str, piece_words: usize) {
    let patience_seconds = match name {
        "KILL" | "STOP" | "idle" => PATIENCE_SECONDS,
        // Much longer than it is held up, for a machine that is busy.
        "CONT" => 4.0 * PATIENCE_SECONDS,
        _ => 30.0,
    };
    let options = Options { patience_seconds, piece_words };
    let fabric = mpi::join(options).unwrap().unwrap();
    assert!(matches!(mpi::join(options), Err(Error::Carrier { .. })), "once in a process");
    if name == "sooner" {
        fabric.be_patient(PATIENCE_SECONDS, Tag(0)).unwrap();
    }
    match name {
        "promises" => conformance::run(&fabric),
        "failing" => conformance::run_failing(&fabric),
        "idle" => is_quiet(&fabric),
        "CONT" => held_up(&fabric),
        "broken" if fabric.rank() == 1 => breaks(&fabric),
        "broken" if fabric.rank() == 0 => {
            fabric.put(1, WindowNumber(1), 0, &[1]).unwrap();
            names_who_went(&fabric);
        }
        _ if fabric.rank() == 1 => go(&fabric, name),
        _ => names_who_went(&fabric),
    }
    let rank = fabric.rank();
    drop(fabric);
    println!("{rank}: done");
}

/// Goes because of what nobody else sees, and does not say why.
fn breaks(fabric: &Fabric) {
    // The others wait for it here.
    while !matches!(fabric.receive(0, Tag(1)), Err(Error::Malformed { rank: 0, .. })) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Goes without a word.
fn go(fabric: &Fabric, name: &str) {
    let name = if name == "sooner" { "STOP" } else { name };
    fabric.wait(Barrier::start(Tag(0))).unwrap();
    if name != "leaving" {
        signal(name, std::process::id());
        std::thread::sleep(LIMIT);
    }
}

fn names_who_went(fabric: &Fabric) {
    // It may go before this rank has seen that it came.
    let came = fabric.wait(Barrier::start(Tag(0)));
    let start = Instant::now();
    let error = came.and_then(|()| fabric.wait(Barrier::start(Tag(1)))).unwrap_err();
    let seconds = start.elapsed().as_secs_f64();
    println!("{}: {error} after {seconds:.2} s", fabric.rank());
    assert!(seconds < 1.5 * PATIENCE_SECONDS, "named in time: {seconds}");
}

/// Nobody is lost for saying nothing, and nobody works at it.
fn is_quiet(fabric: &Fabric) {
    fabric.wait(Barrier::start(Tag(0))).unwrap();
    let before = processor_seconds();
    std::thread::sleep(Duration::from_secs_f64(2.0 * PATIENCE_SECONDS));
    let share = (processor_seconds() - before) / (2.0 * PATIENCE_SECONDS);
    println!("{}: {:.1} % of a core", fabric.rank(), 100.0 * share);
    assert!(share < 0.25, "asleep for the most part: {share}");
    fabric.wait(Barrier::start(Tag(0))).unwrap();
    fabric.end();
}

/// Of all threads of this process, in hundredths, as Linux counts them.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields = stat.rsplit(')').next().unwrap().split_whitespace().skip(11).take(2);
    fields.map(|ticks| ticks.parse::<f64>().unwrap() / 100.0).sum()
}

/// One that was stopped for less than the others are patient goes on.
fn held_up(fabric: &Fabric) {
    for _ in 0..3 {
        fabric.wait(Barrier::start(Tag(0))).unwrap();
        if fabric.rank() == 1 {
            let own = std::process::id();
            let script = format!("kill -s STOP {own}; sleep 1; kill -s CONT {own}");
            Command::new("sh").args(["-c", &script]).status().unwrap();
        }
    }
    fabric.wait(Barrier::start(Tag(0))).unwrap();
    fabric.end();
}
