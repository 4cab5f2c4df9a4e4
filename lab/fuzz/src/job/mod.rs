//! Runs a case: the reference, its variants, and checks afterwards.
//!
//! - **How.** The reference has everything in memory and processes one thing at a time. Every
//!   variant must give the same model. A variant is one process, or several, all but the last of
//!   which are ended by signals; each resumes from the newest checkpoint on a different machine.
//! - **Memory.** A machine with minimal memory asks the program how much that is: the program fails
//!   with a number, and is restarted with that number.

mod days;

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use crate::check::{self, End};
use crate::draw::{Cache, Case, Launch, Listener, Machine, Stop, Variant, When};
use crate::expected::Said;
use crate::fault::{Fault, Result, broken, found};
use crate::files::Files;
use crate::least_machine::{Least, Mend};
use crate::process::{Call, Halt, Moment, Ran, Shop, newest};
use crate::tally::{RUNS, Tally};

/// Settings of model and data, in the directory of a case.
const SETTINGS: &str = "run.toml";
/// Most times that a machine gets more resources before its variant is abandoned.
const MENDS_MAX: u32 = 20;
/// Bytes for all rows of any case.
const ALL: &str = "512MiB";
/// Bytes for all rows of most cases, and for their index.
const PLENTY: &str = "96MiB";
const PLENTY_INDEX: &str = "32MiB";

/// A case in progress.
pub(crate) struct Job<'a> {
    case: &'a Case,
    shop: &'a mut Shop,
    pub(crate) tally: Tally,
    files: Files,
    said: Said,
    reference: Value,
    /// Error that every run must give, if there are too many malformed lines.
    refusal: Option<String>,
    /// Last known needs of this case's machines.
    least: Least,
    /// Duration of a run on a small machine.
    scale: Duration,
    /// The first evaluation on all data, if the case has no evaluation data.
    evaluated: Option<Value>,
}

/// A variant in progress.
struct Course<'a> {
    number: usize,
    variant: &'a Variant,
    /// Processes started for it, including refused ones.
    started: u32,
}

impl Course<'_> {
    fn saved(&self) -> String {
        format!("saved-{}", self.number)
    }
}

/// The fault in a refusal of data. The command it suggests is cut off, because that names files as
/// the call did: one by one, or by a pattern.
fn fault_of(why: &str) -> &str {
    why.split_once("; no columns are given").map_or(why, |(fault, _)| fault)
}

impl<'a> Job<'a> {
    /// Runs a case; returns the tally up to its end or a fault.
    pub(crate) fn run(case: &'a Case, shop: &'a mut Shop) -> (Tally, Result<()>) {
        let mut job = Self {
            case,
            shop,
            tally: Tally::default(),
            files: Files::default(),
            said: Said::default(),
            reference: Value::Null,
            refusal: None,
            least: Least::default(),
            scale: Duration::ZERO,
            evaluated: None,
        };
        let outcome = job.run_all();
        (job.tally, outcome)
    }

    fn run_all(&mut self) -> Result<()> {
        self.files = Files::write(self.case, self.shop)?;
        let said = Said::of(self.case, &self.files.lines);
        self.shop.write(SETTINGS, said.settings(self.case).as_bytes())?;
        self.said = said;
        self.run_reference()?;
        for (number, variant) in self.case.variants.iter().enumerate() {
            match self.run_variant(&mut Course { number, variant, started: 0 }) {
                // Other variants of the case may still succeed.
                Err(Fault::Refused(why)) => self.tally.refused(&why),
                other => other?,
            }
        }
        if !self.case.days.is_empty() {
            self.run_days()?;
        }
        self.files.check(self.shop)
    }

    fn run_reference(&mut self) -> Result<()> {
        let mut call = Call::new(&["train", SETTINGS]);
        call.args.extend(self.files.plain_flags());
        let report = "reference.json";
        let mut plain = Machine::plain();
        plain.settings.extend(self.case.together.clone());
        let call = machine(call, &plain, ALL, PLENTY_INDEX);
        let ran = self.run_call(&call.with(&["--report", report]), None, None)?;
        match check::end(&ran)? {
            End::Refused(why) if self.said.too_few_skips => {
                self.tally.add("cases with too many malformed lines", 1);
                self.refusal = Some(why);
                return Ok(());
            }
            End::Well if self.said.too_few_skips => {
                return Err(found("it skipped more lines than it may").of(&ran.line));
            }
            End::Well => self.tally.add(RUNS, 1),
            End::Refused(why) => return Err(Fault::Refused(why)),
            End::Stopped => return Err(found("the reference was stopped unexpectedly")),
        }
        (self.reference, self.scale) = (self.read(report)?, 3 * ran.wall);
        check::reference(&self.reference, &self.said).map_err(|fault| fault.of(&ran.line))
    }

    fn run_call(&mut self, call: &Call, stop: Option<Stop>, saved: Option<PathBuf>) -> Result<Ran> {
        self.tally.add("processes", 1);
        let scaled = |part| self.scale.mul_f64(part);
        let stop = stop.map(|Stop { signal, when, twice }| {
            let moment = match (when, &saved) {
                (When::Saved(count, part), Some(saved)) => {
                    Moment::Saved(saved, count, scaled(part))
                }
                (When::Part(part) | When::Saved(_, part), _) => Moment::After(scaled(part)),
            };
            Halt { signal, moment, twice }
        });
        let ran = self.shop.run(call, stop)?;
        self.tally.most("milliseconds of a process", ran.wall.as_millis() as u64);
        Ok(ran)
    }

    fn read(&self, report: &str) -> Result<Value> {
        let text = std::fs::read(self.shop.path(report));
        let text = text.map_err(|error| found(format!("{report} was not written: {error}")))?;
        serde_json::from_slice(&text).map_err(|error| found(format!("{report}: {error}")))
    }

    fn run_variant(&mut self, course: &mut Course<'_>) -> Result<()> {
        let variant = course.variant;
        for launch in &variant.launches {
            if let Some(ran) = self.launch(course, launch, launch.stop)? {
                self.after_end(course, &ran)?;
                break;
            }
            if launch.look {
                self.look(course)?;
            }
        }
        let last = variant.launches.last().filter(|_| variant.again && variant.saved);
        if let Some(launch) = last {
            self.launch(course, launch, None)?;
            self.tally.add("runs resumed after their end", 1);
        }
        Ok(())
    }

    /// Runs one launch; returns its output if it finished, `None` if it was stopped.
    fn launch(
        &mut self,
        course: &mut Course<'_>,
        launch: &Launch,
        stop: Option<Stop>,
    ) -> Result<Option<Ran>> {
        let mut mend = Mend::new(&launch.machine, self.least);
        for attempt in 0..MENDS_MAX {
            let report = format!("report-{}-{}.json", course.number, course.started);
            let call = self.call(course, launch, &mend).with(&["--report", &report]);
            let saved = course.variant.saved.then(|| self.shop.path(&course.saved()));
            let mut from = saved.as_deref().and_then(newest);
            let flag = match (course.started, &saved) {
                (0, _) | (_, None) => None,
                _ if launch.anew && attempt == 0 => {
                    self.tally.add("runs restarted with --force", 1);
                    from = None;
                    Some("--force")
                }
                _ if launch.auto || from.is_none() => Some("--resume=auto"),
                _ => Some("--resume"),
            };
            let call = call.with(flag.as_slice());
            course.started += 1;
            let ran = self.run_call(&call, stop, saved)?;
            match check::end(&ran)? {
                End::Well if self.refusal.is_some() => {
                    return Err(found("it skipped more lines than it may").of(&ran.line));
                }
                End::Refused(why)
                    if self.refusal.as_deref().map(fault_of) == Some(fault_of(&why)) =>
                {
                    return Ok(None);
                }
                End::Well => {
                    self.tally.add(RUNS, 1);
                    let report = self.read(&report).map_err(|fault| fault.of(&ran.line))?;
                    let resumed = self.went_on(launch, &ran, from.as_deref());
                    resumed
                        .and_then(|resumed| self.compare(course, launch, &report, &ran, resumed))
                        .map_err(|fault| fault.of(&ran.line))?;
                    return Ok(Some(ran));
                }
                End::Stopped => {
                    self.stopped(stop, &ran);
                    return Ok(None);
                }
                End::Refused(why) => self.give_more(&mut mend, &why, &ran)?,
            }
        }
        Err(Fault::Refused("a machine asked for more memory repeatedly".to_owned()))
    }

    /// Counts a process that a signal ended.
    fn stopped(&mut self, stop: Option<Stop>, ran: &Ran) {
        self.tally.add(RUNS, 1);
        self.tally.stopped(stop, ran.status);
    }

    /// Gives a machine what an error asks for.
    fn give_more(&mut self, mend: &mut Mend, why: &str, ran: &Ran) -> Result<()> {
        mend.follow(why).map_err(|fault| fault.of(&ran.line))?;
        self.least = mend.least();
        self.tally.add("machines that asked for more memory", 1);
        Ok(())
    }

    /// Whether a run resumed from a checkpoint. Checks that it was the newest, if the output was
    /// read.
    fn went_on(&mut self, launch: &Launch, ran: &Ran, from: Option<&str>) -> Result<bool> {
        if launch.listener != Listener::Attentive {
            self.tally.add("runs without a listener", 1);
            return Ok(from.is_some());
        }
        check::went_on(&ran.err, from).map(|()| from.is_some())
    }

    /// The command of a launch.
    fn call(&self, course: &Course<'_>, launch: &Launch, mend: &Mend) -> Call {
        let (variant, number) = (course.variant, course.number);
        let mut call = Call::new(&["train", SETTINGS]);
        call.args.extend(self.files.flags(variant));
        let mut call = given(call, launch, mend);
        let cache = match variant.cache {
            Cache::Unused => None,
            Cache::Own => Some(format!("own-{number}.cache")),
            Cache::Shared => Some("shared.cache".to_owned()),
        };
        if let Some(cache) = &cache {
            call = call.with(&["--data.cache", cache]);
        }
        if variant.saved {
            call = saving(call, launch, &course.saved());
        }
        if launch.machine.rows_named {
            // Without checkpoints, a run can't use the rows of a refused run.
            let attempt = if variant.saved { 0 } else { course.started };
            call = call.with(&["--tiers.ssd", &format!("rows-{number}-{attempt}")]);
        }
        call
    }

    /// Compares a finished run with the reference.
    fn compare(
        &mut self,
        course: &Course<'_>,
        launch: &Launch,
        report: &Value,
        ran: &Ran,
        resumed: bool,
    ) -> Result<()> {
        if resumed {
            self.tally.add("resumes from a checkpoint", 1);
            check::resumed(report, &self.reference)?;
        } else {
            check::whole(report, &self.reference)?;
            self.scale = ran.wall;
        }
        let said = format!("{}{}", ran.out, ran.err);
        self.tally.ended(self.case, course.variant, launch, report, &said);
        Ok(())
    }

    /// Checks the newest checkpoint of a stopped run, which must be complete.
    fn look(&mut self, course: &Course<'_>) -> Result<()> {
        let Some(newest) = newest(&self.shop.path(&course.saved())) else { return Ok(()) };
        let newest = format!("{}/{newest}", course.saved());
        let ran = self.run_call(&Call::new(&["store", "check", &newest, "--json"]), None, None)?;
        check::well(&ran)?;
        check::store(&ran.out).map_err(|fault| fault.of(&ran.line))?;
        let ran = self.run_call(&Call::new(&["inspect", &newest]), None, None)?;
        check::well(&ran)?;
        self.tally.add("checkpoints of stopped runs inspected", 1);
        Ok(())
    }

    /// Checks the files that a finished run leaves.
    fn after_end(&mut self, course: &Course<'_>, ran: &Ran) -> Result<()> {
        let left = std::fs::read_dir(self.shop.path("tmp")).map_err(broken("list a folder"))?;
        if course.variant.launches.len() == 1 && course.number == 0 && left.count() > 0 {
            return Err(found("it left temporary files").of(&ran.line));
        }
        if !course.variant.saved {
            return Ok(());
        }
        let saved = course.saved();
        let Some(newest) = newest(&self.shop.path(&saved)) else {
            return Err(found("it left no checkpoint").of(&ran.line));
        };
        let newest = format!("{saved}/{newest}");
        let ran = self.run_call(&Call::new(&["store", "check", &newest, "--json"]), None, None)?;
        check::well(&ran)?;
        check::store(&ran.out).map_err(|fault| fault.of(&ran.line))?;
        let ran = self.run_call(&Call::new(&["inspect", &saved, "--json"]), None, None)?;
        check::well(&ran)?;
        check::inspection(&ran.out, &self.reference).map_err(|fault| fault.of(&ran.line))?;
        self.evaluate(course, &saved)
    }

    /// Evaluates the last checkpoint like the run did, or on all data if it didn't.
    fn evaluate(&mut self, course: &Course<'_>, saved: &str) -> Result<()> {
        let report = format!("evaluation-{}.json", course.number);
        let mut call = Call::new(&["eval", saved, "--digest", "--report", &report]);
        let own = self.said.evaluated > 0;
        if !own {
            let flags = self.files.plain_flags();
            if flags.is_empty() {
                return Ok(());
            }
            call.args.extend(flags.into_iter().take_while(|flag| flag != "--data.eval_paths"));
            call = call.with(&["--set", "data.skip_max=100000"]);
        }
        let mut ran = self.run_call(&call, None, None)?;
        // Memory that sufficed for training may not suffice for evaluation.
        if let End::Refused(why) = check::end(&ran)?
            && why.contains("raise tiers.dram")
        {
            let plenty = format!("tiers.dram={PLENTY}");
            ran = self.run_call(&call.with(&["--set", &plenty]), None, None)?;
        }
        check::well(&ran)?;
        let evaluation = self.read(&report)?;
        if own {
            check::evaluation(&evaluation, &self.reference).map_err(|fault| fault.of(&ran.line))?;
        } else {
            let first = self.evaluated.get_or_insert_with(|| evaluation.clone());
            check::evaluation(&evaluation, first).map_err(|fault| fault.of(&ran.line))?;
        }
        self.tally.add("evaluations of a checkpoint", 1);
        Ok(())
    }
}

/// Adds a launch's machine and listener to a call.
fn given(call: Call, launch: &Launch, mend: &Mend) -> Call {
    let (dram, index) = (mend.dram(PLENTY), mend.index(PLENTY_INDEX));
    let mut settings = launch.machine.clone();
    settings.settings.retain(|(key, _)| mend.space().is_none_or(|(space, _)| *key != space));
    settings.settings.extend(mend.space());
    settings.settings.extend(mend.hbm());
    let call = machine(call, &settings, &dram, &index);
    Call { engine: mend.engine(), listener: launch.listener, ..call }
}

/// Adds a launch's checkpoints, in `directory`.
fn saving(call: Call, launch: &Launch, directory: &str) -> Call {
    let (every, keep) = (launch.every.to_string(), launch.keep.to_string());
    let call = call.with(&["--checkpoint", directory]);
    let call = call.with(&["--checkpoint.every", &every, "--checkpoint.keep", &keep]);
    call.with(&["--checkpoint.minutes", launch.minutes])
}

/// Adds a machine's settings to a command.
fn machine(call: Call, machine: &Machine, dram: &str, index: &str) -> Call {
    let mut call = call.with(&["--tiers.dram", dram, "--tiers.index", index]);
    for (key, value) in &machine.settings {
        call = call.with(&[&format!("--{key}"), value]);
    }
    call
}
