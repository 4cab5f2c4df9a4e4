//! `stepwell-lab cache-sim`: small traces with figures that a plain model gives too.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use std::collections::{BTreeSet, VecDeque};

use serde_json::Value;
use stepwell_data::synth::Synth;
use stepwell_data::{Chunk, PackedOptions, PackedWriter, SynthOptions};

use crate::common::Workshop;
use crate::study::clicks;

/// Keys with a few hot ones, drawn from a generator written out here.
fn keys(count: usize) -> Vec<i64> {
    let mut state = 7u64;
    let mut draw = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % 1000
    };
    let mut key = || match draw() {
        hot @ 0..600 => hot as i64 % 20,
        cold => -(cold as i64) * 1000 - draw() as i64 % 3,
    };
    (0..count).map(|_| key()).collect()
}

fn write_i64(shop: &Workshop, name: &str, keys: &[i64]) {
    let bytes: Vec<u8> = keys.iter().flat_map(|key| key.to_be_bytes()).collect();
    std::fs::write(shop.path(name), bytes).unwrap();
}

fn lru_hits(keys: &[i64], slots: usize) -> u64 {
    let mut recent: VecDeque<i64> = VecDeque::new();
    let mut hits = 0;
    for key in keys {
        if let Some(at) = recent.iter().position(|recent| recent == key) {
            recent.remove(at);
            hits += 1;
        } else if recent.len() == slots {
            recent.pop_front();
        }
        recent.push_back(*key);
    }
    hits
}

fn row<'a>(figures: &'a Value, policy: &str) -> &'a Value {
    let rows = figures["rows"].as_array().unwrap();
    rows.iter().find(|row| row["policy"] == policy).unwrap()
}

#[test]
fn lru_is_exact_and_nothing_is_above_the_optimum() {
    let shop = Workshop::new();
    let keys = keys(20_000);
    write_i64(&shop, "keys.bin", &keys);
    let args = ["cache-sim", "keys.bin", "--format", "i64be", "--sizes", "0.02,0.2,30"];
    let table = shop.ok(&[&args[..], &["--json", "out.json", "--picture", "out.svg"]].concat());
    let distinct: BTreeSet<_> = keys.iter().collect();
    let figures = &shop.report("out.json")[0];
    assert_eq!(figures["accesses"], 20_000);
    assert_eq!(figures["keys"], distinct.len());
    let slots = [distinct.len() / 50, distinct.len() / 5, 30];
    for (column, slots) in slots.into_iter().enumerate() {
        assert_eq!(figures["slots"][column], slots);
        let lru = row(figures, "lru")["hits"][column].as_u64().unwrap();
        assert_eq!(lru, lru_hits(&keys, slots));
        assert!(table.contains(&format!("{:.4}", lru as f64 / 20_000.0)), "{table}");
        let optimum = row(figures, "optimum")["hits"][column].as_u64().unwrap();
        for name in ["lru-lfu", "lru", "lfu", "s3-fifo", "sieve", "w-tinylfu", "sven"] {
            let hits = row(figures, name)["hits"][column].as_u64().unwrap();
            assert!(hits <= optimum && hits > 0, "{name}: {hits}, optimum {optimum}");
        }
        let bypass = row(figures, "optimum+bypass")["hits"][column].as_u64().unwrap();
        assert!(bypass >= optimum);
    }
    let picture = std::fs::read_to_string(shop.path("out.svg")).unwrap();
    assert!(picture.starts_with("<svg") && picture.contains("w-tinylfu"), "{picture:.200}");
}

#[test]
fn widths_of_keys_change_no_figure() {
    let shop = Workshop::new();
    let keys = keys(5000);
    write_i64(&shop, "scarab-recs.bin", &keys);
    let narrow: Vec<u8> = keys.iter().flat_map(|key| (*key as i32).to_be_bytes()).collect();
    std::fs::write(shop.path("orm-busy"), &narrow).unwrap();
    std::fs::write(shop.path("w106.trace"), &narrow).unwrap();
    let args = ["cache-sim", "scarab-recs.bin", "orm-busy", "w106.trace", "--json", "out.json"];
    let table = shop.ok(&[&args[..], &["--policies", "lru, s3-fifo"]].concat());
    assert_eq!(table.matches("optimum+bypass").count(), 3);
    let all = shop.report("out.json");
    let formats: Vec<_> = (0..3).map(|at| all[at]["format"].as_str().unwrap()).collect();
    assert_eq!(formats, ["i64be", "i32be", "u32be"]);
    assert_eq!(row(&all[0], "lru"), row(&all[1], "lru"));
    assert_eq!(row(&all[1], "optimum"), row(&all[2], "optimum"));
}

#[test]
fn training_files_are_traces_of_their_ids() {
    let shop = Workshop::new();
    let line = |id: &str| format!("0{}\t{id}\t\t{id}{}\n", "\t1".repeat(13), "\t".repeat(23));
    let text: String = ["aa", "bb", "aa", "cc", "aa"].map(line).concat();
    std::fs::write(shop.path("tiny.tsv"), text).unwrap();
    shop.ok(&["cache-sim", "tiny.tsv", "--sizes", "1.0,2", "--json", "out.json"]);
    let figures = &shop.report("out.json")[0];
    // Two ids a line, and the same text in two columns is two keys.
    assert_eq!((&figures["look_ups"], &figures["keys"]), (&10.into(), &6.into()));
    assert_eq!(row(figures, "lru")["hits"], serde_json::json!([4, 0]));
    assert_eq!(row(figures, "optimum")["hits"], serde_json::json!([4, 2]));
}

#[test]
fn mini_batches_and_windows_help_as_they_should() {
    let shop = Workshop::new();
    write_i64(&shop, "keys.bin", &keys(20_000));
    let args = ["cache-sim", "keys.bin", "--format", "i64be", "--sizes", "60", "--mini-batch"];
    let hits = |more: &[&str], policy: &str| {
        shop.ok(&[&args[..], more, &["--json", "out.json"]].concat());
        let figures = &shop.report("out.json")[0];
        assert!(figures["look_ups"].as_u64().unwrap() < 20_000);
        row(figures, policy)["hits"][0].as_u64().unwrap()
    };
    let blind = hits(&["16"], "lru");
    let near = hits(&["16", "--window", "4"], "lru");
    let all = hits(&["16", "--window", "2000"], "lru");
    assert!(blind < near && near < all, "{blind}, {near}, {all}");
    assert_eq!(all, hits(&["16"], "optimum"));
}

#[test]
fn reads_are_counted_where_they_are_asked_for() {
    let shop = Workshop::new();
    write_i64(&shop, "keys.bin", &keys(20_000));
    let args = ["cache-sim", "keys.bin", "--format", "i64be", "--sizes", "60", "--policies", "lru"];
    let ahead = ["--mini-batch", "16", "--window", "8", "--json", "out.json"];
    let reads = |more: &[&str]| {
        let table = shop.ok(&[&args[..], &ahead, more].concat());
        let figures = &shop.report("out.json")[0];
        assert!(row(figures, "optimum").get("reads").is_none());
        (table, row(figures, "lru")["reads"][0].clone(), figures["reads"].clone())
    };
    let (table, none, options) = reads(&[]);
    assert!(none.is_null() && options.is_null() && !table.contains("reads"), "{table}");
    let (table, plain, options) = reads(&["--rows-per-page", "10"]);
    assert!(table.contains("reads: pages of 10 rows, 1 a read"), "{table}");
    assert_eq!(options, serde_json::json!({"rows_per_page": 10, "read_unit": 1, "harvest": 0}));
    let (table, kept, _) = reads(&["--rows-per-page", "10", "--harvest", "500"]);
    assert!(table.contains("of them used"), "{table}");
    let count = |of: &Value, name: &str| of[name].as_u64().unwrap();
    assert_eq!(count(&plain, "refills"), count(&kept, "refills"));
    assert!(count(&kept, "reads") < count(&plain, "reads"), "{kept}, {plain}");
    assert!(count(&kept, "used") > 0 && count(&plain, "harvested") == 0);
    let rate = kept["reads_per_access"].as_f64().unwrap();
    assert!((rate * 20_000.0 - count(&kept, "reads") as f64).abs() < 1e-6);
    let (_, _, options) = reads(&["--harvest", "500", "--read-unit", "4"]);
    assert_eq!(options["rows_per_page"], 27);
}

#[test]
fn bad_input_is_answered_with_one_line() {
    let shop = Workshop::new();
    write_i64(&shop, "keys.bin", &keys(1000));
    std::fs::write(shop.path("cut.bin"), [0; 1001]).unwrap();
    std::fs::write(shop.path("empty.bin"), []).unwrap();
    std::fs::write(shop.path("bad.xz"), b"\xFD7zXZ\0\0\0\0\0\0\0\0\0").unwrap();
    std::fs::create_dir(shop.path("folder")).unwrap();
    let fails = |trace: &str, more: &[&str], parts: &[&str]| {
        let mut args = vec!["cache-sim", trace];
        args.extend(more);
        let error = shop.fails(&args);
        assert!(parts.iter().all(|part| error.contains(part)), "{args:?}: {error}");
    };
    let i64be = &["--format", "i64be"][..];
    fails("nowhere.bin", i64be, &["nowhere.bin", "no such file"]);
    fails("folder", i64be, &["folder", "directory"]);
    fails("keys.bin", &[], &["keys.bin", "--format", "i64be, i32be"]);
    fails("keys.bin", &["--format", "i16"], &["--format", "i16", "auto, i64be"]);
    fails("cut.bin", i64be, &["cut.bin", "1001 bytes", "8 bytes", "1 are left over"]);
    fails("empty.bin", i64be, &["empty.bin", "no key"]);
    fails("bad.xz", i64be, &["bad.xz", "decompression failed"]);
    fails("missing.tsv", &[], &["missing.tsv"]);
    let with = |flag: &'static str, value: &'static str| ["--format", "i64be", flag, value];
    fails("keys.bin", &with("--sizes", "0"), &["--sizes", "size 0"]);
    fails("keys.bin", &with("--sizes", "0.1,1.5"), &["--sizes", "1.5", "at most 1"]);
    fails("keys.bin", &with("--sizes", "-0.5"), &["--sizes", "-0.5"]);
    fails("keys.bin", &with("--sizes", "many"), &["--sizes", "many"]);
    fails("keys.bin", &with("--policies", "lru,fifo"), &["--policies", "fifo", "s3-fifo"]);
    fails("keys.bin", &with("--mini-batch", "0"), &["mini-batch"]);
    fails("keys.bin", &with("--rows-per-page", "0"), &["--rows-per-page 0: give 1 to"]);
    fails("keys.bin", &with("--read-unit", "9999999"), &["--read-unit 9999999: give 1 to"]);
    fails("keys.bin", &with("--harvest", "5"), &["--harvest", "--window"]);
    fails("keys.bin", &with("--picture", "out.png"), &["out.png", ".svg"]);
    fails("keys.bin", &with("--json", "no/out.json"), &["no/out.json"]);
    let large = ["--format", "i64be", "--sizes", "10", "--mini-batch", "100"];
    fails("keys.bin", &large, &["keys.bin", "10 slots", "distinct keys"]);
}

#[test]
fn traces_are_looked_at_before_the_first_is_computed() {
    let shop = Workshop::new();
    write_i64(&shop, "scarab-recs-1", &keys(500));
    let error = shop.fails(&["cache-sim", "scarab-recs-1", "missing"]);
    assert!(error.contains("missing: no such file"), "{error}");
    let output = shop.run(&["cache-sim", "scarab-recs-1", "missing"]);
    assert!(output.stdout.is_empty());
    for (args, what) in [
        (&["scarab-recs-1", "scarab-recs-1"][..], "TRACE"),
        (&["scarab-recs-1", "--sizes", "0.1,0.1"], "--sizes"),
        (&["scarab-recs-1", "--policies", "lru,lru"], "--policies"),
    ] {
        let error = shop.fails(&[&["cache-sim"], args].concat());
        assert!(error.contains(what) && error.contains("twice"), "{error}");
    }
    // A packed training file is known by its first bytes, whatever its name is.
    clicks(&shop, "data.tsv", 300);
    let options = SynthOptions { examples: 300, vocab_scale: 0.1, ..SynthOptions::default() };
    let synth = Synth::new(&options).unwrap();
    let mut chunk = Chunk::new(synth.schema());
    synth.fill(0, 300, &mut chunk);
    chunk.truth.clear();
    let packed = PackedOptions::new(synth.schema());
    let mut writer = PackedWriter::new(&shop.path("clicks"), &packed).unwrap();
    writer.add(&chunk).unwrap();
    writer.finish().unwrap();
    let tables = ["data.tsv", "clicks"].map(|name| shop.ok(&["cache-sim", name]));
    let figures = |table: &str| table.split_once(' ').unwrap().1.to_owned();
    assert_eq!(figures(&tables[0]), figures(&tables[1]));
}
