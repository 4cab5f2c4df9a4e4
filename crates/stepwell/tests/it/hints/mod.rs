//! Typical mistakes of new users: the message recognizes them and says what to do.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

mod guesses;

use std::fmt::Write;
use std::fs;

use crate::common::Workshop;
use crate::common::bad::RUN;

/// Records for the settings of [`RUN`].
fn records() -> String {
    let mut text = String::new();
    for n in 0..300_usize {
        writeln!(text, "{},{}.5,u{},i{},a|b", n % 2, n % 9, n % 17, n % 5).unwrap();
    }
    text
}

const NAMES: &str = "click,price,user,item,tags\n";

/// A shop with a model of `rows.csv`.
fn shop() -> Workshop {
    let shop = Workshop::new();
    fs::write(shop.path("run.toml"), RUN.replace("eval_fraction = 0", "eval_fraction = 0.1"))
        .unwrap();
    fs::write(shop.path("rows.csv"), format!("{NAMES}{}", records())).unwrap();
    shop.ok(&["train", "run.toml", "--data", "rows.csv", "--checkpoint", "saved"]);
    shop
}

/// The one line of scoring a file with this text, which prints nothing to standard output.
fn scored(shop: &Workshop, name: &str, text: &str, more: &[&str]) -> String {
    fs::write(shop.path(name), text).unwrap();
    let output = shop.run(&[&["predict", "saved", "-q", "--data", name], more].concat());
    let said = String::from_utf8(output.stderr).unwrap();
    // The settings don't suit the data, or a record is malformed.
    let status = if said.contains("has no column") { 2 } else { 1 };
    assert_eq!((output.status.code(), output.stdout.len()), (Some(status), 0), "{said}");
    said
}

#[test]
fn a_column_that_was_renamed_is_found_by_its_likeness() {
    let shop = shop();
    let renamed = |names: &str| format!("{names}\n{}", records());
    let said = scored(&shop, "a.csv", &renamed("click,price,User_ID,item,tags"), &[]);
    assert!(said.contains("has no column user: it has click, price, User_ID"), "{said}");
    assert!(said.contains("if it is User_ID, rename that to user in the header"), "{said}");
    assert!(!said.contains("data.header"), "{said}");
    let said = scored(&shop, "a.csv", &renamed("click,price,who,item,tags"), &[]);
    assert!(said.contains("has no column user") && said.contains("; add it, or"), "{said}");
    let said = scored(&shop, "a.csv", &renamed("clicked,price,user,item,tags"), &[]);
    assert!(said.contains("if it is clicked, rename that to click"), "{said}");
    assert!(said.contains("`predict --unlabelled`"), "{said}");
}

#[test]
fn a_second_line_of_names_is_told_as_such() {
    let shop = shop();
    let twice = format!("{NAMES}{}{NAMES}{}", records(), records());
    let said = scored(&shop, "twice.csv", &twice, &[]);
    assert!(said.contains("twice.csv: line 302: the line repeats the header"), "{said}");
    assert!(said.contains("data.skip_max"), "{said}");
    let quoted = format!("{NAMES}{}\"click\", price,user,item,tags\r\n", records());
    assert!(scored(&shop, "quoted.csv", &quoted, &[]).contains("line 302: the line repeats"));
    shop.ok(&["train", "run.toml", "--data", "twice.csv", "--skip-max=1"]);
}

#[test]
fn labels_that_are_none_are_told_how_to_do_without() {
    let shop = shop();
    for label in ["", "?"] {
        let text = format!("{NAMES}{label},2.5,u1,i1,a\n");
        let said = scored(&shop, "a.csv", &text, &[]);
        assert!(said.contains("`predict --unlabelled` scores data without labels"), "{said}");
        shop.ok(&["predict", "saved", "--data", "a.csv", "--unlabelled"]);
    }
    let said = scored(&shop, "b.csv", "price,user,item,tags\n2.5,u1,i1,a\n", &[]);
    assert!(said.contains("`predict --unlabelled`"), "{said}");
}

#[test]
fn fields_with_line_breaks_are_refused_with_a_way_out() {
    let shop = shop();
    let said = scored(&shop, "a.csv", &format!("{NAMES}1,2.5,\"u\n1\",i1,a\n"), &[]);
    let mend = "write the data as JSON lines or Parquet, or without line breaks";
    assert!(said.contains("line 2, column 3") && said.contains(mend), "{said}");
    let tabs = format!("{NAMES}1,2.5,\"u\n1\",i1,a\n").replace(',', "\t");
    let said = scored(&shop, "a.tsv", &tabs, &[]);
    assert!(said.contains("tab-separated files have no quotes"), "{said}");
}

#[test]
fn data_of_a_checkpoint_is_looked_for_where_it_is_said() {
    let shop = shop();
    fs::create_dir(shop.path("elsewhere")).unwrap();
    let mut command = shop.command(&["eval", "../saved"]);
    let output = command.current_dir(shop.path("elsewhere")).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
    let here = shop.path("elsewhere").canonicalize().unwrap();
    for part in ["rows.csv: does not exist", here.to_str().unwrap(), "name the data with --data"] {
        assert!(said.contains(part), "{said}");
    }
    // The user named this data, so the message does not mention the checkpoint.
    let said = shop.fails(&["eval", "saved", "--data", "none.csv", "-q"]);
    assert!(!said.contains("checkpoint"), "{said}");
    // Nothing is printed if there are no scores.
    let output = shop.run(&["predict", "saved", "--data", "none.csv"]);
    assert!(output.stdout.is_empty() && output.status.code() == Some(2));
}

#[test]
fn damaged_rows_are_told_what_repairs_them() {
    let shop = shop();
    let step = fs::read_dir(shop.path("saved")).unwrap().flatten().map(|entry| entry.path());
    let rows = step.filter(|path| path.is_dir()).max().unwrap().join("rows-0");
    let segment = fs::read_dir(&rows).unwrap().flatten().map(|entry| entry.path());
    let segment = segment.filter(|path| path.extension().is_some_and(|it| it == "rows"));
    let segment = segment.max().unwrap();
    let whole = fs::read(&segment).unwrap();
    for at in [100, 5000, whole.len() - 20] {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x40;
        fs::write(&segment, bytes).unwrap();
        for args in [
            &["eval", "saved"][..],
            &["predict", "saved", "--data", "rows.csv"],
            &["train", "run.toml", "--data", "rows.csv", "--checkpoint", "saved", "--resume"],
            &["export", "saved", "--to", "tensors"],
            &["inspect", "saved"],
            &["diff", "saved", "saved"],
        ] {
            let said = shop.fails(&[args, &["-q"]].concat());
            assert!(said.contains("`stepwell store repair`"), "{args:?}: {said}");
            assert_eq!(said.matches("store repair").count(), 1, "{args:?}: {said}");
        }
    }
}

#[test]
fn data_without_columns_is_told_how_they_are_named() {
    let shop = Workshop::new();
    fs::write(shop.path("rows.csv"), format!("{NAMES}{}", records())).unwrap();
    for more in [&[][..], &["--ranks", "2"], &["--data.eval_fraction", "0"], &["--skip-max", "3"]] {
        let said = shop.fails(&[&["train", "--data", "rows.csv", "-q"], more].concat());
        // If some lines are skipped, it is the first line after them.
        let line = if more.contains(&"3") { "line 4" } else { "line 1" };
        assert!(said.contains(&format!("rows.csv: {line}")), "{said}");
        let hint = "no columns are given, so lines are read as Criteo's click logs: `stepwell \
            schema rows.csv --out run.toml`";
        assert!(said.contains(hint), "{said}");
    }
    // With settings of columns, the same lines are not malformed.
    shop.ok(&["schema", "rows.csv", "--out", "run.toml"]);
    fs::write(shop.path("rows.csv"), format!("{NAMES}{}x\n", records())).unwrap();
    let said = shop.fails(&["train", "run.toml", "-q"]);
    assert!(said.contains("line 302") && !said.contains("Criteo"), "{said}");
}

#[test]
fn of_several_bad_lines_the_first_is_reported() {
    let shop = Workshop::new();
    shop.examples("data.tsv", 1000);
    let text = fs::read_to_string(shop.path("data.tsv")).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    (lines[500], lines[990]) = ("none", "none");
    fs::write(shop.path("data.tsv"), lines.join("\n") + "\n").unwrap();
    let said = shop.fails(&["train", "--data", "data.tsv", "-q"]);
    assert!(said.contains("line 501, ") && !said.contains("no columns are given"), "{said}");
}

#[test]
fn settings_that_name_no_data_ask_for_it() {
    let shop = Workshop::new();
    fs::write(shop.path("run.toml"), "[data]\nmini_batch = 64\n").unwrap();
    let said = shop.fails(&["train", "run.toml"]);
    assert!(said.contains("run.toml: no data is named: give data.paths there"), "{said}");
    assert!(said.contains("--synth trains on the built-in stream"), "{said}");
    let small = ["--tiers.index=8MiB", "--dim=4", "--model=lr", "--synth.examples=500"];
    shop.ok(&[&["train", "run.toml"], &small[..]].concat());
    shop.ok(&[&["train", "run.toml", "--synth"], &small[..]].concat());
    shop.ok(&[&["train"], &small[..]].concat());
    // Settings of the stream choose it, even in the file.
    fs::write(shop.path("run.toml"), "[synth]\nexamples = 500\n").unwrap();
    shop.ok(&[&["train", "run.toml"], &small[..3]].concat());
}

#[test]
fn a_guess_is_written_to_a_file_that_is_not_there() {
    let shop = Workshop::new();
    fs::write(shop.path("rows.csv"), format!("{NAMES}{}", records())).unwrap();
    let said = shop.ok(&["schema", "rows.csv", "--out", "run.toml"]);
    assert!(said.contains("5 columns in run.toml") && said.contains("`stepwell train run.toml`"));
    let written = fs::read_to_string(shop.path("run.toml")).unwrap();
    assert_eq!(written, shop.ok(&["schema", "rows.csv"]));
    assert!(written.contains("mini_batch = 1\n") && written.contains("epochs = 1\n"), "{written}");
    fs::write(shop.path("ten.csv"), "click,user\n".to_owned() + &"1,ada\n0,bo\n".repeat(5))
        .unwrap();
    let steps = "has at least 10 records (estimated):\n# an epoch makes at least 9 steps.\n";
    assert!(shop.ok(&["schema", "ten.csv"]).contains(steps));
    let said = shop.fails(&["schema", "rows.csv", "--out", "run.toml"]);
    assert!(said.contains("run.toml exists; replace it with --force"), "{said}");
    shop.ok(&["schema", "rows.csv", "--out", "run.toml", "--force"]);
    let said = shop.fails(&["schema", "rows.csv", "--out", "rows.csv", "--force"]);
    assert!(said.contains("this run reads that file"), "{said}");
    for (name, bytes, says) in [
        ("book.xlsx", &b"PK\x03\x04\x14\x00\x06\x00\x08\x00rest\n"[..], "zip"),
        ("rows.bin", b"user,item\n1,2\0\n3,4\n", "is binary"),
    ] {
        fs::write(shop.path(name), bytes).unwrap();
        let said = shop.fails(&["schema", name]);
        assert!(said.contains(name) && said.contains(says), "{said}");
    }
}

/// A column of whole numbers with missing values as pandas writes it.
#[test]
fn ids_that_became_numbers_with_a_point_are_ids() {
    let shop = Workshop::new();
    let rows = |number: usize| match number % 7 {
        0 => format!("{},,{}.0\n", number % 2, number % 50),
        _ => format!("{},{}.0,{}.5\n", number % 2, number * 31 % 977, number % 50),
    };
    let text: String = (0..500).map(rows).collect();
    fs::write(shop.path("rows.csv"), format!("click,user_id,price\n{text}")).unwrap();
    let settings = shop.ok(&["schema", "rows.csv"]);
    let kind = |name: &str| {
        let after = settings.split(&format!("[\"{name}\"]")).nth(1).unwrap();
        after.split('"').nth(1).unwrap().to_owned()
    };
    assert_eq!((kind("user_id"), kind("price")), ("id".to_owned(), "dense".to_owned()));
}

#[test]
fn rows_on_a_disk_that_is_memory_are_told() {
    let shop = Workshop::new();
    let shared = std::path::Path::new("/dev/shm");
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    if !mounts.lines().any(|line| line.contains(" /dev/shm tmpfs ")) {
        return stepwell_skip::skipped("a tmpfs at /dev/shm");
    }
    let note = "which is in memory (tmpfs)";
    let plan = |args: &[&str]| {
        let mut command = shop.command(&[&["plan"], args].concat());
        let output = command.env("TMPDIR", shared).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(plan(&[]).contains(note) && plan(&["--json"]).contains(note));
    let elsewhere = shop.text("rows");
    let is_memory = mounts.lines().any(|line| line.contains(" /tmp tmpfs "));
    assert_eq!(plan(&["--tiers.ssd", &elsewhere]).contains(note), is_memory);
}

#[test]
fn misspelt_columns_end_a_command_before_it_begins() {
    let shop = shop();
    let lines = |user: &str| -> String {
        let line = |n: usize| {
            format!("{{\"click\":{},\"price\":{n},\"{user}\":\"u{}\",\"item\":1}}\n", n % 2, n % 9)
        };
        (0..50).map(line).collect()
    };
    fs::write(shop.path("rows.jsonl"), lines("user")).unwrap();
    fs::write(shop.path("case.jsonl"), lines("User")).unwrap();
    let usr = RUN.replace("[\"user\", \"item\"]", "[\"usr\", \"item\"]");
    fs::write(shop.path("usr.toml"), &usr).unwrap();
    let both = format!("{usr}\n[[columns]]\nnames = [\"user\"]\ntype = \"ignored\"\n");
    fs::write(shop.path("both.toml"), both).unwrap();
    let refused = |args: &[&str], says: &[&str]| {
        let output = shop.run(&[args, &["-q"]].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{args:?}: {said}");
        assert!(says.iter().all(|part| said.contains(part)), "{args:?}: {said}");
    };
    let in_csv = &["has no column usr", "if it is user"];
    let in_json = &["rows.jsonl: none of its first 50 records has usr", "they have user"];
    refused(&["train", "usr.toml", "--data", "rows.csv"], in_csv);
    refused(&["train", "usr.toml", "--data", "rows.jsonl"], in_json);
    refused(&["convert", "rows.jsonl", "--config", "usr.toml", "--out", "p"], in_json);
    for command in ["predict", "eval"] {
        let says = &["case.jsonl: none of its first 50 records has user", "they have User"];
        refused(&[command, "saved", "--data", "case.jsonl"], says);
    }
    for (data, column, near) in [
        ("rows.csv", "usr", "user"),
        ("rows.csv", "userid", "user"),
        ("rows.csv", "Item_ID", "item"),
        ("rows.jsonl", "usr", "user"),
    ] {
        let said = format!("{column}: {data} has no column {column}; did you mean {near}?");
        refused(&["predict", "saved", "--data", data, "--id", column], &[&format!("--id {said}")]);
        let said = format!("--group {said}");
        refused(&["eval", "saved", "--data", data, "--group", column], &[&said]);
    }
    // Two columns with similar names.
    shop.ok(&["train", "both.toml", "--data", "rows.jsonl"]);
}

#[test]
fn columns_without_a_value_are_warned_of_even_quietly() {
    let shop = shop();
    let line = |n: usize, price: &str| format!("{},{price},u{},i{},a\n", n % 2, n % 7, n % 5);
    let csv = |price: &str| NAMES.to_owned() + &(0..50).map(|n| line(n, price)).collect::<String>();
    fs::write(shop.path("empty.csv"), csv("")).unwrap();
    fs::write(shop.path("quoted.csv"), csv("\"\"")).unwrap();
    fs::write(shop.path("na.csv"), csv("NA")).unwrap();
    let object = |n: usize| format!("{{\"click\":{},\"user\":\"u{}\",\"item\":1}}\n", n % 2, n % 9);
    fs::write(shop.path("keys.jsonl"), (0..50).map(object).collect::<String>()).unwrap();
    for (data, lacks) in [
        ("empty.csv", "price"),
        ("quoted.csv", "price"),
        ("na.csv", "price"),
        ("keys.jsonl", "price, tags"),
    ] {
        let expected = format!(
            "stepwell: warning: none of the first 50 records of {data} has {lacks}: missing in \
             each of them"
        );
        let na = ["--set", "data.missing=NA"];
        for args in [
            &["train", "run.toml", "--data", data, na[0], na[1]][..],
            &["convert", data, "--config", "na.toml", "--out", "p", "--force"],
        ] {
            let settings = fs::read_to_string(shop.path("run.toml")).unwrap();
            let settings = settings.replace("[data]", "[data]\nmissing = [\"NA\"]");
            fs::write(shop.path("na.toml"), settings).unwrap();
            let output = shop.run(&[args, &["-q"]].concat());
            let said = String::from_utf8(output.stderr).unwrap();
            assert!(output.status.success(), "{args:?}: {said}");
            let first = said.lines().next().unwrap_or_default();
            assert!(first.starts_with(&expected) && said.lines().count() == 1, "{args:?}: {said}");
        }
    }
    // Data that is only scored is looked at once.
    let said = shop.notes(&["eval", "saved", "--data", "empty.csv", "-q"]);
    assert_eq!(said.matches("of empty.csv has price").count(), 1, "{said}");
    // One record with a value is enough.
    fs::write(shop.path("few.csv"), csv("") + &line(1, "2")).unwrap();
    let output = shop.run(&["train", "run.toml", "--data", "few.csv", "-q"]);
    assert!(output.status.success() && output.stderr.is_empty());
}

#[test]
fn names_of_data_that_name_nothing_are_refused_in_one_line() {
    let shop = shop();
    for args in [
        &["train", "run.toml", "--data", ""][..],
        &["train", "--from", "saved", "--data", "", "--checkpoint", "saved"],
        &["predict", "saved", "--data", ""],
    ] {
        let output = shop.run(&[args, &["-q"]].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{args:?}: {said}");
        assert!(said.contains("the name of a data file is empty: name a file"), "{said}");
    }
    for pattern in ["rows_{1,2}.csv", "rows_{1..3}.csv", "r*_{1,2}.csv"] {
        let said = shop.fails(&["train", "run.toml", "-q", "--data", pattern]);
        assert!(said.contains(pattern) && said.contains("braces are not a pattern here"), "{said}");
        assert!(said.contains("so that the shell expands them"), "{said}");
    }
    // A file may have any name.
    fs::copy(shop.path("rows.csv"), shop.path("rows_{1,2}.csv")).unwrap();
    shop.ok(&["train", "run.toml", "--data", "rows_{1,2}.csv"]);
}

#[test]
fn a_run_that_trains_is_not_told_how_to_do_without_labels() {
    let shop = shop();
    for text in [
        format!("{NAMES},2.5,u1,i1,a\n"),
        format!("{NAMES}?,2.5,u1,i1,a\n"),
        "price,user,item,tags\n2.5,u1,i1,a\n".to_owned(),
    ] {
        fs::write(shop.path("a.csv"), text).unwrap();
        let said = shop.fails(&["train", "run.toml", "--data", "a.csv", "-q"]);
        assert!(said.contains("click") && !said.contains("predict"), "{said}");
    }
}
