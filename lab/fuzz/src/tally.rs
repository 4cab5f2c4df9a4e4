//! Counts what was exercised: a fuzzer that tries nothing finds nothing.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use serde_json::Value;

use crate::draw::{Case, Data, Form, KINDS, Launch, POLICIES, STORAGES, Stop, Variant};

/// Training processes that finished or were ended by a signal.
pub(crate) const RUNS: &str = "runs";
/// Cases after which what most cases do, and what few do, must have happened.
const MANY: [u64; 2] = [50, 400];
/// Percentage of refused cases and variants that is too many.
const REFUSED_PERCENT: u64 = 30;

/// Settings that only some models have.
const DRAWN_SOMETIMES: [&str; 12] = [
    "pipeline.staleness",
    "rows.admit_after",
    "rows.expire_after",
    "model.dropout",
    "model.batch_norm",
    "data.class_weight",
    "train.label_smoothing",
    "train.focal_gamma",
    "optim.rows.max_norm",
    "optim.rows.plateau_patience",
    "optim.dense.ema",
    "features",
];

/// Counts by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    counts: BTreeMap<String, u64>,
    /// Maxima by name.
    most: BTreeMap<&'static str, u64>,
    /// Number of refusals by message, without numbers.
    refusals: BTreeMap<String, u64>,
}

impl Tally {
    pub(crate) fn add(&mut self, name: &str, count: u64) {
        if count > 0 {
            *self.counts.entry(name.to_owned()).or_default() += count;
        }
    }

    /// Records a number if it is the largest of its name.
    pub(crate) fn most(&mut self, name: &'static str, number: u64) {
        let most = self.most.entry(name).or_default();
        *most = number.max(*most);
    }

    pub(crate) fn get(&self, name: &str) -> u64 {
        self.counts.get(name).copied().unwrap_or(0)
    }

    pub(crate) fn join(&mut self, other: &Self) {
        other.counts.iter().for_each(|(name, count)| self.add(name, *count));
        other.most.iter().for_each(|(name, number)| self.most(name, *number));
        for (why, count) in &other.refusals {
            *self.refusals.entry(why.clone()).or_default() += count;
        }
    }

    /// Counts a case or variant that the program refused.
    pub(crate) fn refused(&mut self, why: &str) {
        let digits = |c: char| c.is_ascii_digit();
        let parts: Vec<&str> = why.split(digits).filter(|part| !part.is_empty()).collect();
        *self.refusals.entry(parts.join("N")).or_default() += 1;
    }

    /// Counts a process that a signal ended.
    pub(crate) fn stopped(&mut self, stop: Option<Stop>, status: ExitStatus) {
        let Some(stop) = stop else { return };
        self.add(&format!("stopped by SIG{}", stop.signal.name()), 1);
        if status.signal().is_none() {
            self.add("stopped gracefully", 1);
        }
    }

    /// Counts what a finished run exercised.
    pub(crate) fn ended(
        &mut self,
        case: &Case,
        variant: &Variant,
        launch: &Launch,
        report: &Value,
        said: &str,
    ) {
        self.add("runs that ended", 1);
        for key in ["model.kind", "rows.storage", "optim.rows.kind", "model.precision"] {
            self.add(&format!("{key} {}", case.model.get(key)), 1);
        }
        for key in DRAWN_SOMETIMES {
            self.add(key, u64::from(!case.model.get(key).is_empty()));
        }
        let machine = &launch.machine;
        for (_, value) in machine.settings.iter().filter(|(key, _)| *key == "tiers.policy") {
            self.add(&format!("policy {value}"), 1);
        }
        self.add(&format!("engine {}", machine.engine.unwrap_or("auto")), 1);
        for (key, value) in machine.settings.iter().filter(|(key, _)| *key == "train.dense") {
            self.add(&format!("on devices, {key} = {value}"), 1);
        }
        let ranks = report["by_rank"].as_array().map_or(1, Vec::len);
        self.add("runs of several ranks", u64::from(ranks > 1));
        let apart = report.pointer("/ranks/apart").is_some();
        self.add("runs of ranks out of step", u64::from(apart));
        let in_tables = report["config"]["sync.dense"] == "geeps";
        self.add("runs with the dense part in tables", u64::from(apart && in_tables));
        for form in [Form::Plain, Form::Gzip, Form::Zstd, Form::Packed] {
            let has = variant.forms.contains(&form);
            self.add(&format!("data {form:?}").to_lowercase(), u64::from(has));
        }
        self.add("data in one file", u64::from(variant.joined));
        self.add("built-in data", u64::from(matches!(case.data, Data::Stream { .. })));
        let skipped = report["skipped_lines"].as_u64().unwrap_or(0);
        self.add("malformed lines skipped", skipped);
        self.add("caches made", u64::from(said.contains("data cache of ")));
        self.add("caches read", u64::from(said.contains("in the place of the text")));
        let bytes = |field: &str| report[field].as_u64().unwrap_or(0);
        let part = 100 * bytes("peak_rss_bytes") / bytes("budget_bytes").max(1);
        self.most("percent of the planned memory", part);
        for (name, place) in [
            ("evictions", "/tiers/host/evictions"),
            ("refills", "/tiers/host/refilled"),
            ("rows forwarded", "/tiers/host/forwarded"),
            ("compactions", "/tiers/disk/compactions"),
        ] {
            self.add(name, report.pointer(place).and_then(Value::as_u64).unwrap_or(0));
        }
    }

    /// Names of features that a long run should have exercised but didn't.
    pub(crate) fn missing(&self) -> Vec<String> {
        let [many, very_many] = MANY.map(|cases| self.get("cases") >= cases);
        let (usual, rare) = if many { (Self::usual(), Self::rare()) } else { Default::default() };
        let mut names = if very_many { [usual, rare].concat() } else { usual };
        names.retain(|name| self.get(name) == 0);
        names
    }

    /// Names of what few cases do.
    fn rare() -> Vec<String> {
        let mut names = vec!["runs of ranks out of step".to_owned()];
        names.extend(KINDS.map(|kind| format!("model.kind {kind}")));
        names
    }

    /// Names of what most cases do, or many of them.
    fn usual() -> Vec<String> {
        let mut names: Vec<String> = [
            "stopped by SIGKILL",
            "stopped by SIGINT",
            "stopped by SIGTERM",
            "resumes from a checkpoint",
            "evaluations of a checkpoint",
            "evictions",
            "refills",
            "rows forwarded",
            "compactions",
            "caches made",
            "caches read",
            "malformed lines skipped",
            "data packed",
            "data gzip",
            "data zstd",
            "built-in data",
            "data in one file",
            "runs restarted with --force",
            "runs without a listener",
            "model.precision bf16",
            "machines that asked for more memory",
            "runs of several ranks",
        ]
        .map(str::to_owned)
        .to_vec();
        names.extend(DRAWN_SOMETIMES.map(str::to_owned));
        names.extend(STORAGES.map(|storage| format!("rows.storage {storage}")));
        names.extend(POLICIES.map(|policy| format!("policy {policy}")));
        names
    }

    /// Number of refused cases and variants.
    pub(crate) fn refusals(&self) -> u64 {
        self.refusals.values().sum()
    }

    /// Whether too many were refused for meaningful results.
    pub(crate) fn mostly_refused(&self) -> bool {
        let tried = self.refusals() + self.get("runs that ended");
        self.refusals() * 100 > tried * REFUSED_PERCENT
    }

    /// All counts, one line each.
    pub(crate) fn lines(&self) -> Vec<String> {
        let counts = self.counts.iter().map(|(name, count)| format!("{count:>9}  {name}"));
        let refusals =
            self.refusals.iter().map(|(why, count)| format!("{count:>9}  refused: {why}"));
        let most = self.most.iter().map(|(name, number)| format!("{number:>9}  at most: {name}"));
        counts.chain(most).chain(refusals).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_counted_by_their_rule() {
        let mut tally = Tally::default();
        tally.refused("tiers.index = 64 is too small: 9 rows");
        tally.refused("tiers.index = 128 is too small: 17 rows");
        tally.refused("other");
        assert_eq!(tally.refusals(), 3);
        assert_eq!(tally.lines().len(), 2);
        tally.add("runs that ended", 6);
        assert!(tally.mostly_refused());
        tally.add("runs that ended", 1);
        assert!(!tally.mostly_refused());
    }

    #[test]
    fn what_never_happened_is_missing() {
        let mut tally = Tally::default();
        assert_eq!(tally.missing(), Vec::<String>::new());
        tally.add("cases", 50);
        let has = |all: &[String], name: &str| all.contains(&name.to_owned());
        let few = tally.missing();
        assert!(has(&few, "evictions") && !has(&few, "model.kind dcn"));
        tally.add("cases", 350);
        let all = tally.missing();
        assert!(has(&all, "evictions") && has(&all, "model.kind dcn"));
        tally.add("evictions", 0);
        assert_eq!(tally.missing(), all);
        for name in &all {
            tally.add(name, 1);
        }
        assert_eq!(tally.missing(), Vec::<String>::new());
        let mut joined = Tally::default();
        for number in [3, 7, 5] {
            tally.most("height", number);
            joined.join(&tally);
        }
        assert_eq!(joined.get("evictions"), 3);
        assert!(joined.lines().contains(&"        7  at most: height".to_owned()));
    }
}
