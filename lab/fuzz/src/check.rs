//! Checks each process, and compares reports with the reference's.

use std::os::unix::process::ExitStatusExt;

use serde_json::Value;

use crate::expected::Said;
use crate::fault::{Fault, Result, found};
use crate::process::Ran;

/// Output that indicates a bug.
const BUGS: [&str; 3] = ["panicked", "is a bug", "RUST_BACKTRACE"];
/// Report fields that are equal for all finished runs of a model.
const ALWAYS: [&str; 5] = ["model_digest", "steps", "rows", "eval", "kernels"];
/// Report fields that are equal for all runs from start to end.
const WHOLE: [&str; 5] =
    ["examples", "skipped_lines", "eval_by_epoch", "progressive_by_epoch", "best_possible"];

/// How a process ended, if correctly so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Well,
    /// By the signal that was sent.
    Stopped,
    /// With a one-line error that says what to fix.
    Refused(String),
}

/// Determines how a process ended.
///
/// # Errors
/// A finding if that isn't an allowed way.
pub(crate) fn end(ran: &Ran) -> Result<End> {
    let fail = |why: &str| {
        let (status, said) = (ran.status, last_lines(&ran.err));
        Err(found(format!("{why}: {status}; it said:\n{said}\n  of: {}", ran.line)))
    };
    if BUGS.iter().any(|word| ran.err.contains(word) || ran.out.contains(word)) {
        return fail("a broken invariant");
    }
    if ran.stopped {
        return Ok(End::Stopped);
    }
    match (ran.status.code(), ran.status.signal()) {
        (Some(0), _) => Ok(End::Well),
        (Some(1..=3), _) => match refusal(&ran.err) {
            Some(why) => Ok(End::Refused(why.to_owned())),
            None => fail("an error that is not one line"),
        },
        (_, Some(_)) => fail("ended by an unexpected signal"),
        _ => fail("an unexpected status"),
    }
}

/// Error of a process that refused to run: the only line of `said` that isn't a note or warning.
fn refusal(said: &str) -> Option<&str> {
    let beside = ["stepwell: note: ", "stepwell: warning: "];
    let is_beside = |line: &&str| beside.iter().any(|start| line.starts_with(start));
    let mut lines = said.lines().filter(|line| !is_beside(line));
    let why = lines.next()?.strip_prefix("stepwell: ")?;
    lines.next().is_none().then_some(why)
}

/// Checks a process that must succeed.
///
/// # Errors
/// A finding if it didn't.
pub(crate) fn well(ran: &Ran) -> Result<()> {
    match end(ran)? {
        End::Well => Ok(()),
        End::Refused(why) => {
            Err(found(format!("refused what it must accept: {why}\n  of: {}", ran.line)))
        }
        End::Stopped => Err(Fault::Broken("a process was stopped unexpectedly".to_owned())),
    }
}

/// Last lines of a process's output.
fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let shown: Vec<String> =
        lines[lines.len().saturating_sub(25)..].iter().map(|line| format!("  | {line}")).collect();
    shown.join("\n")
}

/// Checks a reference against the data, and that it had everything in memory.
pub(crate) fn reference(report: &Value, said: &Said) -> Result<()> {
    let expected = [
        ("/examples", said.examples),
        ("/skipped_lines", said.skipped),
        ("/steps", said.steps),
        ("/eval/examples", said.evaluated),
        ("/tiers/host/evictions", 0),
    ];
    for (place, expected) in expected {
        let is = report.pointer(place);
        let may_be_less = said.leaves_out && ["/examples", "/steps"].contains(&place);
        let is_right = |is: u64| is == expected || (may_be_less && is < expected);
        if !is.and_then(Value::as_u64).is_some_and(is_right) {
            let is = is.unwrap_or(&Value::Null);
            return Err(found(format!(
                "the reference has {place} = {is}, but the data has {expected}"
            )));
        }
    }
    memory(report)
}

/// Checks a run from the start against the reference.
pub(crate) fn whole(report: &Value, reference: &Value) -> Result<()> {
    for field in ALWAYS.into_iter().chain(WHOLE) {
        same(field, &report[field], &reference[field])?;
    }
    memory(report)
}

/// Checks a resumed run against the reference: epochs that it trained or evaluated completely must
/// match.
pub(crate) fn resumed(report: &Value, reference: &Value) -> Result<()> {
    for field in ALWAYS {
        same(field, &report[field], &reference[field])?;
    }
    let epochs = |value: &Value, field: &str| value[field].as_array().cloned().unwrap_or_default();
    for (field, passed) in [("eval_by_epoch", 0), ("progressive_by_epoch", 1)] {
        let (is, all) = (epochs(report, field), epochs(reference, field));
        let is = is.get(passed..).unwrap_or_default();
        if !all.ends_with(is) {
            return Err(found(format!(
                "{field} differs: the resumed run has {is:?} at its end, the reference has {all:?}"
            )));
        }
    }
    memory(report)
}

/// Checks that training day by day gave the same model as one run over all days.
pub(crate) fn same_model(report: &Value, reference: &Value) -> Result<()> {
    for field in ["model_digest", "steps", "rows", "kernels"] {
        same(field, &report[field], &reference[field])?;
    }
    memory(report)
}

/// Checks that two reports have the model's digest, and the same.
pub(crate) fn same_digest(report: &Value, reference: &Value) -> Result<()> {
    same("model_digest", &report["model_digest"], &reference["model_digest"])
}

/// The step after which a run reports to resume.
pub(crate) fn resumed_from(said: &str) -> Option<u64> {
    said.split("resuming after step ").nth(1)?.split(' ').next()?.parse().ok()
}

/// Checks that a run resumed from the newest checkpoint.
pub(crate) fn went_on(said: &str, newest: Option<&str>) -> Result<()> {
    let step = newest.and_then(|name| name.rsplit('-').next()?.parse::<u64>().ok());
    if resumed_from(said) == step {
        return Ok(());
    }
    let is = resumed_from(said);
    Err(found(format!("it continued after step {is:?}, but the newest checkpoint was {newest:?}")))
}

fn same(field: &str, is: &Value, reference: &Value) -> Result<()> {
    if is == reference && !is.is_null() || (is.is_null() && field == "best_possible") {
        return Ok(());
    }
    Err(found(format!("{field} differs: the run has {is}, the reference has {reference}")))
}

/// Checks that memory stayed within the plan.
fn memory(report: &Value) -> Result<()> {
    let bytes = |field: &str| report[field].as_u64();
    match (bytes("peak_rss_bytes"), bytes("budget_bytes")) {
        (Some(peak), Some(planned)) if peak <= planned => Ok(()),
        (peak, planned) => {
            Err(found(format!("memory: peak of {peak:?} bytes, but {planned:?} were planned")))
        }
    }
}

/// Checks the report of `eval` on the last checkpoint.
pub(crate) fn evaluation(report: &Value, reference: &Value) -> Result<()> {
    for field in ["model_digest", "eval"] {
        same(field, &report[field], &reference[field])?;
    }
    Ok(())
}

/// Checks the output of `store check --json`.
pub(crate) fn store(said: &str) -> Result<()> {
    let value = json(said, "store check")?;
    let stores = value["stores"].as_array().cloned().unwrap_or_default();
    let damaged = |store: &&Value| store["checked"]["damages"] != Value::Array(Vec::new());
    if value["checkpoint"]["errors"].as_array().is_some_and(|errors| !errors.is_empty()) {
        return Err(found(format!("store check finds errors: {}", value["checkpoint"])));
    }
    match stores.iter().find(damaged) {
        None if !stores.is_empty() => Ok(()),
        store => Err(found(format!("store check finds damage: {store:?}"))),
    }
}

/// Checks the output of `inspect --json` for a finished run.
pub(crate) fn inspection(said: &str, reference: &Value) -> Result<()> {
    let value = json(said, "inspect")?;
    let tables = value["tables"].as_array().cloned().unwrap_or_default();
    let rows: u64 = tables.iter().filter_map(|table| table["rows"].as_u64()).sum();
    same("rows of inspect", &rows.into(), &reference["rows"])?;
    same("step of inspect", &value["step"], &reference["steps"])
}

fn json(said: &str, what: &str) -> Result<Value> {
    serde_json::from_str(said)
        .map_err(|error| found(format!("the output of {what} is not JSON: {error}")))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    fn ran(status: i32, err: &str, stopped: bool) -> Ran {
        let status = std::process::ExitStatus::from_raw(status);
        let (err, line) = (err.to_owned(), "stepwell train".to_owned());
        Ran { status, out: String::new(), err, wall: Duration::ZERO, stopped, line }
    }

    #[test]
    fn ends_are_told_apart() {
        assert_eq!(end(&ran(0, "", false)), Ok(End::Well));
        assert_eq!(end(&ran(9, "", true)), Ok(End::Stopped));
        assert_eq!(end(&ran(130 << 8, "stopped at step 3", true)), Ok(End::Stopped));
        let refused = End::Refused("tiers.dram is 0".to_owned());
        assert_eq!(end(&ran(1 << 8, "stepwell: tiers.dram is 0\n", false)), Ok(refused));
        let bad = [
            ran(101 << 8, "thread 'main' panicked at x.rs", false),
            ran(9, "thread 'train' panicked at x.rs", true),
            ran(1 << 8, "stepwell: stage 'a' panicked; this is a bug in stepwell", false),
            ran(1 << 8, "stepwell: one\ntwo\n", false),
            ran(1 << 8, "", false),
            ran(11, "", false),
            ran(130 << 8, "", false),
            ran(2 << 8, "error: unexpected argument", false),
        ];
        for ran in bad {
            assert!(matches!(end(&ran), Err(Fault::Found(_))), "{ran:?}");
            assert!(well(&ran).is_err());
        }
        assert!(matches!(well(&ran(1 << 8, "stepwell: no\n", false)), Err(Fault::Found(_))));
    }

    fn report() -> Value {
        json!({
            "model_digest": "ab", "steps": 4, "rows": 7, "kernels": "f32", "examples": 8,
            "skipped_lines": 1, "best_possible": null, "eval": {"examples": 2, "auc": 0.5},
            "eval_by_epoch": [{"auc": 0.4}, {"auc": 0.5}],
            "progressive_by_epoch": [{"auc": 0.2}, {"auc": 0.3}],
            "peak_rss_bytes": 10, "budget_bytes": 10, "tiers": {"host": {"evictions": 0}},
        })
    }

    fn with(place: &str, value: Value) -> Value {
        let mut report = report();
        *report.pointer_mut(place).unwrap() = value;
        report
    }

    #[test]
    fn every_figure_of_a_whole_run_counts() {
        assert_eq!(whole(&report(), &report()), Ok(()));
        for (place, value) in [
            ("/model_digest", json!("ac")),
            ("/model_digest", Value::Null),
            ("/steps", json!(5)),
            ("/rows", json!(8)),
            ("/examples", json!(9)),
            ("/skipped_lines", json!(0)),
            ("/eval/auc", json!(0.500_000_000_1)),
            ("/eval_by_epoch/0/auc", json!(0.41)),
            ("/progressive_by_epoch/1/auc", json!(0.31)),
            ("/peak_rss_bytes", json!(11)),
            ("/peak_rss_bytes", Value::Null),
        ] {
            assert!(whole(&with(place, value), &report()).is_err(), "{place}");
        }
        let none = with("/model_digest", Value::Null);
        assert!(whole(&none, &none).is_err(), "two missing digests are not one model");
    }

    #[test]
    fn a_resumed_run_is_compared_from_where_it_went_on() {
        let mut late = with("/examples", json!(3));
        late["eval_by_epoch"] = json!([{"auc": 0.5}]);
        late["progressive_by_epoch"] = json!([{"auc": 0.9}]);
        assert_eq!(resumed(&late, &report()), Ok(()));
        late["progressive_by_epoch"] = json!([{"auc": 0.9}, {"auc": 0.9}]);
        assert!(resumed(&late, &report()).is_err());
        late["progressive_by_epoch"] = json!([]);
        late["eval_by_epoch"] = json!([{"auc": 0.51}]);
        assert!(resumed(&late, &report()).is_err());
        assert!(resumed(&with("/model_digest", json!("ac")), &report()).is_err());
    }

    #[test]
    fn a_run_goes_on_from_the_newest_checkpoint() {
        let said = "resuming after step 12 from saved/step-000000000012\n";
        assert_eq!(went_on(said, Some("step-000000000012")), Ok(()));
        assert_eq!(went_on("starting at step 0", None), Ok(()));
        assert!(went_on(said, Some("step-000000000013")).is_err());
        assert!(went_on("starting at step 0", Some("step-000000000012")).is_err());
        assert!(went_on(said, None).is_err());
    }

    #[test]
    fn a_reference_is_checked_against_the_data() {
        let said = Said { examples: 8, skipped: 1, steps: 4, evaluated: 2, ..Said::default() };
        assert_eq!(reference(&report(), &said), Ok(()));
        assert!(reference(&report(), &Said { skipped: 2, ..said.clone() }).is_err());
        let more = Said { examples: 9, steps: 5, ..said.clone() };
        assert!(reference(&report(), &more).is_err());
        assert_eq!(reference(&report(), &Said { leaves_out: true, ..more }), Ok(()));
        assert!(reference(&report(), &Said { evaluated: 3, ..said.clone() }).is_err());
        assert!(reference(&with("/tiers/host/evictions", json!(1)), &said).is_err());
    }

    #[test]
    fn damage_and_missing_rows_are_found() {
        let said = |damages: Value| json!({"stores": [{"checked": {"damages": damages}}]});
        assert_eq!(store(&said(json!([])).to_string()), Ok(()));
        assert!(store(&said(json!([{"file": "a"}])).to_string()).is_err());
        assert!(store("{\"stores\": []}").is_err());
        let mut errors: Value = serde_json::from_str(&said(json!([])).to_string()).unwrap();
        errors["checkpoint"] = json!({"errors": ["dense.bin"]});
        assert!(store(&errors.to_string()).is_err());
        assert!(store("whole").is_err());
        let shown = json!({"step": 4, "tables": [{"rows": 5}, {"rows": 2}]}).to_string();
        assert_eq!(inspection(&shown, &report()), Ok(()));
        assert!(inspection(&shown, &with("/rows", json!(6))).is_err());
    }
}
