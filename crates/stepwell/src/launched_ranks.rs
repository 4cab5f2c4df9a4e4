//! Ranks that are processes: `mpirun -n 4 stepwell train ...`.
//!
//! - **How.** Every process detects by itself whether an MPI launcher started it. Rank 0 reads and
//!   broadcasts the settings, shows progress and writes the one report. An error of any rank is
//!   printed once: by rank 0, or by rank 1 if rank 0 is lost. All ranks exit with an error status.
//! - **Failure.** Ranks first compare their builds and refuse different ones, which might not
//!   understand each other's messages.

use std::fs::File;
use std::io::Read;

use serde_json::{Value, json};
use stepwell_base::hash::Checksum;
use stepwell_cli::launcher;
use stepwell_fabric::collective::{Barrier, Broadcast, Gather};
use stepwell_fabric::{Error as FabricError, Fabric, Message, Tag};
use stepwell_settings::{self as settings, Config};
use stepwell_train::{Ranks, WarmStart};

use crate::cli::TrainArgs;
use crate::ended::Ended;
use crate::failure::Failure;
use crate::signals::Signals;
use crate::train::{self, Prepared};

/// Gather of each rank's program to rank 0.
const PROGRAM: Tag = Tag(100);
/// Broadcast of the settings from rank 0.
const SETTINGS: Tag = Tag(101);
/// Barrier that sets how long ranks wait for each other.
const PATIENCE: Tag = Tag(102);

/// Barrier after all ranks know that nothing is left to do.
const DONE: Tag = Tag(103);

/// Bytes of the program per read.
const PIECE_BYTES: usize = 1 << 20;

/// Joins the ranks launched with this process; `None` if there are no others.
///
/// # Errors
/// If they cannot be joined.
#[cfg(feature = "mpi")]
pub(crate) fn join() -> Result<Option<Fabric>, Failure> {
    let joined = stepwell_fabric::mpi::join(stepwell_fabric::mpi::Options::default());
    let joined = joined.map_err(|error| error.to_string())?;
    Ok(joined.filter(|fabric| fabric.size() > 1))
}

/// Refuses to be one of several processes.
///
/// # Errors
/// If a launcher started several.
#[cfg(not(feature = "mpi"))]
pub(crate) fn join() -> Result<Option<Fabric>, Failure> {
    launcher::refuse(|size| {
        format!(
            "an MPI launcher started {size} processes, and this build lacks MPI: build it with \
             --features mpi, or train with --ranks {size} in one process"
        )
    })?;
    Ok(None)
}

/// Trains as one of the ranks of `fabric`, and prints why they end if this rank has to report it.
pub(crate) fn run(args: &TrainArgs, fabric: Fabric) -> Result<(), Failure> {
    let ended = match train_as_rank(args, &fabric) {
        Ok(()) => return Ok(()),
        Err(ended) => ended,
    };
    let leads = fabric.rank() == 0;
    let leader_is_lost =
        fabric.rank() == 1 && matches!(&ended, Ended::Others(FabricError::Lost { rank: 0, .. }));
    let failure = ended.into_failure();
    if leads || leader_is_lost {
        failure.say();
    }
    // After the message is printed, because a launcher may kill other ranks once one has ended.
    drop(fabric);
    Err(Failure::Said(failure.status()))
}

fn train_as_rank(args: &TrainArgs, fabric: &Fabric) -> Result<(), Ended> {
    let signals = Signals::heed()?;
    // Unless the launcher says otherwise, each rank has its own machine.
    let here = launcher::size_here().unwrap_or(1).clamp(1, fabric.size());
    let ranks = Ranks { fabric: fabric.clone(), stop: signals.stop(), processes: Some(here) };
    let tells = |failure: &Ended| {
        if let Ended::Own(failure) = failure {
            fabric.fail(&failure.to_string());
        }
    };
    check_builds(fabric).inspect_err(tells)?;
    if fabric.rank() > 0 {
        let config = fabric.wait(Broadcast::start(fabric, SETTINGS, 0, None))?;
        let told = config.reader().take::<u8>().ok().and_then(Told::read);
        let told = told.ok_or_else(|| "rank 0 sent no settings".to_owned());
        let Told { config, from, is_done } = told.map_err(Ended::from).inspect_err(tells)?;
        fabric.be_patient(config.ranks.timeout, PATIENCE)?;
        if is_done {
            return end_together(fabric);
        }
        let from = from.map(|from| WarmStart::from_text(&from)).transpose();
        let from = from.map_err(Ended::from).inspect_err(tells)?;
        return train::follow(args, &config, from, &signals, ranks);
    }
    let prepared = train::prepare(args, Some(fabric.size()));
    let prepared = prepared.map_err(|failure| signals.or_interrupted(failure, train::EARLY));
    let prepared = prepared.map_err(Ended::from).inspect_err(tells)?;
    let mut message = fabric.message();
    message.put(Told::text(&prepared).as_bytes());
    fabric.wait(Broadcast::start(fabric, SETTINGS, 0, Some(message)))?;
    fabric.be_patient(prepared.config.ranks.timeout, PATIENCE)?;
    let is_done = prepared.warm.as_ref().is_some_and(|warm| warm.is_done);
    train::lead(args, prepared, &signals, Some(ranks))?;
    if is_done { end_together(fabric) } else { Ok(()) }
}

/// Waits for all ranks, so that none takes another's exit for a loss.
fn end_together(fabric: &Fabric) -> Result<(), Ended> {
    fabric.wait(Barrier::start(DONE))?;
    fabric.end();
    Ok(())
}

/// The message from rank 0 to the others.
struct Told {
    config: Config,
    /// The model that all ranks begin with, from [`WarmStart::to_text`].
    from: Option<String>,
    /// Whether nothing is left to train.
    is_done: bool,
}

impl Told {
    fn text(prepared: &Prepared) -> String {
        let warm = prepared.warm.as_ref();
        let from = warm.and_then(|warm| warm.start.as_ref()).map(WarmStart::to_text);
        let is_done = warm.is_some_and(|warm| warm.is_done);
        let config = settings::to_json(&prepared.config);
        json!({ "config": config, "from": from, "is_done": is_done }).to_string()
    }

    fn read(text: &[u8]) -> Option<Self> {
        let value: Value = serde_json::from_slice(text).ok()?;
        Some(Self {
            config: settings::from_json(&value["config"]).ok()?,
            from: value["from"].as_str().map(str::to_owned),
            is_done: value["is_done"].as_bool()?,
        })
    }
}

/// Version and build of a process's program.
#[derive(Debug, PartialEq, Eq)]
struct Program {
    version: String,
    /// XXH3-64 of the program's file, as builds of one version may differ.
    build: u64,
}

impl Program {
    fn own() -> Result<Self, String> {
        let build = checksum_of("/proc/self/exe").map_err(|error| {
            format!("cannot read this program's file, to compare it with other ranks': {error}")
        })?;
        Ok(Self { version: env!("CARGO_PKG_VERSION").to_owned(), build })
    }

    fn into_message(self, mut message: Message) -> Message {
        message.put(self.version.as_bytes());
        message.put(&[self.build]);
        message
    }

    /// Reads another rank's program. An earlier version may send less.
    fn read(message: &Message) -> Self {
        let mut reader = message.reader();
        let version = String::from_utf8_lossy(reader.take().unwrap_or_default()).into_owned();
        let build = reader.take::<u64>().ok().and_then(|words| words.first().copied());
        Self { version, build: build.unwrap_or_default() }
    }

    /// The message if rank `rank` runs another program than rank 0, which runs this one.
    fn differs(&self, rank: usize, theirs: &Self) -> Option<String> {
        if self == theirs {
            return None;
        }
        let (own, other) = (&self.version, &theirs.version);
        let what = match own == other {
            false => format!("stepwell {other}, and rank 0 {own}"),
            true => format!(
                "another build of stepwell {own} than rank 0 (XXH3 of the program is {:016x}, and \
                 {:016x})",
                theirs.build, self.build
            ),
        };
        Some(format!("rank {rank} runs {what}: launch the same build everywhere"))
    }
}

fn checksum_of(path: &str) -> std::io::Result<u64> {
    let (mut file, mut checksum) = (File::open(path)?, Checksum::new());
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(checksum.value()),
            bytes => checksum.update(&piece[..bytes]),
        }
    }
}

/// Refuses different builds: rank 0 gathers and compares the programs of all ranks.
fn check_builds(fabric: &Fabric) -> Result<(), Ended> {
    let message = Program::own()?.into_message(fabric.message());
    let all = fabric.wait(Gather::start(fabric, PROGRAM, 0, message)?)?;
    let mut all = all.iter().map(Program::read).enumerate();
    let Some((_, own)) = all.next() else { return Ok(()) };
    let differ = all.find_map(|(rank, theirs)| own.differs(rank, &theirs));
    differ.map_or(Ok(()), |why| Err(Ended::from(why)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_that_differ_are_told_apart() {
        let program = |version: &str, build| Program { version: version.to_owned(), build };
        let own = program("0.2.0", 7);
        assert_eq!(own.differs(1, &program("0.2.0", 7)), None);
        let older = own.differs(3, &program("0.1.0", 7)).unwrap();
        assert!(
            older.starts_with("rank 3 runs stepwell 0.1.0, and rank 0 0.2.0: launch"),
            "{older}"
        );
        let other = own.differs(1, &program("0.2.0", 8)).unwrap();
        assert!(other.contains("another build of stepwell 0.2.0 than rank 0"), "{other}");
        // A rank that sends only its version has another build.
        let mut message = Message::default();
        message.put("0.2.0".as_bytes());
        assert!(own.differs(1, &Program::read(&message)).is_some());
        let whole = program("0.2.0", 7).into_message(Message::default());
        assert_eq!(Program::read(&whole), own);
    }

    #[test]
    fn a_program_is_the_bytes_of_its_file() {
        let exe = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let own = Program::own().unwrap();
        assert_eq!(own.build, stepwell_base::hash::checksum(&exe));
    }
}
