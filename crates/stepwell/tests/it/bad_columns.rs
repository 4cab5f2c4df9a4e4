//! Invalid settings of columns, and commands that do not match the data: one line that names what
//! is wrong and the fix, and nothing left behind.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use std::fmt::Write as _;
use std::fs;

use crate::common::Workshop;
use crate::common::bad::{Found, GOOD, HEAD, RUN};

/// A shop with settings and some records.
fn shop() -> Workshop {
    let shop = Workshop::new();
    fs::write(shop.path("run.toml"), RUN).unwrap();
    let mut text = HEAD.to_owned();
    for n in 0..500_usize {
        writeln!(text, "{},{}.5,u{},i{},a|b", n % 2, n % 9, n % 17, n % 5).unwrap();
    }
    fs::write(shop.path("rows.csv"), text).unwrap();
    shop
}

/// Trains with more columns, and packs with them.
fn columns(found: &mut Found, shop: &Workshop, more: &str, says: &[&str]) {
    fs::write(shop.path("more.toml"), format!("{RUN}\n{more}\n")).unwrap();
    let commands: [&[&str]; 3] = [
        &["train", "more.toml", "--data", "rows.csv"],
        &["plan", "more.toml", "--data", "rows.csv"],
        &["convert", "rows.csv", "--config", "more.toml", "--out", "packed"],
    ];
    commands.iter().for_each(|command| found.row(shop, command, 2, says));
}

#[test]
fn columns_that_make_no_sense() {
    let (shop, mut found) = (shop(), Found::default());
    let mut more = |text: &str, says: &[&str]| {
        let text = format!("[[columns]]\nnames = {text}");
        columns(&mut found, &shop, &text, says);
    };
    more("['user']", &["column user is given twice", "give it once"]);
    more("['x', 'x']", &["more.toml:27: columns.5.names has x twice", "name it once"]);
    more("['']", &["a column has no name"]);
    more("[]", &["columns.5.names is empty", "name at least one column"]);
    more("['C9-C1']", &["columns.5.names has C9-C1", "give C1-C9"]);
    more("['C1-C99999']", &["columns.5.names has more than 65536", "give fewer"]);
    more("['C1-C60000', 'D1-D60000']", &["columns.5.names has more than 65536"]);
    let weights = "['x', 'y']\ntype = 'weight'";
    more(weights, &["column y: is a second weight", "at most one"]);
    let number = "['y']\ntype = 'label'\nloss = 'squared_error'\npositive = ['a']";
    more(number, &["column y: is a number to learn", "give one of them"]);
    more("['y']\ntype = 'label'\nloss = 'hinge'", &["columns.5.loss = hinge", "squared_error"]);
    more(
        "['x']\ntype = 'number'",
        &["columns.5.type = number", "label, weight, dense, id, ids, ignored"],
    );
    more("['x']\ntipe = 'id'", &["unknown key 'columns.5.tipe'", "columns.5.type"]);
    more("['x']\nof = ['z']", &["column x: is made of z, which is not a column", "type ignored"]);
    more("['x']\nof = ['x']", &["column x: x is made of other columns itself"]);
    more("['x']\nof = ['user', 'user']", &["columns.5.of has user twice", "name it once"]);
    more("['x', 'y']\nof = ['user']", &["columns.5.names are several", "give it one name"]);
    more("['x']\nof = ['user', 'item']\ntype = 'dense'", &["column x: is made of several"]);
    more("['x']\nof = ['user', 'item']\ntype = 'ids'", &["column x", "lists and buckets"]);
    more("['x']\nof = ['user', 'item']\nbuckets = [1]", &["column x", "lists and buckets"]);
    more("['x']\ntype = 'ids'\nids = 0", &["columns.5.ids is 0", "give 1 to 65536"]);
    more("['x']\ntype = 'ids'\nids = 70000", &["columns.5.ids is 70000", "give 1 to 65536"]);
    more("['x']\ntype = 'ids'\nseparator = ''", &["column x", "give a separator, such as |"]);
    more("['x']\ntype = 'ids'\nvalues = 'true'", &["column x", "true, which is not a column"]);
    more("['x']\ntype = 'ids'\nvalues = '|'", &["column x", "its separator contains |"]);
    more("['x']\ntype = 'ids'\nbuckets = [1]", &["column x: has buckets and is a list"]);
    more("['x']\nnamespace = \"a\\u0000\"", &["column x", "cannot name a namespace", "no NUL"]);
    more("['x']\n[[columns]]\nnames = ['y']\nof = ['z']", &["column y: is made of z"]);
    more("['x']\n[columns]\nnames = ['y']", &["more.toml:28: duplicate key"]);
    let mut price = |text: &str, says: &[&str]| {
        let text = format!("[[columns]]\nnames = ['x']\nof = ['price']\n{text}");
        columns(&mut found, &shop, &text, says);
    };
    let standard = "type = 'dense'\ntransform = 'standardise'";
    let half = format!("{standard}\nmean = [1]");
    price(&half, &["columns.5.transform", "1 numbers in mean and 0 in deviation", "or none"]);
    let counts = format!("{standard}\nmean = [1, 2]\ndeviation = [1]");
    price(&counts, &["columns.5.transform", "2 numbers in mean and 1 in deviation for 1 names"]);
    let flat = format!("{standard}\nmean = [1]\ndeviation = [0]");
    price(&flat, &["column x: mean 1 and deviation 0", "above 0"]);
    price("type = 'dense'\ntransform = 'log'", &["columns.5.transform = log", "log1p"]);
    price("type = 'dense'\nlow = 3\nhigh = 1", &["column x: low is 3", "the other way round"]);
    price("type = 'dense'\nlow = nan", &["columns.5.low has NaN", "give finite numbers"]);
    price("type = 'dense'\nfill = 1e60", &["column x: low, high or fill is 1e60", "3.4e38"]);
    price("buckets = [3, 1]", &["column x: its buckets do not ascend", "in ascending order"]);
    price("buckets = [1, 1]", &["column x: its buckets do not ascend"]);
    price("buckets = [nan]", &["columns.5.buckets has NaN", "give finite numbers"]);
    price("buckets = [1, 1e60]", &["column x: a bucket is 1e60", "3.4e38"]);
    price("buckets = [16777216, 16777217]", &["are the same 32-bit number", "remove one"]);
    price("missing = 'skip'", &["columns.5.missing = skip", "own, none"]);
    found.finish(110);
}

#[test]
fn settings_beside_columns() {
    let (shop, mut found) = (shop(), Found::default());
    let mut file = |text: &str, data: &[&str], says: &[&str]| {
        fs::write(shop.path("own.toml"), text).unwrap();
        found.row(&shop, &[&["train", "own.toml"], data].concat(), 2, says);
        found.row(&shop, &[&["plan", "own.toml"], data].concat(), 2, says);
    };
    let data = &["--data", "rows.csv"];
    file("[[columns]]\nnames = ['user']", data, &["no column is the label", "the type label"]);
    file(
        "[[columns]]\nnames = ['click']\ntype = 'label'",
        data,
        &["no column is an id", "type id"],
    );
    file("[columns]\nnames = ['user']", data, &["own.toml:1: columns", "write [[columns]]"]);
    file("columns = ['user']", data, &["own.toml:1: columns", "write [[columns]]"]);
    file("columns = 3", data, &["own.toml:1: columns", "write [[columns]]"]);
    file(RUN, &[], &["the built-in stream has its own columns", "name data"]);
    let nix = format!("{RUN}\n[[features]]\ncolumns = ['nix']");
    file(&nix, data, &["features.1.columns has nix", "there are user, item, tags"]);
    let weight =
        format!("{RUN}\n[[features]]\ncolumns = ['user', 'item', 'tags']\nweight = 'tags'");
    file(&weight, data, &["features.1.weight is tags, which is not a dense", "there are price"]);
    for (args, says) in [
        (&["--data.separator", "::"][..], &["data.separator is \"::\"", "one ASCII"][..]),
        (&["--data.separator", "e"], &["data.separator is 'e', which may be part of a field"]),
        (&["--data.separator", "\""], &["may be part of a field"]),
        (&["--data.format", "xml"], &["data.format = xml", "auto, csv, tsv, libsvm"]),
        (&["--preset", "nope"], &["data.preset = nope", "criteo, adult, avazu, movielens"]),
        (&["--set", "columns.9.names=x"], &["columns.9 skips a number", "columns.5"]),
        (&["--set", "columns.0.names=x"], &["numbered from 1, such as columns.1.names"]),
        (&["--set", "columns.names=x"], &["columns.names: give", "such as columns.1.names"]),
        (&["--set", "columns.2=x"], &["columns.2: give", "such as columns.2.names"]),
        (&["--set", "features.columns=x"], &["features.columns: give", "features.1.columns"]),
        (&["--set", "columns=x"], &["columns: give a setting", "columns.1.names"]),
        (&["--set", "columns.2.mean=x"], &["columns.2.mean = x: give a number"]),
        (&["--set", "data.labels=false"], &["data.labels = false", "stepwell predict"]),
    ] {
        for command in ["train", "plan"] {
            let args = [&[command, "run.toml", "--data", "rows.csv"], args].concat();
            found.row(&shop, &args, 2, says);
        }
    }
    let says = ["its header has no column C1", "it has click, price"];
    found.row(&shop, &["train", "--preset", "avazu", "--data", "rows.csv"], 2, &says);
    let says = ["--preset avazu", "name it with --data"];
    found.row(&shop, &["train", "--preset", "avazu"], 2, &says);
    let args = ["convert", "rows.csv", "--config", "run.toml", "--preset", "adult", "--out", "p"];
    found.row(&shop, &args, 2, &["--preset adult", "--config", "give one of them"]);
    let args = ["convert", "--synth", "--examples", "9", "--config", "run.toml", "--out", "p"];
    found.row(&shop, &args, 2, &["--synth", "--config"]);
    let args = ["convert", "rows.csv", "--config", "nowhere.toml", "--out", "p"];
    found.row(&shop, &args, 2, &["nowhere.toml", "does not exist"]);
    found.row(&shop, &["schema"], 2, &["<FILE>"]);
    found.row(
        &shop,
        &["synth", "--out", "rows.csv", "--examples", "9"],
        2,
        &["rows.csv", "--force"],
    );
    found.row(&shop, &["inspect", "run.toml"], 2, &["run.toml", "is not a directory"]);
    found.row(&shop, &["export", "nowhere", "--to", "out"], 2, &["nowhere", "does not exist"]);
    // A note, not an error.
    let args = ["train", "run.toml", "--data", "rows.csv", "--preset", "adult"];
    let said = String::from_utf8(shop.run(&args).stderr).unwrap();
    assert!(said.contains("data.preset has no effect, because columns are given"), "{said}");
    found.finish(50);
}

#[test]
fn packed_files_of_other_columns() {
    let (shop, mut found) = (shop(), Found::default());
    shop.ok(&["convert", "rows.csv", "--config", "run.toml", "--out", "rows.packed"]);
    let plain = shop.examples("plain.tsv", 300);
    shop.ok(&["convert", &plain, "--out", "plain.packed"]);
    let other = RUN.replace("type = \"ids\"", "type = \"ids\"\nids = 3");
    fs::write(shop.path("other.toml"), other).unwrap();
    let unlabelled = format!("{RUN}\n").replacen("[data]", "[data]\nlabels = false", 1);
    fs::write(shop.path("unlabelled.toml"), unlabelled).unwrap();
    shop.ok(&["convert", "rows.csv", "--config", "unlabelled.toml", "--out", "bare.packed"]);
    let others = "pack the data again with these settings";
    for (config, data, says) in [
        ("run.toml", "plain.packed", &["its examples have the plain columns", "remove those"][..]),
        ("other.toml", "rows.packed", &["made of other columns", others]),
        ("run.toml", "bare.packed", &["made of other columns", others]),
    ] {
        found.row(&shop, &["train", config, "--data", data], 1, &[&[data], says].concat());
        let args = ["convert", data, "--config", config, "--out", "again.packed"];
        found.row(&shop, &args, 1, &[&[data], says].concat());
    }
    let says = ["rows.packed", "the settings do not name", "that it was packed with"];
    found.row(&shop, &["train", "--data", "rows.packed"], 1, &says);
    found.row(&shop, &["schema", "rows.packed"], 1, &["rows.packed", "nothing is left to guess"]);
    let args = ["convert", "rows.packed", "plain.packed", "--config", "run.toml", "--out", "p"];
    found.row(&shop, &args, 1, &["plain.packed", "plain columns"]);
    found.finish(9);
}

#[test]
fn models_of_other_columns() {
    let (shop, mut found) = (shop(), Found::default());
    shop.ok(&["train", "run.toml", "--data", "rows.csv", "--checkpoint", "saved"]);
    shop.ok(&["convert", "rows.csv", "--config", "run.toml", "--out", "rows.packed"]);
    let write = |name: &str, text: &str| fs::write(shop.path(name), text).unwrap();
    write("bare.csv", GOOD);
    write("un.jsonl", "{\"user\":\"u\"}\n");
    write("bad.csv", &format!("{HEAD}{GOOD}1,x,u,i,a\n"));
    write("short.csv", &format!("{HEAD}1,2,u\n"));
    let mut says = |command: &str, args: &[&str], says: &[&str]| {
        let other = ["data.labels=false", "columns.2.transform=log1p", "nix", "nowhere.csv"];
        let status = if other.iter().any(|of| args.contains(of)) { 2 } else { 1 };
        let args = [&[command, "saved", "--quiet", "--data"], args].concat();
        found.row(&shop, &args, status, says);
    };
    says(
        "predict",
        &["rows.csv", "--id", "nix"],
        &["--id nix: rows.csv", "its header has no column nix: it has click, price"],
    );
    says("predict", &["bare.csv", "--id", "nix"], &["--id nix: bare.csv: has no column nix"]);
    let args = ["un.jsonl", "--id", "nix", "--unlabelled"];
    says("predict", &args, &["--id nix: un.jsonl: has no column nix"]);
    says("predict", &["rows.packed", "--id", "user"], &["--id user: rows.packed: is packed"]);
    says("predict", &["rows.packed", "--unlabelled"], &["rows.packed", "made of other columns"]);
    says("predict", &["bare.csv", "--unlabelled"], &["bare.csv: line 1", "5 columns", "4 are"]);
    says("predict", &["un.jsonl"], &["un.jsonl: line 1", "click is missing"]);
    says("predict", &["bad.csv"], &["bad.csv: line 3, column 2", "price is 'x'"]);
    says("predict", &["bad.csv", "--out", "scores.csv"], &["bad.csv: line 3, column 2"]);
    says("predict", &["short.csv", "--id", "user"], &["short.csv", "line 2"]);
    says("predict", &["nowhere.csv"], &["nowhere.csv", "does not exist"]);
    says("eval", &["bad.csv"], &["bad.csv: line 3, column 2", "price is 'x'"]);
    says("eval", &["un.jsonl"], &["un.jsonl: line 1", "click is missing"]);
    says("eval", &["rows.csv", "--set", "data.labels=false"], &["data.labels = false", "predict"]);
    says("eval", &["rows.csv", "--set", "data.format=jsonl"], &["rows.csv: line 1", "JSON"]);
    for command in ["eval", "predict"] {
        let change = ["rows.csv", "--set", "columns.2.transform=log1p"];
        says(command, &change, &["was trained with columns.2.transform = none", "another model"]);
    }
    found.finish(17);
}

#[test]
fn runs_that_go_on_with_other_columns() {
    let (shop, mut found) = (shop(), Found::default());
    shop.ok(&["train", "run.toml", "--data", "rows.csv", "--checkpoint", "saved"]);
    // A resumed run must keep every rule of its columns.
    for (change, names) in [
        ("columns.1.names=clack", "columns.1.names"),
        ("columns.1.positive=1", "columns.1.positive"),
        ("columns.2.transform=log1p", "columns.2.transform"),
        ("columns.2.low=0", "columns.2.low"),
        ("columns.2.fill=1", "columns.2.fill"),
        ("columns.2.indicator=true", "columns.2.indicator"),
        ("columns.3.namespace=all", "columns.3.namespace"),
        ("columns.3.missing=none", "columns.3.missing"),
        ("columns.4.ids=8", "columns.4.ids"),
        ("columns.4.separator=;", "columns.4.separator"),
        ("data.missing=NA", "data.missing"),
        ("data.trim=true", "data.trim"),
    ] {
        let args = ["train", "run.toml", "--data", "rows.csv", "--checkpoint", "saved", "--resume"];
        let more = ["--set", "data.epochs=2", "--set", change];
        let says = [&format!("was trained with {names} = ") as &str, "a resumed run must keep it"];
        found.row(&shop, &[&args[..], &more].concat(), 2, &says);
    }
    // So must a run with the default columns.
    let plain = shop.examples("plain.tsv", 300);
    let small = ["--set", "model.dim=4", "--set", "model.hidden=8", "--set", "tiers.index=8MiB"];
    let small = [&small[..], &["--set", "data.mini_batch=64", "--checkpoint", "old"]].concat();
    shop.ok(&[&["train", "--data", &plain], &small[..]].concat());
    let names = "[[columns]]\nnames = ['label']\ntype = 'label'\n[[columns]]\nnames = ['I1-I13']\n\
                 type = 'dense'\n[[columns]]\nnames = ['C1-C26']\n";
    fs::write(shop.path("names.toml"), names).unwrap();
    for (change, says) in [
        (&["names.toml"][..], "was trained with columns.1.names = none, this run has"),
        (&["--set", "data.missing=NA"], "was trained with data.missing = "),
        (&["--set", "data.trim=true"], "was trained with data.trim = false, this run has true"),
        (&["--set", "optim.rows.eps=0.5"], "was trained with optim.rows.eps = "),
    ] {
        let args =
            [&["train", "--data", &plain, "--resume", "--data.epochs", "2"], change].concat();
        found.row(&shop, &[&args, &small[..]].concat(), 2, &[says, "must keep it"]);
    }
    found.finish(16);
}

#[test]
fn what_schema_cannot_guess() {
    let (shop, mut found) = (shop(), Found::default());
    let mut of = |bytes: &[u8], says: &[&str]| {
        fs::write(shop.path("a.txt"), bytes).unwrap();
        found.row(&shop, &["schema", "a.txt"], 1, &[&["a.txt"], says].concat());
    };
    of(b"", &["has no records"]);
    of(HEAD.as_bytes(), &["has no records"]);
    of(b"\n\n\n", &["has no records"]);
    of(b"\xFF\xFEa\0,\0b\0\n\0", &["UTF-16", "iconv"]);
    of(b"a,b,a\n1,2,3\n", &["names \"a\" twice", "each column its own name"]);
    of(b"a,b,c\n1,2\n3,4\n", &["no line with as many columns as its first", "3 with commas"]);
    of(b"[\n{\"a\":1}\n]\n", &["line 1", "a JSON array", "one object per line"]);
    of(b"{\"a\":1}\n\n\n{\"a\":\n", &["line 4, column", "not a JSON object", "EOF"]);
    of(b"{\"a\":\"\xFF\"}\n", &["line 1, column 7", "unicode"]);
    of(b"PK\x03\x04", &["compressed with zip"]);
    of(b"\x1F\x8B\x08\0\0", &["ends too early"]);
    // Names of any kind stay within their comments, and the settings are read.
    let odd = |click| format!("{{\"a\\n[x]\":\"x\",\"click\":{click},\"u\\u001b\":\"z\"}}\n");
    let odd = [odd(0), odd(1), odd(0)].concat();
    fs::write(shop.path("odd\n[x].jsonl"), &odd).unwrap();
    let text = shop.ok(&["schema", "odd\n[x].jsonl"]);
    fs::write(shop.path("odd.toml"), &text).unwrap();
    let read = shop.run(&["config", "odd.toml"]);
    assert!(read.status.success(), "{text}{}", String::from_utf8_lossy(&read.stderr));
    found.finish(11);
}
