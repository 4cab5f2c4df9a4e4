//! Several days of clicks, and runs on them.

use std::fmt::Write as _;

use serde_json::Value;

use crate::common::Workshop;

/// Examples of a day: a multiple of the mini-batch.
pub(crate) const DAY: usize = 400;

/// Settings of a small model.
pub(crate) const SETTINGS: &str = r#"
[data]
eval_fraction = 0.0
mini_batch = 50
[model]
kind = "deepfm"
dim = 4
hidden = [8]
[tiers]
dram = "16MiB"
index = "16MiB"
[[columns]]
names = ["click"]
type = "label"
[[columns]]
names = ["price"]
type = "dense"
[[columns]]
names = ["user", "item"]
"#;

/// Several days of clicks, with drifting tastes of users.
pub(crate) struct Days {
    pub(crate) shop: Workshop,
}

impl Days {
    pub(crate) fn new(days: usize) -> Self {
        let shop = Workshop::new();
        std::fs::write(shop.path("run.toml"), SETTINGS).unwrap();
        let head = "click,price,user,item,device\n";
        let mut all = head.to_owned();
        let mut state = 7_u64;
        for day in 1..=days {
            let mut text = String::new();
            for _ in 0..DAY {
                let mut draw = |below: u64| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (state >> 33) % below
                };
                let (user, item, device, noise) = (draw(60), draw(40), draw(3), draw(10));
                let likes = (user + item + day as u64 / 2).is_multiple_of(3);
                let click = u64::from(likes == (noise > 2));
                writeln!(text, "{click},{},u{user},i{item},d{device}", draw(9)).unwrap();
            }
            std::fs::write(shop.path(&format!("day_{day}.csv")), format!("{head}{text}")).unwrap();
            all += &text;
        }
        std::fs::write(shop.path("all.csv"), all).unwrap();
        Self { shop }
    }

    /// Trains with the settings of the file and `more`; returns the report.
    pub(crate) fn train(&self, more: &[&str]) -> Value {
        let mut args = vec!["train", "run.toml", "--report", "report.json"];
        args.extend(more);
        self.shop.ok(&args);
        self.shop.report("report.json")
    }

    /// Trains day after day from one directory of checkpoints, with `more` each day; returns the
    /// last report.
    pub(crate) fn daily(&self, days: usize, saved: &str, more: &[&str]) -> Value {
        let mut report = Value::Null;
        for day in 1..=days {
            let data = format!("day_{day}.csv");
            let mut args = vec!["--data", &data, "--checkpoint", saved];
            if day > 1 {
                args.extend(["--from", saved]);
            }
            args.extend(more);
            report = self.train(&args);
        }
        report
    }

    /// The output of a run on both streams.
    pub(crate) fn said(&self, args: &[&str]) -> String {
        let output = self.shop.run(args);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat()
    }

    /// The model of all days in one run.
    pub(crate) fn whole(&self, more: &[&str]) -> Value {
        self.train(&[&["--data", "all.csv"], more].concat())["model_digest"].clone()
    }
}

/// The checkpoints in a directory, oldest first.
pub(crate) fn checkpoints(days: &Days, saved: &str) -> Vec<String> {
    let entries = std::fs::read_dir(days.shop.path(saved)).unwrap().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| name.starts_with("step-")).collect();
    names.sort();
    names
}
