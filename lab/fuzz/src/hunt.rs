//! Runs cases until there are enough processes, the time is up, or something is found.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::draw::{Case, Data};
use crate::fault::{Fault, broken};
use crate::job::Job;
use crate::process::{SCRIPT, Shop};
use crate::tally::{RUNS, Tally};

/// Attempts per seed before it is skipped.
const ATTEMPTS: u64 = 3;
/// Refusals after which a run ends if most cases are refused.
const REFUSALS: u64 = 30;

/// Options of a hunt.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) program: PathBuf,
    /// Fewest training processes.
    pub(crate) runs: u64,
    /// Seed of the first case.
    pub(crate) seed: u64,
    /// Time after which no case is started.
    pub(crate) time: Duration,
    /// Directory for findings.
    pub(crate) keep: Option<PathBuf>,
    /// Time after which a process counts as hung.
    pub(crate) limit: Duration,
    /// Findings after which the run ends.
    pub(crate) findings: u64,
}

/// A run of the fuzzer.
pub(crate) struct Hunt {
    options: Options,
    tally: Tally,
    findings: u64,
}

impl Hunt {
    pub(crate) fn new(options: Options) -> Self {
        Self { options, tally: Tally::default(), findings: 0 }
    }

    /// Runs cases, and prints a line for each, findings, and what was exercised.
    ///
    /// # Errors
    /// One line: what was found, what never happened, or why the fuzzer can't continue.
    pub(crate) fn run(mut self) -> Result<(), String> {
        let Options { program, seed, runs, .. } = &self.options;
        println!("fuzzing {}, from seed {seed}, {runs} runs", program.display());
        let (begun, mut seed) = (Instant::now(), *seed);
        while self.tally.get(RUNS) < self.options.runs
            && begun.elapsed() < self.options.time
            && self.findings < self.options.findings
            && !(self.tally.refusals() >= REFUSALS && self.tally.mostly_refused())
        {
            self.run_seed(seed)?;
            seed = seed.wrapping_add(1);
        }
        println!("{} cases in {:.0} s", self.tally.get("cases"), begun.elapsed().as_secs_f64());
        self.tally.lines().iter().for_each(|line| println!("{line}"));
        self.verdict()
    }

    fn verdict(&self) -> Result<(), String> {
        if self.findings > 0 {
            return Err(format!("{} findings, see above", self.findings));
        }
        if self.tally.mostly_refused() {
            return Err("most drawn cases were refused: fix the drawing".to_owned());
        }
        let missing = self.tally.missing();
        if !missing.is_empty() {
            return Err(format!("never covered in so many cases: {}", missing.join(", ")));
        }
        Ok(())
    }

    /// Runs the case of a seed, or its next attempt if that is refused.
    fn run_seed(&mut self, seed: u64) -> Result<(), String> {
        for attempt in 0..ATTEMPTS {
            let folder = Folder::new(self.options.keep.as_deref(), seed)?;
            let case = Case::draw(seed, attempt);
            let shop = Shop::new(folder.path(), &self.options.program, self.options.limit);
            let (begun, shop) = (Instant::now(), shop);
            let (tally, outcome) = match shop {
                Ok(mut shop) => Job::run(&case, &mut shop),
                Err(fault) => (Tally::default(), Err(fault)),
            };
            self.tally.join(&tally);
            self.tally.add("cases", 1);
            println!("{}, {:.1} s", headline(&case, &tally), begun.elapsed().as_secs_f64());
            match outcome {
                Ok(()) => return Ok(()),
                Err(Fault::Refused(why)) => self.tally.refused(&why),
                Err(Fault::Found(why)) => {
                    self.findings += 1;
                    return self.tell(seed, &why, folder);
                }
                Err(Fault::Broken(why)) => return Err(why),
            }
        }
        Ok(())
    }

    /// Prints a finding with its commands, and keeps its directory.
    fn tell(&self, seed: u64, why: &str, folder: Folder) -> Result<(), String> {
        let folder = folder.keep();
        println!("FOUND with seed {seed}: {why}");
        println!("  reproduce it: cargo xtask fuzz --seed {seed} --runs 1");
        println!("  all commands, in {} as {SCRIPT}:", folder.display());
        let script = std::fs::read_to_string(folder.join(SCRIPT)).unwrap_or_default();
        script.lines().skip(2).for_each(|line| println!("    {line}"));
        Ok(())
    }
}

/// Summary line of a case.
fn headline(case: &Case, tally: &Tally) -> String {
    let data = match &case.data {
        Data::Stream { examples, .. } => format!("{examples} examples of the stream"),
        Data::Text(text) => format!("{} lines in {}", text.lines(), text.parts.len()),
    };
    let stops = ["KILL", "INT", "TERM"].map(|name| tally.get(&format!("stopped by SIG{name}")));
    format!(
        "seed {}: {} dim {}, mini-batch {}, {data}, {} epochs; {} runs, {} stopped, {} resumed",
        case.seed,
        case.model.get("model.kind"),
        case.model.get("model.dim"),
        case.model.get("data.mini_batch"),
        case.epochs,
        tally.get(RUNS),
        stops.iter().sum::<u64>(),
        tally.get("resumes from a checkpoint"),
    )
}

/// Directory of a case, removed on drop unless it is kept.
struct Folder(TempDir);

impl Folder {
    fn new(keep: Option<&Path>, seed: u64) -> Result<Self, String> {
        let said = |fault| match fault {
            Fault::Broken(why) | Fault::Found(why) | Fault::Refused(why) => why,
        };
        let prefix = format!("stepwell-fuzz-{seed}-");
        let mut builder = tempfile::Builder::new();
        let builder = builder.prefix(&prefix);
        let made = match keep {
            Some(keep) => {
                let made = std::fs::create_dir_all(keep).and_then(|()| keep.canonicalize());
                made.and_then(|keep| builder.tempdir_in(keep))
            }
            None => builder.tempdir(),
        };
        made.map(Self).map_err(|error| said(broken("create a folder for a case")(error)))
    }

    fn path(&self) -> PathBuf {
        self.0.path().to_owned()
    }

    fn keep(self) -> PathBuf {
        self.0.keep()
    }
}
