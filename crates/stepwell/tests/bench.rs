//! `stepwell bench`: that it measures, not what.

mod common;

use common::Workshop;

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
        ("--skew", "0", "skew 0 is not admitted"),
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
    assert!(message.contains("nowhere is no directory"), "{message}");
    let message = shop.fails(&["bench", "ssd", "--dir", ".", "--json", "no/where.json"]);
    assert!(message.contains("no/where.json"), "{message}");
    for rounds in ["0", "1001", "9223372036854775808"] {
        let message = shop.fails(&["bench", "ssd", "--dir", ".", "--rounds", rounds]);
        assert!(message.contains(&format!("{rounds} rounds: 1 to 1000")), "{message}");
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
        (&["--store", "aged,aged"], "--store: aged is named twice"),
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
