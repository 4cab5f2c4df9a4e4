//! Training a case day by day gives the same model as one run over all days, on any machines, and
//! however often a day's process is killed and its command repeated.

use serde_json::Value;

use super::{ALL, Job, MENDS_MAX, PLENTY, PLENTY_INDEX, SETTINGS, given, machine, saving};
use crate::check::{self, End};
use crate::draw::{Data, Day, Launch, Listener, Machine};
use crate::fault::{Fault, Result, found};
use crate::least_machine::Mend;
use crate::process::Call;
use crate::tally::RUNS;

/// Checkpoints and rows of all days.
const SAVED: &str = "saved-days";
const ROWS: &str = "rows-days";
/// Every day is one epoch and holds nothing out for evaluation.
const ONE_EPOCH: [&str; 4] = ["--data.epochs", "1", "--data.eval_fraction", "0"];
/// Part of the error of a run whose model diverged.
const DIVERGED: &str = "training diverged";
/// Output of a command if all of its data was already trained.
const OVER: &str = "nothing to train";

impl Job<'_> {
    /// Trains the days of the case, and all of them in one run.
    pub(super) fn run_days(&mut self) -> Result<()> {
        match self.compare_days() {
            Err(Fault::Refused(why)) => {
                self.tally.refused(&why);
                Ok(())
            }
            other => other,
        }
    }

    fn compare_days(&mut self) -> Result<()> {
        self.write_days()?;
        let reference = self.one_run()?;
        for (number, day) in self.case.days.iter().enumerate() {
            self.run_day(number, day)?;
        }
        let report = self.read(&report_of(self.case.days.len() - 1))?;
        if report["trained_before"] == true {
            // A process was killed between its last checkpoint and its report.
            self.evaluate_days(&reference)?;
        } else {
            check::same_model(&report, &reference)?;
        }
        self.tally.add("models trained day by day", 1);
        Ok(())
    }

    /// Compares the last checkpoint's model with the one of `reference`.
    fn evaluate_days(&mut self, reference: &Value) -> Result<()> {
        let (report, plenty) = ("days-evaluated.json", format!("tiers.dram={PLENTY}"));
        let call = Call::new(&["eval", SAVED, "--digest", "--report", report]);
        let call = call.with(&["--data", &file_of(0), "--set", &plenty]);
        let ran = self.run_call(&call, None, None)?;
        check::well(&ran)?;
        let evaluation = self.read(report)?;
        check::same_digest(&evaluation, reference).map_err(|fault| fault.of(&ran.line))?;
        self.tally.add("days that ended without a report", 1);
        Ok(())
    }

    fn write_days(&self) -> Result<()> {
        let Data::Text(text) = &self.case.data else { return Ok(()) };
        let all: Vec<u8> = text.parts.iter().flat_map(|part| text.content(part).bytes).collect();
        let mut lines = all.split_inclusive(|byte| *byte == b'\n');
        for (number, day) in self.case.days.iter().enumerate() {
            let of_day: Vec<&[u8]> = lines.by_ref().take(day.lines as usize).collect();
            self.shop.write(&file_of(number), &of_day.concat())?;
        }
        Ok(())
    }

    /// Report of one run over all days, with everything in memory.
    fn one_run(&mut self) -> Result<Value> {
        let mut call = Call::new(&["train", SETTINGS]).with(&ONE_EPOCH);
        for number in 0..self.case.days.len() {
            call = call.with(&["--data", &file_of(number)]);
        }
        let report = "days.json";
        let call = machine(call, &Machine::plain(), ALL, PLENTY_INDEX);
        let ran = self.run_call(&call.with(&["--report", report]), None, None)?;
        match check::end(&ran)? {
            // The examples that the case holds out for evaluation are trained here.
            End::Refused(why) if why.contains(DIVERGED) => return Err(Fault::Refused(why)),
            _ => check::well(&ran)?,
        }
        self.tally.add(RUNS, 1);
        self.read(report)
    }

    /// Repeats the command of a day until it ends by itself, and once more after that.
    fn run_day(&mut self, number: usize, day: &Day) -> Result<()> {
        let mut last = None;
        for launch in &day.launches {
            last = Some(launch);
            if self.launch_day(number, launch, false)? {
                break;
            }
        }
        match last.filter(|_| number > 0) {
            Some(launch) => self.launch_day(number, launch, true).map(|_| ()),
            None => Ok(()),
        }
    }

    /// Runs one process of a day; returns whether it ended by itself. If the day `is_over`, it must
    /// find nothing to train.
    fn launch_day(&mut self, number: usize, launch: &Launch, is_over: bool) -> Result<bool> {
        let mut mend = Mend::of_day(&launch.machine, self.least);
        let saved = self.shop.path(SAVED);
        for _ in 0..MENDS_MAX {
            let mut call = Call::new(&["train", SETTINGS]).with(&ONE_EPOCH);
            call = call.with(&["--data", &file_of(number)]);
            call = match (number, saved.exists()) {
                (0, false) => call,
                (0, true) => call.with(&["--resume=auto"]),
                _ => call.with(&["--from", SAVED]),
            };
            call = saving(given(call, launch, &mend), launch, SAVED);
            if launch.machine.rows_named {
                call = call.with(&["--tiers.ssd", ROWS]);
            }
            if !is_over {
                call = call.with(&["--report", &report_of(number)]);
            }
            let stop = launch.stop.filter(|_| !is_over);
            let ran = self.run_call(&call, stop, Some(saved.clone()))?;
            match check::end(&ran)? {
                End::Well if is_over && launch.listener == Listener::Attentive => {
                    let is_told = ran.out.contains(OVER);
                    self.tally.add("days already trained", 1);
                    let why = || found("it trained again on trained data").of(&ran.line);
                    return is_told.then_some(true).ok_or_else(why);
                }
                End::Well => {
                    self.tally.add(RUNS, 1);
                    return Ok(true);
                }
                End::Stopped => {
                    self.stopped(stop, &ran);
                    return Ok(false);
                }
                End::Refused(why) => self.give_more(&mut mend, &why, &ran)?,
            }
        }
        Err(Fault::Refused("a machine asked for more memory repeatedly".to_owned()))
    }
}

fn file_of(number: usize) -> String {
    format!("data/day-{}.tsv", number + 1)
}

fn report_of(number: usize) -> String {
    format!("day-{}.json", number + 1)
}
