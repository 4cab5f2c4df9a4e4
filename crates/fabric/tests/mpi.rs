//! The conformance suite over MPI, and the errors when a rank vanishes.
//!
//! If MPI did not launch it, this program launches itself by `mpirun`, once for each case.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a program of tests")]

#[path = "mpi/putting.rs"]
mod putting;
#[path = "mpi/speed.rs"]
mod speed;

use std::io::Read;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use stepwell_fabric::collective::Barrier;
use stepwell_fabric::mpi::launcher::again;
use stepwell_fabric::mpi::{self, Options, Puts};
use stepwell_fabric::{Error, Fabric, Tag, WindowNumber, conformance};

/// Patience of ranks in cases that lose one.
const PATIENCE_SECONDS: f64 = 2.0;
/// Time after which a case has failed.
const LIMIT: Duration = Duration::from_secs(50);

/// A test by name, with options for its ranks.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    ranks: usize,
    piece_words: usize,
    puts: Puts,
}

const fn case(name: &'static str, ranks: usize) -> Case {
    Case { name, ranks, piece_words: mpi::PIECE_WORDS, puts: Puts::OneSided }
}

impl Case {
    const fn pieces(self, piece_words: usize) -> Self {
        Self { piece_words, ..self }
    }

    const fn by_messages(self) -> Self {
        Self { puts: Puts::Messages, ..self }
    }
}

const CASES: [Case; 28] = [
    case("promises", 1),
    case("promises", 2),
    case("promises", 3),
    case("promises", 4),
    case("promises", 2).pieces(7),
    case("promises", 3).pieces(1024),
    case("promises", 2).by_messages(),
    case("promises", 4).by_messages(),
    case("promises", 2).pieces(7).by_messages(),
    case("promises", 3).pieces(1024).by_messages(),
    // An MPI whose puts wait for the receiver.
    case("emulated", 3),
    case("failing", 2),
    case("failing", 4).pieces(1),
    case("leaving", 3),
    case("broken", 3),
    case("beyond", 3),
    case("beyond", 3).by_messages(),
    case("idle", 2),
    case("KILL", 3),
    case("STOP", 3),
    case("STOP", 2),
    case("CONT", 2),
    // The same while others constantly put into the rank's window.
    case("KILL putting", 3),
    case("STOP putting", 3),
    case("STOP putting", 3).by_messages(),
    case("CONT putting", 3),
    case("CONT putting", 2).by_messages(),
    // Ranks with less patience than when they joined.
    case("sooner", 3),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if mpi::is_launched() {
        let [name, piece_words, puts] = &arguments[..] else { panic!("{arguments:?}") };
        let puts = if puts == BY_MESSAGES { Puts::Messages } else { Puts::OneSided };
        run_rank(name, piece_words.parse().unwrap(), puts);
        return ExitCode::SUCCESS;
    }
    if let Err(error) = again(1, &[]) {
        stepwell_skip::skipped(error);
        return ExitCode::SUCCESS;
    }
    // Cases selected by name, as with other tests.
    let wanted = arguments.iter().find(|argument| !argument.starts_with('-'));
    if wanted.is_some_and(|wanted| wanted == "speed") {
        for case in [case("speed", 2), case("speed", 2).by_messages()] {
            println!("{}", launch(case).1);
        }
        return ExitCode::SUCCESS;
    }
    let mut failures = 0;
    for case in CASES {
        let Case { name, ranks, piece_words, puts } = case;
        if wanted.is_some_and(|wanted| wanted != name) {
            continue;
        }
        let start = Instant::now();
        let (ended, said) = launch(case);
        let fault = verdict(name, ranks, ended, &said);
        let seconds = start.elapsed().as_secs_f64();
        println!(
            "{name}, {ranks} ranks, pieces of {piece_words}, {}: {} ({seconds:.1} s)",
            said_of(puts),
            match fault {
                None => "ok".to_owned(),
                Some(fault) => {
                    failures += 1;
                    format!("FAILED: {fault}\n{said}")
                }
            }
        );
        if name == "promises" && ranks > 1 && puts == Puts::OneSided && !said.contains(EXPOSED) {
            stepwell_skip::skipped("this MPI has no one-sided puts: they were messages");
        }
    }
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

const BY_MESSAGES: &str = "puts by messages";
const EXPOSED: &str = "windows are exposed";

fn said_of(puts: Puts) -> &'static str {
    if puts == Puts::Messages { BY_MESSAGES } else { "one-sided puts" }
}

/// The output of all ranks of a case, and whether they succeeded; `None` if it took too long.
fn launch(case: Case) -> (Option<bool>, String) {
    let Case { name, ranks, piece_words, puts } = case;
    // A rank that is killed does not end the others.
    let options: &[&str] = if name.starts_with("KILL") { &["--enable-recovery"] } else { &[] };
    let mut launcher = again(ranks, options).unwrap();
    if name == "emulated" {
        launcher.env("OMPI_MCA_osc", "pt2pt");
    }
    launcher.args([name, &piece_words.to_string(), said_of(puts)]);
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
            // The launcher passes the signal on to the ranks before it ends.
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
        "KILL" | "STOP" | "KILL putting" | "STOP putting" | "sooner" => {
            all_say("rank 1 is lost: nothing was heard of it for 2 s", &|n| n != 1)
        }
        "beyond" => all_say("rank 0 failed: a message from rank 2 makes no sense", &|n| n != 0),
        "broken" => all_say("rank 1 is lost: it left without a message", &|n| n != 1),
        "leaving" => all_say("rank 1 failed: it left before its end", &|n| n != 1),
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
fn run_rank(name: &str, piece_words: usize, puts: Puts) {
    let patience_seconds = match name {
        "KILL" | "STOP" | "KILL putting" | "STOP putting" | "idle" => PATIENCE_SECONDS,
        // Much longer than the suspension, for a busy machine.
        "CONT" | "CONT putting" => 4.0 * PATIENCE_SECONDS,
        _ => 30.0,
    };
    let options = Options { patience_seconds, piece_words, puts };
    let fabric = mpi::join(options).unwrap().unwrap();
    assert!(matches!(mpi::join(options), Err(Error::Carrier { .. })), "once in a process");
    if name == "sooner" {
        fabric.be_patient(PATIENCE_SECONDS, Tag(0)).unwrap();
    }
    match name {
        "promises" | "emulated" => promises(&fabric, puts, name),
        "failing" => conformance::run_failing(&fabric),
        "idle" => is_quiet(&fabric),
        "beyond" => puts_beyond(&fabric),
        "speed" => speed::between_two(&fabric, puts),
        "CONT" => held_up(&fabric),
        "KILL putting" | "STOP putting" => putting::until_one_goes(&fabric, &name[..4]),
        "CONT putting" => putting::while_one_is_held_up(&fabric),
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

/// The conformance suite, and whether others could reach the windows.
fn promises(fabric: &Fabric, puts: Puts, name: &str) {
    conformance::run(fabric);
    // A large window may lack memory.
    let are_exposed = [3, 4].map(|window| fabric.is_exposed(WindowNumber(window)));
    let may_be = puts == Puts::OneSided && name != "emulated" && fabric.size() > 1;
    assert!(may_be || are_exposed == [false; 2], "puts are messages");
    if are_exposed[0] {
        println!("{EXPOSED}");
    }
}

/// Rank 2 puts up to the end of rank 0's window, and then beyond it.
fn puts_beyond(fabric: &Fabric) {
    let window = WindowNumber(1);
    fabric.open_window(window, 16 << fabric.rank());
    // Rank 2 may have put before others have seen that all arrived.
    let came = fabric.wait(Barrier::start(Tag(0)));
    if fabric.rank() == 2 {
        came.unwrap();
        fabric.put(0, window, 12, &[1; 4]).unwrap();
        fabric.put(0, window, 13, &[2; 4]).unwrap();
    }
    let error = loop {
        match fabric.check() {
            Ok(()) => std::thread::sleep(Duration::from_millis(1)),
            Err(error) => break error,
        }
    };
    println!("{}: {error}", fabric.rank());
    if fabric.rank() == 0 {
        let mut bytes = [0u8; 16];
        fabric.read(window, 0, &mut bytes);
        assert_eq!(bytes, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1]);
        fabric.fail(&error.to_string());
    }
}

/// Ends because of a fault that no other rank sees, without a reason.
fn breaks(fabric: &Fabric) {
    // The others wait for it here.
    while !matches!(fabric.receive(0, Tag(1)), Err(Error::Malformed { rank: 0, .. })) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Vanishes.
fn go(fabric: &Fabric, name: &str) {
    let name = if name == "sooner" { "STOP" } else { name };
    fabric.wait(Barrier::start(Tag(0))).unwrap();
    if name != "leaving" {
        signal(name, std::process::id());
        std::thread::sleep(LIMIT);
    }
}

fn names_who_went(fabric: &Fabric) {
    // The other rank may vanish before this one has seen its arrival at the barrier.
    let came = fabric.wait(Barrier::start(Tag(0)));
    let start = Instant::now();
    let error = came.and_then(|()| fabric.wait(Barrier::start(Tag(1)))).unwrap_err();
    let seconds = start.elapsed().as_secs_f64();
    println!("{}: {error} after {seconds:.2} s", fabric.rank());
    assert!(seconds < 1.5 * PATIENCE_SECONDS, "named in time: {seconds}");
}

/// No rank is lost for being silent, and silence takes no processor time.
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

/// Processor time of all threads of this process, from Linux's count in hundredths.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields = stat.rsplit(')').next().unwrap().split_whitespace().skip(11).take(2);
    fields.map(|ticks| ticks.parse::<f64>().unwrap() / 100.0).sum()
}

/// A rank that was stopped for less than the others' patience continues.
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
