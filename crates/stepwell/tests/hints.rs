//! What people who are new to it trip over: the message knows, and says what to do.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

mod common;

use std::fmt::Write;
use std::fs;

use common::Workshop;
use common::bad::RUN;

/// Records of the settings of tables of what is refused.
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

/// What scoring a file of this text says, which is one line, and nothing on standard output.
fn scored(shop: &Workshop, name: &str, text: &str, more: &[&str]) -> String {
    fs::write(shop.path(name), text).unwrap();
    let output = shop.run(&[&["predict", "saved", "-q", "--data", name], more].concat());
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{name}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_column_that_was_renamed_is_found_by_its_likeness() {
    let shop = shop();
    let renamed = |names: &str| format!("{names}\n{}", records());
    let said = scored(&shop, "a.csv", &renamed("click,price,User_ID,item,tags"), &[]);
    assert!(said.contains("has no column user: it has click, price, User_ID"), "{said}");
    assert!(said.contains("if it is User_ID, call that user in the header"), "{said}");
    assert!(!said.contains("data.header"), "{said}");
    let said = scored(&shop, "a.csv", &renamed("click,price,who,item,tags"), &[]);
    assert!(said.contains("has no column user") && said.contains("; add it, or"), "{said}");
    let said = scored(&shop, "a.csv", &renamed("clicked,price,user,item,tags"), &[]);
    assert!(said.contains("if it is clicked, call that click"), "{said}");
    assert!(said.contains("`predict --unlabelled`"), "{said}");
}

#[test]
fn a_second_line_of_names_is_told_as_such() {
    let shop = shop();
    let twice = format!("{NAMES}{}{NAMES}{}", records(), records());
    let said = scored(&shop, "twice.csv", &twice, &[]);
    assert!(said.contains("twice.csv: line 302: the line names the columns again"), "{said}");
    assert!(said.contains("data.skip_max"), "{said}");
    let quoted = format!("{NAMES}{}\"click\", price,user,item,tags\r\n", records());
    assert!(scored(&shop, "quoted.csv", &quoted, &[]).contains("line 302: the line names"));
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
    assert!(said.contains("files with tabs have no quotes"), "{said}");
}

#[test]
fn data_of_a_checkpoint_is_looked_for_where_it_is_said() {
    let shop = shop();
    fs::create_dir(shop.path("elsewhere")).unwrap();
    let mut command = shop.command(&["eval", "../saved"]);
    let output = command.current_dir(shop.path("elsewhere")).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
    let here = shop.path("elsewhere").canonicalize().unwrap();
    for part in ["rows.csv: does not exist", here.to_str().unwrap(), "name the data with --data"] {
        assert!(said.contains(part), "{said}");
    }
    // What was named here is nothing of the checkpoint's.
    let said = shop.fails(&["eval", "saved", "--data", "none.csv", "-q"]);
    assert!(!said.contains("checkpoint"), "{said}");
    // Nothing is printed of scores that never came.
    let output = shop.run(&["predict", "saved", "--data", "none.csv"]);
    assert!(output.stdout.is_empty() && output.status.code() == Some(1));
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
