//! Data from standard input, which can be read only once: the same model and scores as from a file,
//! and what is refused.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use std::fs;
use std::io::Write;
use std::process::{Output, Stdio};

use crate::common::bad::RUN;
use crate::common::{Workshop, same};

/// More rows than are kept from the beginning, so that a second reading would show.
const ROWS: usize = 150_000;

/// Settings, and the rows as plain text, gzip and zstd.
fn shop() -> (Workshop, [&'static str; 3]) {
    let shop = Workshop::new();
    let mut csv = b"click,price,user,item,tags\n".to_vec();
    for n in 0..ROWS {
        let (user, item) = (n * 7919 % 83, n * 104_729 % 41);
        let click = usize::from(user.is_multiple_of(3) || item.is_multiple_of(5));
        writeln!(csv, "{click},{n},user-{user},item-{item},t{}", n % 7).unwrap();
    }
    assert!(csv.len() > 3 << 20);
    fs::write(shop.path("run.toml"), RUN.replace("mini_batch = 64", "mini_batch = 1024")).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&csv).unwrap();
    fs::write(shop.path("rows.csv.gz"), gzip.finish().unwrap()).unwrap();
    fs::write(shop.path("rows.csv.zst"), zstd::encode_all(&csv[..], 1).unwrap()).unwrap();
    fs::write(shop.path("rows.csv"), csv).unwrap();
    (shop, ["rows.csv", "rows.csv.gz", "rows.csv.zst"])
}

/// Runs the program with the file sent through a pipe.
fn piped(shop: &Workshop, file: &str, args: &[&str]) -> Output {
    let bytes = fs::read(shop.path(file)).unwrap();
    let mut command = shop.command(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    // A program that fails does not read to the end.
    let sender = std::thread::spawn(move || input.write_all(&bytes));
    let output = child.wait_with_output().unwrap();
    let _ = sender.join().unwrap();
    output
}

fn ok(shop: &Workshop, file: &str, args: &[&str]) -> Vec<u8> {
    let output = piped(shop, file, args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn refused(shop: &Workshop, file: &str, args: &[&str]) -> String {
    let output = piped(shop, file, args);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && !said.contains("panicked"), "{args:?}: {said}");
    let lines = said.lines().filter(|line| !line.contains("note: ")).count();
    assert_eq!(lines, 1, "{args:?}: {said}");
    said
}

const TRAIN: [&str; 6] = ["train", "run.toml", "--report", "report.json", "--threads", "2"];

#[test]
fn a_stream_trains_scores_and_resumes_as_its_file() {
    let (shop, files) = shop();
    let with =
        |data: &'static str, more: &[&'static str]| [&TRAIN[..], &["--data", data], more].concat();
    shop.ok(&with("rows.csv", &["--checkpoint", "saved"]));
    let expected = shop.report("report.json");
    for file in files {
        for name in ["-", "/dev/stdin"] {
            ok(&shop, file, &with(name, &[]));
            same(&shop.report("report.json"), &expected, &format!("{file} from {name}"));
        }
    }
    let scores = shop.ok(&["predict", "saved", "--data", "rows.csv"]).into_bytes();
    assert!(ok(&shop, "rows.csv.gz", &["predict", "saved", "--data", "-"]) == scores);
    ok(&shop, "rows.csv", &["eval", "saved", "--data", "-"]);
    let guessed = ok(&shop, "rows.csv", &["schema", "-"]);
    assert!(String::from_utf8(guessed).unwrap().contains("paths = [\"-\"]"));
    ok(&shop, "rows.csv", &["convert", "-", "--config", "run.toml", "--out", "rows.packed"]);
    shop.ok(&with("rows.packed", &[]));
    same(&shop.report("report.json"), &expected, "packed from a stream");
    // The same stream again, resumed in the middle.
    let save = ["--checkpoint", "half", "--set", "checkpoint.every=60"];
    ok(&shop, "rows.csv", &with("-", &save));
    let steps = fs::read_dir(shop.path("half")).unwrap().flatten().map(|entry| entry.path());
    fs::remove_dir_all(steps.max().unwrap()).unwrap();
    let output = piped(&shop, "rows.csv.gz", &[&with("-", &save)[..], &["--resume"]].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let note = "- is a stream, so whether it has the data of the earlier run cannot be checked";
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains(note) || String::from_utf8_lossy(&output.stdout).contains(note),
        "{said}"
    );
    let digest = |of: &serde_json::Value| of["model_digest"].clone();
    assert_eq!(digest(&shop.report("report.json")), digest(&expected));
}

#[test]
fn what_wants_a_second_reading_is_refused_at_once() {
    let (shop, _) = shop();
    shop.ok(&["convert", "rows.csv", "--config", "run.toml", "--out", "rows.packed"]);
    fs::write(shop.path("nothing"), "").unwrap();
    fs::write(shop.path("magic"), "PAR1 and so on").unwrap();
    for (file, more, says) in [
        ("rows.csv", &["--data.epochs", "3"][..], "data.epochs = 3 and data from -"),
        ("rows.csv", &["--data.eval_fraction", "0.1"], "name data.eval_paths, or give"),
        ("rows.csv", &["--set", "data.eval_column=user"], "data.eval_column and data from -"),
        ("rows.csv", &["--data.cache", "cache"], "leave data.cache out"),
        ("rows.csv", &["--ranks", "2"], "give ranks = 1"),
        ("rows.csv", &["--data", "-"], "data.paths has - more than once"),
        ("rows.csv", &["--data.eval_paths", "-"], "data.eval_paths has -, which can be read only"),
        ("nothing", &[], "-: is empty"),
        ("rows.packed", &[], "-: is a stream of packed data"),
        ("magic", &[], "-: is a stream of Parquet data"),
    ] {
        let args = [&["train", "run.toml", "--data", "-"], more].concat();
        let said = refused(&shop, file, &args);
        assert!(said.contains(says), "{more:?}: {said}");
        assert!(!shop.path("cache").exists(), "{more:?}");
    }
    shop.ok(&["train", "run.toml", "--data", "rows.csv", "--checkpoint", "saved"]);
    let said = refused(&shop, "rows.csv", &["predict", "saved", "--data", "-", "--id", "user"]);
    assert!(said.contains("--id user reads the data a second time"), "{said}");
}
