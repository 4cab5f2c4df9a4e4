//! Files of data: of any length, empty, with numbers in any notation; what is not a file is refused
//! at once.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use std::fs::{self, File};
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{TINY, Workshop, args, lines_beside_notes, same};
use serde_json::Value;

fn train(shop: &Workshop, data: &[&str], more: &[&str]) -> Value {
    shop.ok(&args(data, more));
    shop.report("report.json")
}

/// The error line of a command, which is killed if it waits or reads forever.
fn fails_soon(command: &mut Command) -> String {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{command:?} goes on");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap().trim_end().to_owned();
    assert!(!output.status.success(), "{command:?} succeeded");
    assert_eq!(lines_beside_notes(&error), 1, "{command:?}: {error}");
    assert!(!error.contains("panicked"), "{command:?}: {error}");
    error
}

/// Names `path` as data in every way; each must fail with `why` in the message.
fn refused_everywhere(shop: &Workshop, data: &str, path: &str, why: &str) {
    let cases: [&[&str]; 7] = [
        &["train", "--data", path],
        &["train", "--data", data, "--data", path, "--data.eval_fraction", "0"],
        &["train", "--data", data, "--data.eval_paths", path],
        &["train", "--data", path, "--data.cache", "cache"],
        &["plan", "--data", path],
        &["convert", path, "--out", "out"],
        &["eval", "saved", "--data", path],
    ];
    for case in cases {
        let error = fails_soon(&mut shop.command(case));
        assert!(error.contains(path) && error.contains(why), "{case:?}: {error}");
        assert!(!shop.path("cache").exists() && !shop.path("out").exists());
    }
}

#[test]
fn what_is_no_file_is_refused_at_once() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 500);
    train(&shop, &[&data], &["--checkpoint", "saved"]);
    let pipe = shop.text("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    refused_everywhere(&shop, &data, &pipe, "is a named pipe: send its data");
    refused_everywhere(&shop, &data, &pipe, "or write it to a file");
    for device in ["/dev/zero", "/dev/null"] {
        refused_everywhere(&shop, &data, device, "is a device, not a file: name a file");
    }
    let socket = shop.text("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    refused_everywhere(&shop, &data, &socket, "is a socket");
}

#[test]
fn standard_input_is_data_where_it_is_a_file() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 500);
    let expected = train(&shop, &[&data], &[]);
    let given =
        shop.command(&args(&["/dev/stdin"], &[])).stdin(File::open(&data).unwrap()).output();
    assert!(given.unwrap().status.success());
    same(&shop.report("report.json"), &expected, "from standard input");
    let piped = &mut shop.command(&args(&["/dev/stdin"], &[]));
    let error = fails_soon(piped.stdin(Stdio::piped()));
    assert!(error.contains("of data from /dev/stdin, whose records cannot be counted"), "{error}");
}

#[test]
fn a_line_without_end_is_not_read_to_its_end() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 500);
    train(&shop, &[&data], &["--checkpoint", "saved"]);
    let sparse = shop.text("sparse.tsv");
    File::create(&sparse).unwrap().set_len(1 << 40).unwrap();
    // 64 GiB of zeros in 2 MiB.
    let bomb = shop.text("bomb.zst");
    let frame = zeros_in_a_frame(1 << 30);
    fs::write(&bomb, frame.repeat((2 << 20) / frame.len())).unwrap();
    for endless in [&sparse, &bomb] {
        let cases: [&[&str]; 5] = [
            &["train", "--data", endless],
            &["train", "--data", &data, "--data", endless, "--data.eval_fraction", "0"],
            &["train", "--data", &data, "--data.eval_paths", endless],
            &["convert", endless, "--out", "out"],
            &["eval", "saved", "--data", endless],
        ];
        for case in cases {
            let error = fails_soon(&mut shop.command(case));
            let long = "line 1, column 1: the line is longer than ";
            assert!(error.contains(endless) && error.contains(long), "{case:?}: {error}");
        }
    }
}

/// A zstd frame of `bytes` zeros, a multiple of 128 KiB.
fn zeros_in_a_frame(bytes: usize) -> Vec<u8> {
    let mut frame = vec![0x28, 0xB5, 0x2F, 0xFD, 0, (17 - 10) << 3];
    let blocks = bytes >> 17;
    for block in 1..=blocks {
        // A block of one repeated byte, and whether it is the last block.
        let head = (1u32 << 17 << 3) | (1 << 1) | u32::from(block == blocks);
        frame.extend(&head.to_le_bytes()[..3]);
        frame.push(0);
    }
    frame
}

#[test]
fn a_window_that_is_too_wide_is_told_from_damage() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 200);
    let text = fs::read(&data).unwrap();
    // A frame with a window of 2^log bytes and one raw block.
    let frame = |log: u8| {
        let head = ((text.len() as u32) << 3) | 1;
        let begin = [0x28, 0xB5, 0x2F, 0xFD, 0, (log - 10) << 3];
        [&begin[..], &head.to_le_bytes()[..3], &text].concat()
    };
    let expected = train(&shop, &[&data], &[]);
    fs::write(shop.path("wide.zst"), frame(27)).unwrap();
    same(&train(&shop, &["wide.zst"], &[]), &expected, "the widest window");
    let too_wide = "wide.zst: after line 0: the file was compressed with a zstd window of more \
                    than 128 MiB, which reading would have to keep in memory: compress it again \
                    with `--long=27`, or without `--long`";
    for log in [28, 31] {
        fs::write(shop.path("wide.zst"), frame(log)).unwrap();
        for case in [&["train", "--data", "wide.zst"][..], &["convert", "wide.zst", "--out", "x"]] {
            let error = shop.fails(case);
            assert!(error.contains(too_wide), "{error}");
        }
    }
    // A later frame gives the same error, and damage is reported as damage.
    fs::write(shop.path("wide.zst"), [frame(20), frame(31)].concat()).unwrap();
    let error = shop.fails(&args(&["wide.zst"], &[]));
    assert!(
        error.contains("window of more than 128 MiB") && error.contains("after line"),
        "{error}"
    );
    let mut damaged = frame(20);
    damaged[6] |= 6;
    fs::write(shop.path("wide.zst"), damaged).unwrap();
    let error = shop.fails(&args(&["wide.zst"], &[]));
    assert!(error.contains("the compressed data is damaged"), "{error}");
    fs::write(shop.path("wide.zst"), &frame(20)[..text.len() / 2]).unwrap();
    let error = shop.fails(&args(&["wide.zst"], &[]));
    assert!(error.contains("ends too early; the file may be cut short"), "{error}");
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// The parts of some data among empty files of every kind: at both ends, alone and in a row.
fn parts(shop: &Workshop) -> (String, [&'static str; 1]) {
    let data = shop.examples("data.tsv", 3000);
    let text = fs::read_to_string(&data).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    fs::create_dir(shop.path("parts")).unwrap();
    let none = zeros_in_a_frame(0);
    let empty_frame: Vec<u8> = [&none[..], &[1, 0, 0]].concat();
    for (name, bytes) in [
        ("_SUCCESS", vec![]),
        ("part-0.tsv", vec![]),
        ("part-1.tsv", lines[..1100].concat().into_bytes()),
        ("part-2.gz", gzip(b"")),
        ("part-3.zst", empty_frame),
        ("part-4.gz", gzip(lines[1100..2200].concat().as_bytes())),
        ("part-5.tsv", vec![]),
        ("part-6.tsv", lines[2200..].concat().into_bytes()),
        ("part-7.gz", vec![]),
        // A file that Spark writes next to a part, which no pattern matches.
        (".part-1.tsv.crc", b"crc\0\xFF".to_vec()),
    ] {
        fs::write(shop.path("parts").join(name), bytes).unwrap();
    }
    (data, ["parts/*"])
}

#[test]
fn empty_files_are_passed_over() {
    let shop = Workshop::new();
    let (data, parts) = parts(&shop);
    let other = ["--data.eval_paths", "data.tsv"];
    let among = ["--data.eval_paths", "parts/*"];
    for (more, more_of_parts) in [
        (&["--data.epochs", "2"][..], &["--data.epochs", "2"][..]),
        (&["--data.eval_fraction", "0"], &["--data.eval_fraction", "0"]),
        (&["--data.eval_fraction", "0.0001"], &["--data.eval_fraction", "0.0001"]),
        (&other, &among),
    ] {
        let expected = train(&shop, &[&data], more);
        same(&train(&shop, &parts, more_of_parts), &expected, &format!("{more:?}"));
    }
    // The parts' cache gives the same model: when it is made, read, and read from the middle.
    let two = ["--data.epochs", "2", "--data.cache", "cache"];
    let expected = train(&shop, &[&data], &two[..2]);
    same(&train(&shop, &parts, &two), &expected, "making a cache");
    same(&train(&shop, &parts, &two), &expected, "reading a cache");
    let said = shop.said(&["convert", "parts/*", "--out", "all.packed"]);
    assert!(said.contains("6 of 9 files have no records yet: parts/"), "{said}");
    assert!(said.contains(" and 3 more\n") && said.contains("3000 examples"), "{said}");
    let said = shop.said(&args(&["data.tsv"], &among));
    assert!(said.contains("6 of 9 files to evaluate on have no records yet: parts/"), "{said}");
    let said = shop.said(&args(&["parts/*"], &[]));
    assert!(said.contains("6 of 9 data files have no records yet: parts/"), "{said}");
    same(&train(&shop, &["all.packed"], &two[..2]), &expected, "packed");
}

#[test]
fn a_file_that_is_named_twice_is_not_trained_twice() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 700);
    std::os::unix::fs::symlink(&data, shop.path("link.tsv")).unwrap();
    fs::hard_link(&data, shop.path("other.tsv")).unwrap();
    for (paths, again) in [
        (&[&data, "data.tsv"][..], "data.tsv"),
        (&["*a.tsv", "./data.tsv"], "./data.tsv"),
        (&["data.tsv", "link.tsv"], "link.tsv"),
        (&["data.tsv", "o*.tsv"], "other.tsv"),
    ] {
        let output = shop.run(&args(paths, &["--checkpoint", "saved"]));
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        assert!(said.contains(&format!("{again} is named twice in the data")), "{said}");
        assert!(said.contains("--epochs 2") && !shop.path("saved").exists(), "{said}");
    }
    let two = shop.ok(&args(&["data.tsv"], &["--epochs", "2"]));
    assert!(two.contains("epoch 2/2"), "{two}");
    let said = shop.ok(&args(&["data.tsv"], &["--data.eval_paths", "data.tsv"]));
    assert!(!said.contains("named"), "{said}");
    let said = shop.said(&["convert", "data.tsv", "data.tsv", "--out", "all.packed"]);
    assert!(said.contains("data.tsv is named more than once among the files"), "{said}");
    assert!(said.contains("1400 examples"), "{said}");
}

#[test]
fn a_generated_file_is_what_its_name_says() {
    let shop = Workshop::new();
    let plain = fs::read(shop.examples("data.tsv", 3000)).unwrap();
    for (name, magic) in [("data.tsv.gz", &[0x1F, 0x8B][..]), ("data.ZST", &[0x28, 0xB5, 0x2F])] {
        let packed = fs::read(shop.examples(name, 3000)).unwrap();
        assert!(packed.starts_with(magic) && packed.len() < plain.len(), "{name}");
        let expected = train(&shop, &["data.tsv"], &[]);
        same(&train(&shop, &[name], &[]), &expected, name);
    }
    for (name, mend) in [("d.tsv.xz", ".tsv.zst"), ("d.packed", "stepwell convert --synth")] {
        let message = shop.fails(&["synth", "--out", name, "--examples", "10"]);
        assert!(message.contains(name) && message.contains(mend), "{message}");
        assert!(!shop.path(name).exists());
    }
}

#[test]
fn a_run_on_files_some_of_which_are_empty_goes_on_from_every_checkpoint() {
    let shop = Workshop::new();
    let (data, parts) = parts(&shop);
    let two = ["--data.epochs", "2"];
    let expected = train(&shop, &[&data], &two);
    let kept = ["--checkpoint", "saved", "--checkpoint.every", "9", "--checkpoint.keep", "100"];
    for cache in [&[][..], &["--data.cache", "cache"]] {
        let run = [&two[..], &kept, &TINY, cache].concat();
        train(&shop, &parts, &run);
        let steps = || {
            let names = fs::read_dir(shop.path("saved")).unwrap();
            let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            let mut steps: Vec<_> = names.filter(|name| name.starts_with("step-")).collect();
            steps.sort();
            steps
        };
        let all = steps();
        assert!(all.len() > 8, "{all:?}");
        for step in all.iter().rev().skip(1).step_by(2) {
            for later in steps().iter().filter(|name| *name > step) {
                fs::remove_dir_all(shop.path("saved").join(later)).unwrap();
            }
            let found = train(&shop, &parts, &[&run[..], &["--resume"]].concat());
            for figure in ["model_digest", "steps", "rows", "eval"] {
                assert_eq!(found[figure], expected[figure], "{step}: {figure}");
            }
        }
        fs::remove_dir_all(shop.path("saved")).unwrap();
    }
}

#[test]
fn nothing_but_empty_files_is_an_error() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 300);
    fs::write(shop.path("a"), "").unwrap();
    fs::write(shop.path("b"), gzip(b"")).unwrap();
    fs::write(shop.path("c"), "").unwrap();
    let case = |args: &[&str], why: &str| {
        let error = shop.fails(args);
        assert!(error.ends_with(why), "{args:?}: {error}");
    };
    case(&["train", "--data", "a"], "a: is empty");
    case(&["train", "--data", "b"], "b: is empty");
    case(&["train", "--data", "[ab]"], "a: is empty, and so is the other file");
    case(&["convert", "b", "a", "c", "--out", "x"], "b: is empty, and so are the 2 other files");
    case(&["train", "--data", &data, "--data.eval_paths", "[ab]"], "and so is the other file");
    case(&["train", "--data", "a", "--data", "c", "--data.cache", "x"], "so is the other file");
    assert!(!shop.path("x").exists());
    // An empty input must not be overwritten either.
    let error = shop.fails(&["train", "--data", "a", "--data", &data, "--report", "a"]);
    assert!(error.contains("this run reads that file"), "{error}");
}

#[test]
fn numbers_may_be_written_in_any_form() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 1000);
    let text = fs::read_to_string(&data).unwrap();
    let rewrite = |form: &dyn Fn(&str, usize) -> String| -> String {
        let number = |line: &str| {
            let columns = line.split('\t').enumerate();
            let columns = columns.map(|(at, field)| match at {
                1..=13 if !field.is_empty() => form(field, at),
                _ => field.to_owned(),
            });
            columns.collect::<Vec<_>>().join("\t") + "\n"
        };
        text.lines().map(number).collect()
    };
    let expected = train(&shop, &[&data], &[]);
    let forms = |field: &str, at: usize| match at % 6 {
        0 => format!("{field}.0"),
        1 => format!("+{}", field.strip_prefix('-').map_or(field, |_| "0")),
        2 => format!("{field}e0"),
        3 => format!("{field}.000E+00"),
        4 => format!("{field}0e-1"),
        _ => format!("{field}."),
    };
    fs::write(shop.path("forms.tsv"), rewrite(&forms)).unwrap();
    same(&train(&shop, &["forms.tsv"], &[]), &expected, "other forms of the same numbers");
    let halves = |field: &str, _: usize| format!("{field}.5");
    fs::write(shop.path("halves.tsv"), rewrite(&halves)).unwrap();
    let found = train(&shop, &["halves.tsv"], &[]);
    assert_eq!(found["examples"], expected["examples"]);
    assert_ne!(found["model_digest"], expected["model_digest"]);
    for (wrong, why) in [
        ("nan", "is 'nan', not a finite number; leave the field empty where it is missing"),
        ("0x1F", "is '0x1F', not a decimal number, but a hexadecimal one"),
        (" 5", "is ' 5', not a number alone: no space may be by it"),
        ("1e99", "is '1e99', beyond 32-bit numbers"),
    ] {
        let one = |field: &str, at: usize| (if at == 13 { wrong } else { field }).to_owned();
        fs::write(shop.path("wrong.tsv"), rewrite(&one)).unwrap();
        let error = shop.fails(&args(&["wrong.tsv"], &[]));
        assert!(error.contains("column 14: dense feature 13") && error.contains(why), "{error}");
    }
}
