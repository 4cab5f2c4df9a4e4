//! `stepwell-lab bench`: that it measures, not what.

use std::process::Stdio;

use crate::common::Workshop;

#[test]
fn rows_in_memory_are_measured() {
    let shop = Workshop::new();
    let sizes = ["--slots", "2000", "--keys", "9000", "--lookups", "4096", "--batch", "512"];
    let mut args = vec!["bench", "mem", "--rounds", "1", "--json", "mem.json"];
    args.extend(sizes);
    assert!(shop.ok(&args).contains("look-ups with their rows, 2 threads"));
    let figures = shop.report("mem.json");
    for field in [
        "lookups_per_second_per_thread",
        "lookup_over_limit",
        "gather_over_limit",
        "scatter_over_limit",
        "metadata_bytes_per_row",
        "hit_rate",
    ] {
        assert!(figures[field].as_f64() > Some(0.0), "{field}: {}", figures[field]);
    }
    for (flag, value, why) in [
        ("--row-bytes", "12", "rows of 12 bytes"),
        ("--slots", "1", "1 slots for 9000 keys"),
        ("--skew", "0", "skew 0 is not supported"),
        ("--rounds", "0", "0 rounds"),
    ] {
        let mut args = vec!["bench", "mem"];
        args.extend(sizes);
        let at = args.iter().position(|of| *of == flag);
        match at {
            Some(at) => args[at + 1] = value,
            None => args.extend([flag, value]),
        }
        let message = shop.fails(&args);
        assert!(message.contains(why), "{message}");
    }
}

#[test]
fn a_benchmark_says_at_once_what_it_cannot_do() {
    let shop = Workshop::new();
    let message = shop.fails(&["bench", "ssd", "--dir", "nowhere"]);
    assert!(message.contains("nowhere is not a directory"), "{message}");
    let message = shop.fails(&["bench", "ssd", "--dir", ".", "--json", "no/where.json"]);
    assert!(message.contains("no/where.json"), "{message}");
    for rounds in ["0", "1001", "9223372036854775808"] {
        let message = shop.fails(&["bench", "ssd", "--dir", ".", "--rounds", rounds]);
        assert!(message.contains(&format!("{rounds} rounds: give 1 to 1000")), "{message}");
    }
}

#[test]
fn training_out_of_core_is_checked_before_anything_is_written() {
    let shop = Workshop::new();
    std::fs::create_dir(shop.path("disk")).unwrap();
    for (args, why) in [
        (&["--skew", "nan"][..], "--skew NaN"),
        (&["--shares", "101"], "--shares 101"),
        (&["--shares", "0"], "--shares 0"),
        (&["--rows", "100000000000"], "--rows 100000000000"),
        (&["--rows", "20000"], "--rows 20000: give at least"),
        (&["--rows", "1000000000"], "--set tiers.index="),
        (&["--rows", "200000", "--shares", "10"], "--shares 10"),
        (&["--examples", "5"], "--examples 5"),
        (&["--store", "aged,old"], "--store old: give aged, loaded or both"),
        (&["--store", "aged,aged"], "--store: aged is given twice"),
        (&["--set", "tiers.dram=1GiB"], "--set tiers.dram"),
        (&["--set", "data.eval_fraction=0.5"], "--set data.eval_fraction"),
        (&["--set", "rows.admit_after=2"], "--set rows.admit_after"),
    ] {
        let message = shop.fails(&[&["bench", "train", "--dir", "disk"], args].concat());
        assert!(message.contains(why), "{message}");
        assert_eq!(std::fs::read_dir(shop.path("disk")).unwrap().count(), 0);
    }
    let message = shop.fails(&["bench", "cpu", "--set", "tiers.dram=1GiB"]);
    assert!(message.contains("--set tiers.dram"), "{message}");
    for (given, mend) in [
        (["--rows", "0"], "--rows 0: give at least 1024, the keys of a look-up (--batch)"),
        (["--batch", "0"], "--batch 0: give at least 1"),
    ] {
        let message = shop.fails(&[&["bench", "ssd", "--dir", "disk"][..], &given].concat());
        assert!(message.contains(mend), "{message}");
    }
    let message = shop.fails(&["bench", "ssd", "--dir", "disk", "--index-rows", "200000"]);
    assert!(message.contains("--index-rows 200000"), "{message}");
}

/// Sizes that take a moment.
const RANKS: [&str; 10] = [
    "--rows",
    "200000",
    "--examples",
    "8192",
    "--rounds",
    "1",
    "--set",
    "data.mini_batch=128",
    "--set",
    "model.dim=4",
];

#[test]
fn several_ranks_are_measured() {
    let shop = Workshop::new();
    std::fs::create_dir(shop.path("disk")).unwrap();
    let parts = ["--parts", "bytes,memory,out_of_core,network", "--models", "wide_deep,lr"];
    let args = ["bench", "ranks", "--dir", "disk", "--json", "ranks.json", "--set"];
    let small = ["model.hidden=[8]"];
    let said = shop.ok(&[&args[..], &small, &parts, &RANKS].concat());
    assert!(said.contains("2 ranks of 1 thread") && said.contains("times the least"), "{said}");
    let figures = shop.report("ranks.json");
    assert_eq!(figures["fabric"], "threads");
    assert!(figures["alltoallv_over_raw"].is_null(), "not asked for");
    for field in ["ranks_over_threads", "ranks_over_threads_out_of_core"] {
        for model in ["wide_deep", "lr"] {
            let ratio = figures[field][model].as_f64().unwrap();
            assert!((0.01..100.0).contains(&ratio), "{field}, {model}: {ratio}");
        }
    }
    // 1.75 at a row that one weight makes, and scores; no step sends less than the least.
    let bytes = figures["bytes"].as_array().unwrap();
    assert_eq!(bytes.len(), 2, "lr with 2 ranks and with 4");
    for of in bytes {
        let over_least = of["over_least"].as_f64().unwrap();
        assert!((1.0..3.0).contains(&over_least), "{of}");
        assert_eq!(of["steps"], 64);
        assert!(of["keys_per_step"].as_f64().unwrap() > 100.0, "{of}");
    }
    let network = &figures["network"][0];
    // Three latencies of 50 us in each step, and some bytes.
    let sending = network["sending_seconds"].as_f64().unwrap();
    assert!((64.0 * 150e-6..1.0).contains(&sending), "{network}");
    assert!(figures["wall_over_longest"].as_f64() > Some(0.1), "{network}");
    assert_eq!(std::fs::read_dir(shop.path("disk")).unwrap().count(), 0, "all is removed");
}

#[test]
fn messages_of_ranks_are_measured() {
    let shop = Workshop::new();
    let said = shop.ok(&[
        "bench",
        "ranks",
        "--parts",
        "exchange",
        "--rounds",
        "1",
        "--launcher",
        "no-such-mpirun",
        "--json",
        "ranks.json",
    ]);
    assert!(said.contains("messages over MPI against MPI_Alltoallv: not measured"), "{said}");
    let figures = shop.report("ranks.json");
    assert!(figures["alltoallv_over_raw"].is_null());
    let ratio = figures["threads_alltoallv_over_memcpy"].as_f64().unwrap();
    assert!((0.001..10.0).contains(&ratio), "{ratio}");
    let exchanges = figures["exchanges"].as_array().unwrap();
    assert!(exchanges.iter().all(|of| of["fabric"] == "threads"));
    let bytes: Vec<u64> = exchanges.iter().filter_map(|of| of["bytes"].as_u64()).collect();
    assert_eq!((bytes.first(), bytes.last()), (Some(&1024), Some(&(16 << 20))));
}

#[test]
fn what_cannot_be_measured_of_ranks_is_refused() {
    let shop = Workshop::new();
    std::fs::create_dir(shop.path("disk")).unwrap();
    for (args, why) in [
        (&["--rows", "5"][..], "--rows 5: give 26"),
        (&["--skew", "nan"], "--skew NaN"),
        (&["--rounds", "0"], "--rounds 0: give 1 to 1000"),
        (&["--examples", "5"], "--examples 5: give at least two mini-batches"),
        (&["--parts", "bytes,all"], "--parts all: give some of exchange, bytes, memory"),
        (&["--models", "transformer"], "--models transformer"),
        (&["--set", "ranks=4"], "--set ranks"),
        (&["--set", "train.blocks=4"], "--set train.blocks"),
        (&["--set", "tiers.dram=1GiB"], "--set tiers.dram"),
        (&["--data", "no.packed"], "no.packed"),
    ] {
        let message = shop.fails(&[&["bench", "ranks", "--dir", "disk"], args].concat());
        assert!(message.contains(why), "{message}");
        assert_eq!(std::fs::read_dir(shop.path("disk")).unwrap().count(), 0);
    }
    let message = shop.fails(&["bench", "ranks", "--dir", "nowhere"]);
    assert!(message.contains("nowhere is not a directory"), "{message}");
    let mut launched = shop.command(&["bench", "ranks", "--dir", "disk"]);
    let output = launched.env("OMPI_COMM_WORLD_SIZE", "2").output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && message.contains("start it alone"), "{message}");
    // Known when the rows were counted.
    let few = ["bench", "ranks", "--dir", "disk", "--rows", "2000", "--examples", "9000"];
    let output = shop.command(&few).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && message.contains("are fewer than the"), "{message}");
    assert!(message.contains("give more --rows and --examples"), "{message}");
}

/// The file has the figures of each part as soon as the part is over.
#[test]
fn a_killed_benchmark_leaves_what_it_measured() {
    let shop = Workshop::new();
    let sizes = ["--slots", "2000", "--keys", "9000", "--lookups", "20000", "--batch", "512"];
    let args = ["bench", "mem", "--rounds", "200", "--json", "mem.json"];
    let mut killed = shop.command(&[&args[..], &sizes].concat());
    let mut killed = killed.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // Before it starts, it creates and removes an empty file to see whether it can.
    while std::fs::metadata(shop.path("mem.json")).map_or(0, |about| about.len()) == 0 {
        assert!(killed.try_wait().unwrap().is_none(), "it ended before it was killed");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    let figures = shop.report("mem.json");
    assert_eq!(figures["unfinished"], true, "{figures}");
    assert_eq!(figures["threads"].as_array().unwrap().len(), 1, "{figures}");
    assert!(figures["lookup_over_limit"].as_f64() > Some(0.0), "{figures}");
}

#[test]
fn quick_changes_what_other_flags_leave_open() {
    let shop = Workshop::new();
    let small = ["--no-limits", "--threads=1", "--rows=260", "--set=data.mini_batch=16"];
    let args = [&["bench", "cpu", "--quick", "--json"][..], &small].concat();
    let printed =
        |args: &[&str]| -> serde_json::Value { serde_json::from_str(&shop.ok(args)).unwrap() };
    let figures = printed(&args);
    assert_eq!(figures["options"]["steps"], 5);
    assert_eq!(figures["options"]["models"], serde_json::json!(["deepfm", "lr"]));
    assert!(figures.get("unfinished").is_none(), "{figures}");
    let given = [&args[..], &["--steps=1", "--models=lr"]].concat();
    let options = printed(&given)["options"].clone();
    assert_eq!((&options["steps"], &options["models"][0]), (&1.into(), &"lr".into()));
}

#[test]
fn what_a_killed_benchmark_left_is_taken_over() {
    let shop = Workshop::new();
    let left = shop.path("disk/stepwell-bench-ssd");
    std::fs::create_dir_all(shop.path("disk")).unwrap();
    let small = ["--rows", "5000", "--seconds", "0.02", "--overwrites", "1", "--rounds", "1"];
    let args = ["bench", "ssd", "--dir", "disk", "--index-rows", "0", "--json"];
    let args = [&args[..], &small].concat();
    let mut killed = shop.command(&args);
    let mut killed = killed.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while !left.join("store-0").exists() {
        assert!(killed.try_wait().unwrap().is_none(), "it ended before it was killed");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(left.exists());
    let figures: serde_json::Value = serde_json::from_str(&shop.ok(&args)).unwrap();
    assert!(figures["cold_rows_per_second"].as_f64() > Some(0.0), "{figures}");
    assert!(!left.exists(), "all is removed");
    // A directory that no benchmark created is left alone.
    std::fs::create_dir(&left).unwrap();
    std::fs::write(left.join("mine"), "").unwrap();
    let message = shop.run(&args);
    let message = String::from_utf8_lossy(&message.stderr).into_owned();
    assert!(message.contains("was not created by a benchmark: remove it"), "{message}");
    assert!(left.join("mine").exists());
}
