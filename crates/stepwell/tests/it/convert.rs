//! `stepwell convert`: a packed file trains like the data that it was made from.

use std::fs;
use std::io::Write;

use crate::common::{SMALL, TINY, Workshop};
use serde_json::Value;

fn train(shop: &Workshop, data: &[&str], more: &[&str]) -> Value {
    let mut args = vec!["train", "--report", "report.json"];
    args.extend(data.iter().flat_map(|path| ["--data", path]));
    args.extend(SMALL);
    args.extend(more);
    shop.ok(&args);
    shop.report("report.json")
}

#[test]
fn a_packed_file_trains_as_its_text_bit_for_bit() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 5000);
    let text = fs::read(&data).unwrap();
    let cut = text[..text.len() / 3].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    fs::write(shop.path("part-1.tsv"), &text[..cut]).unwrap();
    let mut packed = flate2::write::GzEncoder::new(
        fs::File::create(shop.path("part-2.tsv")).unwrap(),
        flate2::Compression::fast(),
    );
    packed.write_all(&text[cut..]).unwrap();
    packed.finish().unwrap();

    let said = shop.ok(&["convert", "part-*.tsv", "--out", "all.packed"]);
    assert!(said.starts_with("5000 examples in all.packed, "), "{said}");
    shop.ok(&["convert", "part-1.tsv", "--out", "one.packed", "--threads", "1"]);
    shop.ok(&["convert", "one.packed", "part-2.tsv", "--out", "again.packed", "--threads", "3"]);
    let stream = ["--synth", "--examples", "5000", "--vocab-scale", "0.2"];
    let mut args = vec!["convert", "--out", "stream.packed"];
    args.extend(stream);
    shop.ok(&args);
    let bytes = |name: &str| fs::read(shop.path(name)).unwrap();
    assert!(bytes("all.packed") == bytes("again.packed"), "a file depends on its examples alone");

    let two = ["--set", "data.epochs=2"];
    let expected = train(&shop, &[&data], &two);
    for files in
        [&["all.packed"][..], &["stream.packed"], &["one.packed", "part-2.tsv"], &["*again*"]]
    {
        let found = train(&shop, files, &two);
        for figure in ["model_digest", "steps", "examples", "eval", "progressive"] {
            assert_eq!(found[figure], expected[figure], "{files:?}: {figure}");
        }
    }
    let mut tiny = two.to_vec();
    tiny.extend(TINY);
    tiny.extend(["--set", "threads=3"]);
    assert_eq!(train(&shop, &["all.packed"], &tiny)["model_digest"], expected["model_digest"]);
}

#[test]
fn a_run_on_a_packed_file_goes_on_in_the_middle_of_it() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 3000);
    shop.ok(&["convert", &data, "--out", "packed"]);
    let expected = train(&shop, &[&data], &[]);
    let kept = ["--checkpoint", "saved", "--set", "checkpoint.every=7"];
    let more = ["--set", "checkpoint.keep=100"];
    train(&shop, &["packed"], &[&kept[..], &more].concat());
    let mut steps: Vec<_> = fs::read_dir(shop.path("saved"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("step-"))
        .collect();
    steps.sort();
    assert!(steps.len() > 4, "{steps:?}");
    // Without the last checkpoints, the run resumes within a block.
    for step in &steps[steps.len() / 2..] {
        fs::remove_dir_all(step).unwrap();
    }
    let found = train(&shop, &["packed"], &[&kept[..], &["--resume"]].concat());
    assert_eq!(found["model_digest"], expected["model_digest"]);
    assert_eq!(found["eval"], expected["eval"]);
}

#[test]
fn malformed_lines_are_skipped_as_in_training() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 300);
    let text = fs::read_to_string(&data).unwrap();
    let (first, rest) = text.split_at(text.find('\n').unwrap() + 1);
    fs::write(shop.path("bad.tsv"), [first, "nonsense\n", rest, "more\n"].concat()).unwrap();
    let convert = ["convert", "bad.tsv", "--out", "packed"];
    let error = shop.fails(&convert);
    assert!(error.contains("bad.tsv: line 2, column 1"), "{error}");
    let error = shop.fails(&[&convert[..], &["--skip-max", "1"]].concat());
    assert!(error.contains("bad.tsv: line 302, column 1"), "{error}");
    let left: Vec<_> = fs::read_dir(shop.path("")).unwrap().collect();
    assert_eq!(left.len(), 2, "a conversion that failed leaves nothing: {left:?}");
    let said = shop.ok(&[&convert[..], &["--skip-max", "2"]].concat());
    assert!(said.starts_with("300 examples in packed"), "{said}");
    assert!(said.contains("2 malformed lines were skipped"), "{said}");
    let all = ["--set", "data.eval_fraction=0"];
    let expected = train(&shop, &[&data], &all);
    assert_eq!(train(&shop, &["packed"], &all)["model_digest"], expected["model_digest"]);
}

#[test]
fn nothing_is_written_over_unasked_and_no_input_ever() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 300);
    let before = fs::read(&data).unwrap();
    fs::copy(&data, shop.path("x.unfinished")).unwrap();
    for (input, out) in [("data.tsv", "./data.tsv"), ("x.unfinished", "x")] {
        let error = shop.fails(&["convert", input, "--out", out, "--force"]);
        assert!(error.contains("this run reads that file: name another one"), "{error}");
    }
    assert!(fs::read(shop.path("x.unfinished")).unwrap() == before);
    let error = shop.fails(&["convert", "data.tsv", "--out", "no/where"]);
    assert!(error.contains("--out no/where"), "{error}");
    fs::write(shop.path("there"), "mine").unwrap();
    let error = shop.fails(&["convert", "data.tsv", "--out", "there"]);
    assert!(error.ends_with("there exists; replace it with --force"), "{error}");
    assert_eq!(fs::read(shop.path("there")).unwrap(), b"mine");
    shop.ok(&["convert", "data.tsv", "--out", "there", "--force"]);
    let error = shop.fails(&["convert", "data.tsv", "--out", "more", "--threads", "0"]);
    assert!(error.contains("--threads 0"), "{error}");
    assert!(fs::read(&data).unwrap() == before);
}

#[test]
fn damage_ends_a_run_with_one_line() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 3000);
    shop.ok(&["convert", &data, "--out", "packed"]);
    let whole = fs::read(shop.path("packed")).unwrap();
    let says = |bytes: &[u8], why: &str| {
        fs::write(shop.path("packed"), bytes).unwrap();
        let mut args = vec!["train", "--data", "packed", "--set", "data.skip_max=1000000"];
        args.extend(SMALL);
        let error = shop.fails(&args);
        assert!(error.contains("packed: ") && error.contains(why), "{error}");
        assert!(error.ends_with("make it again with `stepwell convert`"), "{error}");
    };
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 0x10;
    says(&flipped, "block 2 (examples 1005 to 2008, at byte ");
    says(&whole[..whole.len() / 2], "its end: the file does not end as a packed file does");
    says(&whole[..100], "its end: 100 bytes are fewer than a packed file has");
}

#[test]
fn an_input_without_examples_makes_no_file() {
    let shop = Workshop::new();
    fs::write(shop.path("nonsense.tsv"), "nonsense\n").unwrap();
    let error = shop.fails(&["convert", "nonsense.tsv", "--skip-max", "1", "--out", "none.packed"]);
    assert!(error.contains("no example") && error.contains("1 malformed"), "{error}");
    assert!(!shop.path("none.packed").exists());
    assert!(!shop.path("none.packed.unfinished").exists());
    let error = shop.fails(&["convert", "--synth", "--examples", "0", "--out", "none.packed"]);
    assert!(error.contains("example"), "{error}");
    let data = shop.examples("data.tsv", 500);
    train(&shop, &[&data], &["--checkpoint", "saved"]);
    let error =
        shop.fails(&["eval", "saved", "--data", "nonsense.tsv", "--set", "data.skip_max=9"]);
    assert!(error.contains("no example"), "{error}");
}

#[test]
fn options_that_would_be_passed_over_are_refused() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 100);
    for more in [
        &["data.tsv", "--examples", "5"][..],
        &["data.tsv", "--seed", "5"],
        &["data.tsv", "--vocab-scale", "5"],
        &["--synth", "--skip-max", "5"],
    ] {
        let mut args = vec!["convert", "--out", "out.packed"];
        args.extend(more);
        let output = shop.run(&args);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains("cannot be used with"), "{error}");
        assert!(!shop.path("out.packed").exists(), "{data}");
    }
}

#[test]
fn what_lies_where_a_file_is_written_is_left_alone() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 300);
    let args = ["convert", &data, "--out", "out.packed"];
    fs::write(shop.path("out.packed.unfinished"), "a letter").unwrap();
    let error = shop.fails(&args);
    assert!(error.contains("out.packed.unfinished: is in the place of a packed file"), "{error}");
    assert_eq!(fs::read(shop.path("out.packed.unfinished")).unwrap(), b"a letter");
    // An unfinished file of a killed writer is replaced.
    for left in [&b""[..], b"STEPWPAK and more", b"STEP"] {
        fs::write(shop.path("out.packed.unfinished"), left).unwrap();
        shop.ok(&args);
        assert!(!shop.path("out.packed.unfinished").exists());
        fs::remove_file(shop.path("out.packed")).unwrap();
    }
    let error = shop.fails(&["convert", &data, "--out", "/dev/full"]);
    assert!(error.contains("/dev/full is not a file") && !error.contains("--force"), "{error}");
}

#[test]
fn more_threads_than_there_is_room_for_are_refused() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 200);
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "ulimit -v 1500000; exec \"$0\" \"$@\""]);
    command.args([
        env!("CARGO_BIN_EXE_stepwell"),
        "convert",
        &data,
        "--out",
        "packed",
        "--threads",
        "1024",
    ]);
    let output = command.current_dir(shop.path("")).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert_eq!(error.trim_end().lines().count(), 1, "{error}");
    assert!(error.contains("--threads 1024: ") && error.contains("give fewer"), "{error}");
    assert!(!shop.path("packed").exists());
}
