//! Tables of commands that must fail, with parts of the error line.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::{Workshop, lines_beside_notes};

/// Far more time than any of them takes in parallel with other tests.
const LONGEST: Duration = Duration::from_secs(60);

/// Settings of a shop with a label, a number, two ids and a list, all small.
pub(crate) const RUN: &str = r#"
[data]
mini_batch = 64
eval_fraction = 0
[model]
dim = 4
hidden = [8]
[tiers]
index = "8MiB"
dram = "1MiB"
segment = "64KiB"

[[columns]]
names = ["click"]
type = "label"
[[columns]]
names = ["price"]
type = "dense"
[[columns]]
names = ["user", "item"]
type = "id"
[[columns]]
names = ["tags"]
type = "ids"
"#;

/// The line of names, and a record.
pub(crate) const HEAD: &str = "click,price,user,item,tags\n";
pub(crate) const GOOD: &str = "1,2.5,u1,i1,a|b\n";

/// Commands that did not fail as the table says.
#[derive(Default)]
pub(crate) struct Found {
    wrong: Vec<String>,
    rows: usize,
}

impl Found {
    /// Runs a command that must end with `status`, one line with all of `says`, and nothing left
    /// behind.
    pub(crate) fn row(&mut self, shop: &Workshop, args: &[&str], status: i32, says: &[&str]) {
        self.rows += 1;
        let (before, began) = (names(shop), Instant::now());
        let output = shop.run(args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let mut wrong = Vec::new();
        if output.status.code() != Some(status) {
            wrong.push(format!("ends with {:?}", output.status.code()));
        }
        let lines = lines_beside_notes(&said);
        if !(said.starts_with("stepwell: ") && lines == 1) {
            wrong.push(format!("says {lines} lines"));
        }
        if said.contains("panicked") || said.chars().any(|c| c.is_control() && c != '\n') {
            wrong.push("panics, or says what no terminal shows".to_owned());
        }
        let missing = says.iter().filter(|part| !said.contains(**part));
        wrong.extend(missing.map(|part| format!("does not say {part:?}")));
        if names(shop) != before {
            wrong.push("leaves something behind".to_owned());
        }
        if began.elapsed() > LONGEST {
            wrong.push(format!("takes {:?}", began.elapsed()));
        }
        if !wrong.is_empty() {
            self.wrong.push(format!("{}: {}: {said}", args.join(" "), wrong.join(", ")));
        }
    }

    /// Checks that all rows passed, and that there were at least `least`.
    pub(crate) fn finish(self, least: usize) {
        let Self { wrong, rows } = self;
        assert!(wrong.is_empty(), "{} of {rows}:\n{}", wrong.len(), wrong.join("\n"));
        assert!(rows >= least, "{rows} rows");
    }
}

fn names(shop: &Workshop) -> BTreeSet<String> {
    let entries = std::fs::read_dir(shop.path("")).unwrap().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}
