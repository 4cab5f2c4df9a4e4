//! The program with rows on emulated devices, which need no hardware.

use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::common::{SMALL, TINY, Workshop, args, same};

/// Device memory for a mini-batch of the small model and a little more.
const HBM: [&str; 2] = ["--set", "tiers.hbm=1MiB"];

#[test]
fn devices_do_not_show() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 6000);
    shop.ok(&args(&[&data], &["--device", "host"]));
    let expected = shop.report("report.json");
    assert!(expected["tiers"]["device"].is_null());
    for (devices, lookahead, ranks, dense) in [
        ("emulated", "0", "1", "host"),
        ("emulated:2", "8", "1", "device"),
        ("emulated:4", "2", "1", "device"),
        ("emulated:2", "2", "2", "host"),
    ] {
        let lookahead = format!("pipeline.lookahead={lookahead}");
        let mut more = vec!["--device", devices, "--ranks", ranks, "--set", &lookahead];
        more.extend(TINY.into_iter().chain(HBM));
        more.extend(["--train.dense", dense]);
        let said = shop.ok(&args(&[&data], &more));
        let report = shop.report("report.json");
        same(&report, &expected, &format!("{devices}, {lookahead}, {ranks} ranks, {dense}"));
        let device = &report["tiers"]["device"];
        let count = |name: &str| device[name].as_u64().unwrap();
        assert!(count("hits") > 0 && count("fills") > 0, "{device}");
        assert!(count("bytes_up") > 0 && count("bytes_down") > 0, "{device}");
        assert!(report["tiers"]["host"]["evictions"].as_u64().unwrap() > 0);
        let [peak, planned] = ["peak_rss_bytes", "budget_bytes"].map(|name| report[name].as_u64());
        assert!(peak <= planned, "{peak:?} of {planned:?}");
        assert!(said.contains("\ndevices         emulated:0"), "{said}");
        assert!(said.contains("memory of each device at most (emulated:0"), "{said}");
    }
}

/// The rounding numbers of each table begin at an even word; lists full of distinct ids have room
/// for all of them.
#[test]
fn lists_have_room_for_every_table_of_16_bits() {
    let shop = Workshop::new();
    let mut data = "y,a,b,c\n".to_owned();
    (0..64).for_each(|at| data += &format!("{},a{at},b{at},c{at}\n", at % 2));
    std::fs::write(shop.path("data.csv"), data).unwrap();
    let feature = |column: &str| {
        format!("{{columns = [\"{column}\"], table = \"t{column}\", pooling = \"mean\"}}")
    };
    let settings = format!(
        "data.paths = [{:?}]\ndata.mini_batch = 8\ndata.eval_fraction = 0.0\n\
         rows.storage = \"bf16\"\nmodel.kind = \"wide_deep\"\nmodel.hidden = [8]\n\
         columns = [{{names = [\"y\"], type = \"label\"}}, \
         {{names = [\"a\", \"b\", \"c\"], type = \"id\"}}]\n\
         features = [{}]\ntables.ta.dim = 4\ntables.tb.dim = 4\ntables.tc.dim = 4\n",
        shop.text("data.csv"),
        ["a", "b", "c"].map(feature).join(", ")
    );
    std::fs::write(shop.path("settings.toml"), settings).unwrap();
    let digest = |more: &[&str]| {
        let settings = shop.text("settings.toml");
        let report = shop.text("report.json");
        let mut args = vec!["train", &settings, "--report", &report, "--quiet"];
        args.extend(more);
        shop.ok(&args);
        shop.report("report.json")["model_digest"].clone()
    };
    let expected = digest(&["--device", "host"]);
    assert_eq!(digest(&["--device", "emulated:1", "--train.dense", "device"]), expected);
}

/// A run that is resumed alternately on devices and on the host.
#[test]
fn a_killed_run_goes_on_wherever_it_likes() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 6000);
    shop.ok(&args(&[&data], &["--set", "data.epochs=2"]));
    let expected = shop.report("report.json");
    let places = ["emulated:1", "host", "emulated:3", "emulated:2"];
    let (mut kills, mut lives) = (0, 0);
    loop {
        let device = places[lives % places.len()];
        lives += 1;
        let mut args = vec!["train", "--data", &data, "--set", "data.epochs=2", "--device", device];
        args.extend(SMALL.into_iter().chain(TINY).chain(HBM));
        if lives % 2 == 0 {
            args.extend(["--tables.embedding.place", "device", "--tiers.warm_up", "2"]);
        }
        args.extend(["--checkpoint", "saved", "--set", "checkpoint.every=7"]);
        args.extend(["--tiers.ssd", "rows", "--resume=auto", "--report", "report.json"]);
        let before = shop.newest();
        let mut child =
            shop.command(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let begun = Instant::now();
        let ended = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break Some(status);
            }
            let saved = shop.newest() > before;
            if lives < 6 && (saved || begun.elapsed() > Duration::from_secs(60)) {
                std::thread::sleep(Duration::from_millis(7 * lives as u64));
                child.kill().unwrap();
                child.wait().unwrap();
                break None;
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        if let Some(status) = ended {
            assert!(status.success(), "life {lives} on {device}: {status}");
            break;
        }
        kills += 1;
    }
    assert!(kills > 0, "the run was never killed");
    let report = shop.report("report.json");
    for figure in ["model_digest", "steps", "rows", "eval"] {
        assert_eq!(report[figure], expected[figure], "{figure}");
    }
    // Scoring does not need them.
    let eval = shop.ok(&["eval", "saved", "--json", "--digest"]);
    let eval: serde_json::Value = serde_json::from_str(&eval).unwrap();
    assert_eq!(eval["model_digest"], expected["model_digest"]);
}

#[test]
fn what_cannot_be_is_said_with_the_mend() {
    let shop = Workshop::new();
    let train = |more: &[&str]| {
        let mut args = vec!["plan", "--synth.examples", "1000"];
        args.extend(SMALL);
        args.extend(more);
        shop.fails(&args)
    };
    for (device, says) in [
        ("gpu", "device = gpu: give auto, host, cuda, cuda:0,1 or emulated:2"),
        ("emulated:0", "device = emulated:0: give 1 to 64 emulated devices"),
        ("cuda:0,0", "device = cuda:0,0: give each device only once"),
        ("", "device = '': give auto, host, cuda, cuda:0,1 or emulated:2"),
        ("cuda::", "device = 'cuda::': give auto, host, cuda, cuda:0,1 or emulated:2"),
    ] {
        assert!(train(&["--device", device]).ends_with(says), "{device}");
    }
    let little = train(&["--device", "emulated", "--tiers.hbm", "4KiB"]);
    assert!(little.contains("tiers.hbm = 4.0 KiB holds no row of table 'embedding'"), "{little}");
    let least = little.split("give ").nth(1).unwrap().split(' ').next().unwrap();
    let mut args = vec!["plan", "--synth.examples", "1000", "--device", "emulated"];
    args.extend(SMALL);
    args.extend(["--tiers.hbm", least]);
    let plan = shop.ok(&args);
    assert!(plan.contains("tiers.hbm: 1 slots"), "{plan}");
    let dense = train(&["--device", "host", "--train.dense", "device"]);
    assert!(dense.contains("train.dense = device needs a device, but device = host"), "{dense}");
    let memory = train(&["--device", "emulated:9", "--set", "tiers.dram=7KiB"]);
    assert!(memory.contains("raise tiers.dram, or choose fewer devices"), "{memory}");
}

/// Settings of devices have no effect without devices, and a note says so.
#[test]
fn settings_of_devices_that_are_not_there_are_noted() {
    let shop = Workshop::new();
    let mut args = vec!["plan", "--synth.examples", "1000", "--device", "host"];
    args.extend(SMALL);
    args.extend(["--tiers.hbm", "1GiB"]);
    let output = shop.run(&args);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("tiers.hbm has no effect, because no device is used"), "{said}");
}

/// A note says if a table's rows should go to devices and there are none.
#[test]
fn rows_that_never_go_to_devices_are_noted() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 640);
    let said = |args: &[&str]| {
        let output = shop.run(args);
        assert!(output.status.success(), "{args:?}: {output:?}");
        let texts = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        texts.concat()
    };
    let notes = |said: &str| said.matches("tables.embedding.place").count();
    let on = |job, device, more: &[&str]| {
        let mut args = vec![job, "--device", device, "--tables.embedding.place", "device"];
        args.extend(SMALL);
        args.extend(more);
        said(&args)
    };
    let stream = ["--synth.examples", "640"];
    for job in ["plan", "train"] {
        let host = on(job, "host", &stream);
        let why = "tables.embedding.place has no effect, because no device is used";
        assert!(host.contains(why) && notes(&host) == 1, "{job}: {host}");
        let short = on(job, "emulated", &stream);
        let why = "tables.embedding.place = device has no effect, because the run has at most 12 \
            mini-batches and tiers.warm_up is 100: lower it";
        assert!(short.contains(why) && notes(&short) == 1, "{job}: {short}");
        let long = on(job, "emulated", &[&stream[..], &["--tiers.warm_up", "5"]].concat());
        assert_eq!(notes(&long), 0, "{job}: {long}");
    }
    // The number of lines is known at the end even if they are not counted before.
    let whole = ["--data", &data, "--data.eval_fraction", "0", "--tiers.dram", "32MiB"];
    let short = on("train", "emulated", &[&whole[..], &["--checkpoint", "saved"]].concat());
    let why = "because the run had 10 mini-batches and tiers.warm_up is 100: lower it";
    assert!(short.contains(why) && notes(&short) == 1, "{short}");
    let long = on("train", "emulated", &[&whole[..], &["--tiers.warm_up", "5"]].concat());
    assert_eq!(notes(&long), 0, "{long}");
    // The setting of training does not apply to scoring.
    for device in ["host", "emulated"] {
        let eval = said(&["eval", "saved", "--data", &data, "--device", device]);
        assert_eq!(notes(&eval), 0, "{eval}");
    }
}

/// Devices have at most half as many slots as the host, even with more memory.
#[test]
fn a_plan_says_what_the_host_leaves_idle_of_devices() {
    let shop = Workshop::new();
    let plan = |more: &[&str]| {
        let mut args = vec!["plan", "--synth.examples", "1000"];
        args.extend(SMALL);
        args.extend(more);
        shop.ok(&args)
    };
    let why = "because devices hold at most half as many rows as the host: raise tiers.dram";
    let capped = plan(&["--device", "emulated:2", "--tiers.hbm", "64MiB", "--tiers.dram", "1MiB"]);
    assert!(capped.contains("note: tiers.hbm: each device uses "), "{capped}");
    assert!(capped.contains(why) && !capped.contains("each rank"), "{capped}");
    let whole = plan(&["--device", "emulated", "--tiers.hbm", "8MiB", "--tiers.dram", "64MiB"]);
    assert!(!whole.contains(why), "{whole}");
    let ranks = plan(&["--device", "emulated", "--tiers.hbm", "8MiB", "--ranks", "2"]);
    let wanted = "memory of each device at most (emulated:0; each rank has its own)";
    assert!(ranks.contains(wanted), "{ranks}");
}

#[test]
fn scoring_notes_settings_of_devices_that_are_not_there() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 640);
    let mut train = vec!["train", "--data", &data, "--checkpoint", "saved"];
    train.extend(SMALL);
    shop.ok(&train);
    let said = |job: &str, device: &str| {
        let args = [job, "saved", "--data", &data, "--device", device, "--tiers.hbm", "8MiB"];
        String::from_utf8(shop.run(&args).stderr).unwrap()
    };
    let found = shop.run(&["device"]).status.success();
    for job in ["eval", "predict"] {
        let host = said(job, "host");
        let note = "tiers.hbm has no effect, because no device is used";
        assert!(host.contains(note), "{host}");
        let auto = said(job, "auto");
        assert_eq!(auto.contains(note), !found, "{auto}");
        let emulated = said(job, "emulated:1");
        assert!(!emulated.contains("tiers.hbm has no effect"), "{emulated}");
    }
}

/// Each device of each rank owns key shards, so there can be at most 256.
#[test]
fn more_owners_than_key_shards_are_refused() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 100);
    let mut more = vec!["--device", "emulated:64", "--ranks", "5", "--set", "train.blocks=8"];
    more.extend(HBM);
    let mut args = args(&[&data], &more);
    for command in ["train", "plan"] {
        if command == "plan" {
            args.drain(1..3);
        }
        args[0] = command;
        let error = shop.fails(&args);
        assert_eq!(shop.run(&args).status.code(), Some(2), "{error}");
        for part in ["5 ranks with 64 devices each are 320", "256 key shards", "at most 51 devices"]
        {
            assert!(error.contains(part), "{error}");
        }
    }
}
