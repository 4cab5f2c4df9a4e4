//! `data.cache`: a run that reads a cache equals the run that parses, whatever happened before.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::common::{TINY, Workshop, args, same};
use serde_json::Value;

const CACHE: [&str; 2] = ["--data.cache", "all.cache"];
/// Output and report of a run.
fn train(shop: &Workshop, data: &[&str], more: &[&str]) -> (String, Value) {
    (shop.said(&args(data, more)), shop.report("report.json"))
}

fn fails(shop: &Workshop, data: &[&str], more: &[&str]) -> String {
    shop.fails(&args(data, more))
}

const READS: &str = "in the place of the text";
const MADE: &str = "data cache of ";

/// Three files with malformed lines in awkward places: at both ends, in a row, and alone.
fn awkward(shop: &Workshop) -> u64 {
    let data = shop.examples("data.tsv", 4000);
    let text = fs::read_to_string(&data).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let of = |range: std::ops::Range<usize>| lines[range].concat();
    let one = of(0..1700) + "bad\n" + &of(1700..1701) + &"bad\n".repeat(5) + &of(1701..1702);
    fs::write(shop.path("part-1.tsv"), "bad\n\n".to_owned() + &one).unwrap();
    fs::write(shop.path("part-2.tsv"), "bad\n".repeat(3)).unwrap();
    let three = of(1702..3500) + "bad\n" + &of(3500..3900) + "bad\n" + &of(3900..4000) + "bad\n\n";
    fs::write(shop.path("part-3.tsv"), three).unwrap();
    2 + 6 + 3 + 4
}

#[test]
fn a_run_with_a_cache_is_the_run_without() {
    let shop = Workshop::new();
    let malformed = awkward(&shop);
    let parts = ["part-*.tsv"];
    let other = shop.examples("other.tsv", 700);
    let cases: [&[&str]; 5] = [
        &["--data.epochs", "1"],
        &["--data.epochs", "3"],
        &["--data.epochs", "2", "--data.eval_fraction", "0"],
        &["--data.epochs", "2", "--data.eval_fraction", "0.43"],
        &["--data.epochs", "2", "--data.eval_paths", &other],
    ];
    for case in cases {
        let skip = [case, &["--data.skip_max", "20"]].concat();
        let (_, expected) = train(&shop, &parts, &skip);
        let cached = [&skip[..], &CACHE].concat();
        let (said, made) = train(&shop, &parts, &cached);
        assert!(said.contains("data cache of 4000 examples in all.cache"), "{case:?}: {said}");
        assert!(!said.contains(READS), "{case:?}: {said}");
        same(&made, &expected, &format!("making, {case:?}"));
        let tiny = [&cached[..], &TINY, &["--threads", "3"]].concat();
        let (said, read) = train(&shop, &parts, &tiny);
        assert!(said.contains(READS) && !said.contains(MADE), "{case:?}: {said}");
        same(&read, &expected, &format!("reading, {case:?}"));
        if case.len() == 2 {
            let epochs: u64 = case[1].parse().unwrap();
            assert_eq!(read["skipped_lines"], malformed * epochs);
        }
        let budget = made["budget"].as_array().unwrap();
        assert!(budget.iter().any(|bound| bound["name"] == "data cache"), "{budget:?}");
        fs::remove_file(shop.path("all.cache")).unwrap();
        assert!(!shop.path("all.cache.unfinished").exists());
    }
}

#[test]
fn epochs_behind_the_one_that_makes_the_cache_need_no_text() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 8000);
    let epochs = ["--data.epochs", "6"];
    let (_, expected) = train(&shop, &[&data], &epochs);
    let all = args(&[&data], &[&epochs[..], &CACHE].concat());
    let mut child = shop.command(&all).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(said.any(|line| line.unwrap().starts_with(MADE)));
    fs::remove_file(&data).unwrap();
    said.for_each(drop);
    assert!(child.wait().unwrap().success());
    same(&shop.report("report.json"), &expected, "without its text");
}

#[test]
fn one_cache_serves_every_cut_of_the_data_and_compressed_text() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 3000);
    let file = fs::File::create(shop.path("data.gz")).unwrap();
    let mut packed = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
    std::io::Write::write_all(&mut packed, &fs::read(&data).unwrap()).unwrap();
    packed.finish().unwrap();
    train(&shop, &["data.gz"], &CACHE);
    for fraction in ["0", "0.2", "0.999"] {
        let cut = ["--data.eval_fraction", fraction];
        let (_, expected) = train(&shop, &[&data], &cut);
        let (said, found) = train(&shop, &["data.gz"], &[&cut[..], &CACHE].concat());
        assert!(said.contains(READS), "{said}");
        same(&found, &expected, fraction);
    }
    // A cache is also an ordinary packed file.
    let (_, expected) = train(&shop, &[&data], &[]);
    same(&train(&shop, &["all.cache"], &[]).1, &expected, "as data");
}

#[test]
fn malformed_lines_stop_a_run_with_a_cache_as_one_without() {
    let shop = Workshop::new();
    awkward(&shop);
    let parts = ["part-*.tsv"];
    let skip = |most| ["--data.skip_max", most, "--data.cache", "all.cache"];
    let error = fails(&shop, &parts, &skip("3"));
    assert!(error.contains("part-1.tsv: line 1705, column 1"), "{error}");
    assert!(!shop.path("all.cache").exists() && !shop.path("all.cache.unfinished").exists());
    train(&shop, &parts, &skip("20"));
    assert_eq!(fails(&shop, &parts, &skip("3")), error);
    let all = ["--data.eval_fraction", "0"];
    let error = fails(&shop, &parts, &[&all[..], &skip("14")].concat());
    assert!(error.contains("part-3.tsv: line 2302"), "{error}");
    let (said, _) = train(&shop, &parts, &[&all[..], &skip("15")].concat());
    assert!(said.contains(READS), "{said}");
    let error = fails(&shop, &parts, &skip("65537"));
    assert!(error.contains("data.skip_max is 65537") && error.contains("data.cache"), "{error}");
}

#[test]
fn a_cache_of_other_data_is_made_anew() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 3000);
    train(&shop, &[&data], &CACHE);
    let text = fs::read_to_string(&data).unwrap();
    let middle = text.len() / 2;
    let label = middle + text[middle..].find('\n').unwrap() + 1;
    let mut flipped = text.clone().into_bytes();
    flipped[label] ^= 1;
    let anew = |bytes: &[u8], why: &str| {
        // File times have a coarse resolution.
        std::thread::sleep(Duration::from_millis(20));
        fs::write(&data, bytes).unwrap();
        let (_, expected) = train(&shop, &[&data], &[]);
        for _ in 0..2 {
            let (said, found) = train(&shop, &[&data], &CACHE);
            same(&found, &expected, why);
            let note = "all.cache was made of other data (";
            assert_ne!(said.contains(note), said.contains(READS), "{said}");
            assert!(said.contains(READS) || said.contains(why), "{said}");
        }
    };
    anew(&flipped, "'data.tsv' has changed since");
    anew(&text.as_bytes()[..label], "bytes, now has ");
    let other = shop.examples("other.tsv", 500);
    let (said, _) = train(&shop, &[&data, &other], &CACHE);
    assert!(said.contains("there were 1 files, there are 2"), "{said}");
    let (said, _) = train(&shop, &[&other, &data], &CACHE);
    assert!(said.contains("'other.tsv' was 'data.tsv'"), "{said}");
}

#[test]
fn places_and_data_that_cannot_be_are_refused_before_training() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 500);
    let refused = |data: &[&str], cache: &str, why: &str| {
        let error = fails(&shop, data, &["--data.cache", cache]);
        assert!(error.contains(why), "{error}");
    };
    refused(&[&data], "no/where", "no/where.unfinished: cannot be created: No such file");
    fs::create_dir(shop.path("folder")).unwrap();
    refused(&[&data], "folder", "folder");
    refused(&[&data], "/dev/full", "/dev/full: is not a file");
    refused(&[&data], "data.tsv", "is one of the data files");
    fs::write(shop.path("mine"), "a letter").unwrap();
    refused(&[&data], "mine", "mine: exists and is not a cache: choose another path");
    shop.ok(&["convert", &data, "--out", "data.packed"]);
    refused(&[&data], "data.packed", "was packed by `stepwell convert` and is not a cache");
    refused(&["data.packed"], "new.cache", "data.packed: is already packed");
    refused(&[&data, "data.packed"], "new.cache", "data.packed: is already packed");
    for report in ["report.json", "./report.json", "folder/../report.json"] {
        refused(&[&data], report, "--report report.json is also data.cache: name two files");
    }
    assert!(!shop.path("report.json").exists());
    fs::write(shop.path("left.unfinished"), "a letter").unwrap();
    refused(&[&data], "left", "left.unfinished: is in the place of a packed file");
    let error = shop.fails(&["train", "--data.cache", "new.cache"]);
    assert!(error.contains("which the built-in stream is not"), "{error}");
    assert_eq!(fs::read(shop.path("mine")).unwrap(), b"a letter");
    assert!(!shop.path("new.cache").exists());
    // A plan and an evaluation make no cache.
    let mut plan = args(&[&data], &CACHE);
    plan.splice(0..3, ["plan"]);
    assert!(shop.ok(&plan).contains("data cache"));
    train(&shop, &[&data], &[&CACHE[..], &["--checkpoint", "saved"]].concat());
    fs::remove_file(shop.path("all.cache")).unwrap();
    shop.ok(&["eval", "saved"]);
    assert!(!shop.path("all.cache").exists());
}

#[test]
fn a_damaged_cache_ends_a_run_with_one_line() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 3000);
    train(&shop, &[&data], &CACHE);
    let whole = fs::read(shop.path("all.cache")).unwrap();
    let flipped = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        bytes
    };
    let origin = whole.len() - 64 - 40;
    for bytes in [
        flipped(whole.len() / 2),
        flipped(30),
        flipped(origin),
        flipped(whole.len() - 30),
        whole[..whole.len() / 2].to_vec(),
        whole[..100].to_vec(),
    ] {
        fs::write(shop.path("all.cache"), bytes).unwrap();
        let error = fails(&shop, &[&data], &CACHE);
        assert!(error.contains("all.cache: "), "{error}");
        assert!(error.ends_with("remove it: the next run with data.cache creates it again"));
    }
}

#[test]
fn a_resumed_run_makes_a_cache_of_whole_epochs_alone() {
    let shop = Workshop::new();
    awkward(&shop);
    let parts = ["part-*.tsv"];
    let skip = ["--data.epochs", "3", "--data.skip_max", "20"];
    let (_, expected) = train(&shop, &parts, &skip);
    let kept = ["--checkpoint", "saved", "--checkpoint.every", "16", "--checkpoint.keep", "100"];
    let steps = || {
        let listed = fs::read_dir(shop.path("saved")).unwrap().map(|entry| entry.unwrap().path());
        let mut steps: Vec<_> = listed
            .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("step-"))
            .collect();
        steps.sort();
        steps
    };
    // Resumes from a run's checkpoint number `part`, with a cache or without.
    let resume = |first: &[&str], part: usize, again: &[&str]| {
        let _ = fs::remove_dir_all(shop.path("saved"));
        train(&shop, &parts, &[&skip[..], &kept, first].concat());
        let all = steps();
        all[part + 1..].iter().for_each(|step| fs::remove_dir_all(step).unwrap());
        let more = [&skip[..], &kept, again, &["--resume"]].concat();
        let (said, found) = train(&shop, &parts, &more);
        assert!(found["examples"].as_u64() < expected["examples"].as_u64());
        for figure in ["model_digest", "steps", "rows", "eval"] {
            assert_eq!(found[figure], expected[figure], "{part}: {figure}");
        }
        said
    };
    // 57 steps per epoch: checkpoints at steps 16 to 48, then from 64 on.
    for (part, says) in [
        (1, Some("middle: epoch 2 makes it")),
        (4, Some("middle: epoch 3 makes it")),
        (8, Some("middle: no later epoch can make it")),
    ] {
        let _ = fs::remove_file(shop.path("all.cache"));
        let said = resume(&[], part, &CACHE);
        assert!(says.is_none_or(|says| said.contains(says)), "{part}: {said}");
        assert_eq!(shop.path("all.cache").exists(), part < 8, "{part}: {said}");
        assert_eq!(said.contains(MADE), part < 8, "{part}: {said}");
    }
    let _ = fs::remove_file(shop.path("all.cache"));
    // Begun with a cache and resumed without, and the other way round.
    for (part, first, again) in
        [(1, &CACHE[..], &CACHE[..]), (2, &[], &CACHE), (5, &CACHE, &[]), (8, &CACHE, &CACHE)]
    {
        let said = resume(first, part, again);
        assert_eq!(said.contains(READS), !again.is_empty(), "{part}: {said}");
    }
}

/// Runs the program with a limit of `kib` on the size of files.
fn limited(shop: &Workshop, kib: u64, args: &[&str]) -> Output {
    let script = format!("ulimit -f {}; exec \"$0\" \"$@\"", kib * 2);
    let mut command = Command::new("sh");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_stepwell")]).args(args);
    command.current_dir(shop.path("")).env("TMPDIR", shop.path("")).output().unwrap()
}

#[test]
fn a_disk_that_is_full_costs_the_cache_and_nothing_else() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 8000);
    let other = shop.examples("other.tsv", 300);
    let whole = fs::metadata({
        train(&shop, &[&data], &CACHE);
        shop.path("all.cache")
    });
    // The first block, one in the middle, and the last bytes.
    let kib = whole.unwrap().len() / 1024;
    fs::remove_file(shop.path("all.cache")).unwrap();
    for (epochs, kib, more) in [
        ("1", 1000, &[][..]),
        ("3", 400, &["--data.eval_fraction", "0"]),
        ("3", kib, &[]),
        ("2", 1000, &["--data.eval_paths", &other]),
    ] {
        let case = format!("{epochs} epochs, {kib} KiB, {more:?}");
        let run = [&["--data.epochs", epochs, "--tiers.segment", "64KiB"], more].concat();
        let (_, expected) = train(&shop, &[&data], &run);
        let output = limited(&shop, kib, &args(&[&data], &[&run[..], &CACHE].concat()));
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{case}: {said}{error}");
        assert!(error.contains("all.cache: cannot be written after "), "{case}: {error}");
        let goes_on = error.contains("warning: ") && error.contains("continues with the text");
        assert!(goes_on && !said.contains(MADE), "{case}: {said}{error}");
        same(&shop.report("report.json"), &expected, &case);
        assert!(!shop.path("all.cache").exists() && !shop.path("all.cache.unfinished").exists());
    }
    // With enough room, it is made.
    assert!(train(&shop, &[&data], &CACHE).0.contains(MADE));
}

#[test]
fn a_run_that_is_killed_leaves_no_cache_and_the_next_one_makes_it() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 20_000);
    let (_, expected) = train(&shop, &[&data], &[]);
    let all = args(&[&data], &CACHE);
    let unfinished = shop.path("all.cache.unfinished");
    let mut child = shop.command(&all).stdout(Stdio::null()).spawn().unwrap();
    while fs::metadata(&unfinished).map_or(0, |about| about.len()) < 1_000_000 {
        assert!(child.try_wait().unwrap().is_none(), "the run ended before it was killed");
        std::thread::sleep(Duration::from_millis(1));
    }
    // Only one run writes it at a time.
    let error = shop.fails(&all);
    assert!(error.contains("is being written by another process"), "{error}");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!shop.path("all.cache").exists() && unfinished.exists());
    let (said, found) = train(&shop, &[&data], &CACHE);
    same(&found, &expected, "after a kill");
    assert!(said.contains(MADE) && shop.path("all.cache").exists() && !unfinished.exists());
}

#[test]
fn text_that_is_changed_while_it_is_read_makes_no_cache() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 20_000);
    let all = args(&[&data], &CACHE);
    let child = shop.command(&all).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    while !shop.path("all.cache.unfinished").exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut text = fs::OpenOptions::new().append(true).open(&data).unwrap();
    std::io::Write::write_all(&mut text, b"0\tno more\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && error.contains("data.tsv: "), "{error}");
    assert!(!shop.path("all.cache").exists() && !shop.path("all.cache.unfinished").exists());
}
