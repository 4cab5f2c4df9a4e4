//! Checks how a process ended against its case's oracle.

use stepwell_train::Report;

use crate::case::Case;
use crate::checkpoints::Kept;
use crate::finding::Finding;
use crate::oracle::{Checker, Reads};
use crate::process::Exit;
use crate::shape::Shape;

impl Case {
    /// Checks a process that started after `from` steps, regardless of failures in it.
    ///
    /// # Errors
    /// The finding of a checker.
    pub fn judge(&self, exit: &Exit, checker: &Checker, from: Option<u64>) -> Result<(), Finding> {
        if let Some(difference) = checker.difference() {
            return Err(Finding::WrongRow(difference));
        }
        self.judge_checkpoints(&exit.vault.kept())?;
        if let Some(trouble) = exit.log.trouble.clone() {
            return Err(trouble.into());
        }
        if let Some(said) = &exit.panic {
            return Err(Finding::Panic(said.clone()));
        }
        let Ok(report) = &exit.result else { return Ok(()) };
        self.judge_refills(report)?;
        if report.interrupted {
            return self.judge_interrupted(report, from.unwrap_or(0));
        }
        self.oracle().compare(report, from)?;
        match checker.finish() {
            Some(difference) => Err(Finding::WrongRow(difference)),
            None => Ok(()),
        }
    }

    /// Checks that each checkpoint that could be read back is the model after its step.
    ///
    /// # Errors
    /// The first checkpoint that isn't.
    pub(crate) fn judge_checkpoints(&self, kept: &Kept) -> Result<(), Finding> {
        let right =
            |(step, digest): &&(u64, String)| self.oracle().digests.get(step) == Some(digest);
        match kept.digests.iter().find(|checkpoint| !right(checkpoint)) {
            None => Ok(()),
            Some((step, _)) => Err(Finding::WrongCheckpoint(format!(
                "the checkpoint of step {step} is not the model after that step"
            ))),
        }
    }

    /// Checks the end of a process, whose disk `failed` or not: an error must come from the disk,
    /// or from the table without space.
    ///
    /// # Errors
    /// What is wrong with its end.
    pub(crate) fn judge_end(&self, exit: &Exit, failed: bool) -> Result<(), Finding> {
        match (&exit.result, &self.oracle().full) {
            (Ok(report), Some(table)) if !report.interrupted => Err(Finding::WrongEnd(format!(
                "table '{table}' has no room, but the run succeeded"
            ))),
            (Err(_), Some(table)) if exit.full.as_ref() == Some(table) => Ok(()),
            (Err(why), _) if !failed || exit.full.is_some() => Err(Finding::Failed(why.clone())),
            _ => Ok(()),
        }
    }

    /// Rows of tables that stay in memory are never read from the store, and a resumed run starts
    /// with all of them.
    fn judge_refills(&self, report: &Report) -> Result<(), Finding> {
        for (room, store) in self.oracle().rooms.iter().zip(&report.tiers.disk.stores) {
            let found = store.lookups - store.lookups_absent;
            if room.whole.is_some() && found > 0 {
                let name = &room.tables[0];
                let why =
                    format!("{found} rows of table '{name}' left memory, but all must stay in it");
                return Err(Finding::WrongFigures(why));
            }
        }
        Ok(())
    }

    /// Checks that only checkpoints write rows of tables that stay in memory; returns which groups
    /// evicted rows.
    ///
    /// # Errors
    /// A table whose rows left memory.
    pub(crate) fn judge_whole(&self, report: &Report, shape: &Shape) -> Result<Vec<bool>, Finding> {
        let stores = report.tiers.disk.stores.iter();
        let written: Vec<bool> =
            stores.map(|store| store.rows_live > 0 && !shape.checkpoints).collect();
        for (room, written) in self.oracle().rooms.iter().zip(&written) {
            if room.whole.is_some() && *written {
                let name = &room.tables[0];
                let why = format!("rows of table '{name}' left memory, but all must stay in it");
                return Err(Finding::WrongFigures(why));
            }
        }
        Ok(written)
    }

    /// A stopped run has counted no rows that it didn't train.
    fn judge_interrupted(&self, report: &Report, from: u64) -> Result<(), Finding> {
        let trained = |reads: &&Reads| {
            reads.when.evaluated == 0 && (from..report.steps).contains(&reads.when.steps)
        };
        let reads = self.oracle().reads.iter().filter(trained);
        let (right, uses) =
            (reads.map(|reads| u64::from(reads.rows)).sum(), report.tiers.host.uses);
        if uses > right || (self.oracle().admits_all && uses < right) {
            let why =
                format!("stopped after {} steps: {uses} uses, expected {right}", report.steps);
            return Err(Finding::WrongFigures(why));
        }
        Ok(())
    }
}
