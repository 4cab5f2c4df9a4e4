//! `stepwell plan`: memory, several ranks, a network and a profile.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use crate::common::{SMALL, Workshop};
use serde_json::Value;

const NETWORK: [&str; 2] = ["--network", "25Gbit,5us"];

fn args<'a>(job: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec![job, "--data", "data.tsv", "--threads", "1"];
    args.extend(SMALL);
    args.extend(more);
    args
}

fn workshop() -> Workshop {
    let shop = Workshop::new();
    shop.examples("data.tsv", 2000);
    shop
}

/// The forecast of a plan for two ranks, as JSON.
fn forecast(shop: &Workshop, more: &[&str]) -> Value {
    let said = shop.ok(&args("plan", &[&["--ranks", "2", "--json"], more].concat()));
    serde_json::from_str::<Value>(&said).unwrap()["forecast"].clone()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn bytes_of_a_network_are_those_that_a_run_sends() {
    let shop = workshop();
    // Without an evaluation, which sends messages, too, and without a short last mini-batch.
    let run = ["--ranks", "2", "--report", "report.json", "--data.eval_fraction", "0"];
    shop.ok(&args("train", &run));
    let report = shop.report("report.json");
    let ranks = report["by_rank"].as_array().unwrap();
    let sum = |field: &str| -> f64 { ranks.iter().map(|rank| number(&rank["ranks"][field])).sum() };
    let steps = number(&report["steps"]);
    let examples = number(&report["examples"]);
    let found = forecast(&shop, &NETWORK);
    // Two parts of a mini-batch, half of whose keys the other rank owns.
    let keys = number(&found["keys"]);
    let asked = sum("keys_asked") / steps;
    assert!((0.9..1.1).contains(&(keys / asked)), "{keys} keys, and {asked} were asked for");
    // Headers of messages add to what is sent, noticeably for small mini-batches.
    let (said, sent) = (number(&found["bytes_per_example"]), sum("bytes_sent") / 2.0 / examples);
    assert!((0.8..1.05).contains(&(said / sent)), "{said} bytes, and {sent} were sent");
    assert!(found["one_machine"].is_null() && found["machines"].is_null());
}

#[test]
fn without_a_profile_the_page_says_how_to_make_one() {
    let shop = workshop();
    let page = shop.ok(&args("plan", &[&["--ranks", "2"][..], &NETWORK].concat()));
    for line in
        ["what the link of rank 0 carries each way", "the network alone allows", "--report FILE"]
    {
        assert!(page.contains(line), "{line}: {page}");
    }
    let plain = shop.ok(&args("plan", &["--ranks", "2"]));
    assert!(page.starts_with(plain.trim_end()), "{page}");
    let json = shop.ok(&args("plan", &["--json"]));
    let json: Value = serde_json::from_str(&json).unwrap();
    assert!(json["forecast"].is_null() && number(&json["memory_bytes"]) > 0.0);
    // A slower link allows less, and a longer one, too.
    let rate = |network: &str| {
        let found = forecast(&shop, &["--network", network]);
        (number(&found["network"]["examples_per_second"]), found["network"]["bound"].clone())
    };
    let fast = rate("25Gbit,5us").0;
    assert_eq!(rate("1Mbit,5us").1, "network bandwidth");
    assert_eq!(rate("25Gbit,5ms").1, "network latency");
    assert!(rate("1Mbit,5us").0 < fast && rate("25Gbit,5ms").0 < fast);
}

#[test]
fn a_profile_tells_how_fast_ranks_are() {
    let shop = workshop();
    shop.ok(&args("train", &["--report", "report.json", "--data.eval_fraction", "0.2"]));
    let profile = ["--profile", "report.json"];
    let found = forecast(&shop, &profile);
    assert!(found["network"].is_null() && found["machines"].is_null());
    assert!(number(&found["one_machine"]["examples_per_second"]) > 0.0);
    let both = forecast(&shop, &[&profile[..], &NETWORK].concat());
    assert_eq!(both["one_machine"], found["one_machine"]);
    // Two machines have twice the cores.
    let cores = |of: &Value| {
        let parts = of["parts"].as_array().unwrap();
        number(&parts.iter().find(|part| part["name"] == "cores").unwrap()["seconds"])
    };
    let (one, two) = (cores(&both["one_machine"]), cores(&both["machines"]));
    assert!((one / two - 2.0).abs() < 1e-9, "{one} and {two}");
    let page = shop.ok(&args("plan", &[&["--ranks", "2"], &profile[..], &NETWORK].concat()));
    for line in ["2 ranks as threads of one process", "2 ranks on as many machines", "bound by"] {
        assert!(page.contains(line), "{line}: {page}");
    }
    assert!(!page.contains("make a profile"), "{page}");
    // One rank has no messages.
    let page = shop.ok(&args("plan", &profile));
    assert!(page.contains("one rank would train") && !page.contains("link"), "{page}");
}

#[test]
fn profiles_and_networks_of_no_use_are_one_line() {
    let shop = workshop();
    let data = &["--data.eval_fraction", "0"];
    shop.ok(&args("train", &[&["--report", "report.json"], &data[..]].concat()));
    let report = shop.report("report.json");
    let refused = |more: &[&str]| {
        shop.fails(&args("plan", &[&["--profile", "changed.json", "--ranks", "2"], more].concat()))
    };
    let with = |text: &str, more: &[&str]| {
        std::fs::write(shop.path("changed.json"), text).unwrap();
        refused(more)
    };
    assert!(refused(&[]).contains("cannot read the profile changed.json"));
    assert!(with("{ \"", &[]).contains("profile changed.json: EOF while parsing"));
    assert!(with("[]", &[]).contains("it is not a report of this version; create one with"));
    let changed = |field: &str, value: Value| {
        let mut report = report.clone();
        report[field] = value;
        report.to_string()
    };
    let stopped = with(&changed("interrupted", true.into()), &[]);
    assert!(stopped.contains("profile changed.json: interrupted is true"), "{stopped}");
    let mut short = report.clone();
    short.as_object_mut().unwrap().remove("compute_seconds");
    assert!(with(&short.to_string(), &[]).contains("missing field `compute_seconds`"));
    for (other, answer) in [
        (["--set", "model.kind=lr"], "config has model.kind = deepfm, but this plan has lr"),
        (["--data.mini_batch", "128"], "config has data.mini_batch = 64, but this plan has 128"),
        (["--set", "train.blocks=4"], "config has train.blocks = 8, but this plan has 4"),
        (["--set", "model.precision=bf16"], "model.precision = f32, but this plan has bf16"),
    ] {
        let said = with(&report.to_string(), &other);
        assert!(said.contains(answer), "{said}");
    }
    shop.ok(&args("train", &[&["--report", "changed.json", "--ranks", "2"], &data[..]].concat()));
    assert!(refused(&[]).contains("by_rank has 2 ranks: create a profile of one"));
    let network =
        |text: &str, ranks: &str| shop.fails(&args("plan", &["--network", text, "--ranks", ranks]));
    assert!(network("25Gbit", "2").contains("--network '25Gbit': write the rate of a link and"));
    assert!(network("25Gbit,5us", "1").contains("give --ranks 2 or more"));
}

#[test]
fn memory_that_a_mini_batch_may_not_fit_is_told_before_the_first_step() {
    let shop = workshop();
    assert!(!shop.ok(&args("plan", &[])).contains("note: memory has"));
    let small = ["--tiers.dram=24KiB", "--tiers.segment=64KiB"];
    let planned = shop.ok(&args("plan", &small));
    let note = planned.lines().find(|line| line.starts_with("note: memory has ")).unwrap();
    assert!(note.contains("a mini-batch of 64 examples with 26 ids each may need up to 1664"));
    let output = shop.run(&args("train", &small));
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(error.contains(note), "{error}");
    assert!(error.contains("raise tiers.dram to "), "{error}");
    // With the size in the note, there is no note any more; so with the size in the run's message.
    let enough = note.split("tiers.dram = ").nth(1).unwrap().split(' ').next().unwrap();
    let enough = format!("--tiers.dram={enough}");
    assert!(!shop.ok(&args("plan", &[&enough, small[1]])).contains("note: memory has"));
    let run = shop.ok(&args("train", &[&enough, small[1]]));
    assert!(!run.contains("note: memory has"), "{run}");
    let json: Value = serde_json::from_str(&shop.ok(&args("plan", &["--json"]))).unwrap();
    assert_eq!(json["tight"], serde_json::json!([]));
}

/// Arguments of a run without sizes of its tiers.
fn unsized_args<'a>(job: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let args =
        [job, "--data", "data.tsv", "--threads", "1", "--model.dim", "4", "--model.hidden", "8"];
    [&args[..], &["--data.mini_batch", "64"], more].concat()
}

fn planned(shop: &Workshop, more: &[&str]) -> Value {
    let said = shop.ok(&unsized_args("plan", &[&["--json"], more].concat()));
    serde_json::from_str(&said).unwrap()
}

const MIB: u64 = 1 << 20;

#[test]
fn memory_bounds_the_plan_and_changes_no_bit_of_the_model() {
    let shop = workshop();
    for (model, ranks) in [("wide_deep", 1), ("deepfm", 2)] {
        let count = ranks.to_string();
        let job = ["--model", model, "--ranks", &count];
        let with = |size| [&job[..], &["--memory", size]].concat();
        let mut digests = Vec::new();
        for (size, bytes) in [("512MiB", 512 * MIB), ("1GiB", 1 << 30), ("100GiB", 100 << 30)] {
            let total = |more: &[&str]| {
                let plan = planned(&shop, &[&with(size)[..], more].concat());
                ranks * plan["memory_bytes"].as_u64().unwrap()
            };
            // With a known and an unknown amount of data.
            let (known, open) = (total(&[]), total(&["--data.eval_fraction", "0"]));
            assert!(known.max(open) <= bytes, "{model} {size}: {known} {open}");
            assert!(open > bytes / 4 * 3, "{model} {size}: {open}");
            let report = ["--report", "report.json"];
            shop.ok(&unsized_args("train", &[&with(size)[..], &report].concat()));
            let report = shop.report("report.json");
            let peak = report["peak_rss_bytes"].as_u64().unwrap();
            assert!(peak < bytes + 64 * MIB, "{model} {size}: {peak}");
            digests.push(report["model_digest"].clone());
        }
        assert!(digests.windows(2).all(|two| two[0] == two[1]), "{model}: {digests:?}");
        // The least size in the message is enough.
        let refused = shop.fails(&unsized_args("train", &with("64MiB")));
        assert!(refused.contains("memory = 64.0 MiB, but the run needs "), "{refused}");
        assert!(refused.contains("lower ") && (ranks == 1) != refused.contains("2 ranks"));
        let enough = refused.split("needs ").nth(1).unwrap().split(' ').next().unwrap();
        shop.ok(&unsized_args("train", &with(enough)));
        let less: u64 = enough.trim_end_matches("MiB").parse::<u64>().unwrap() - 1;
        shop.fails(&unsized_args("plan", &with(&format!("{less}MiB"))));
    }
}

#[test]
fn what_tiers_are_given_is_kept_and_the_rest_is_shared_out() {
    let shop = workshop();
    let open = ["--memory", "1GiB", "--data.eval_fraction", "0"];
    let shared = |more: &[&str]| {
        let plan = planned(&shop, &[&open[..], more].concat());
        assert!(plan["memory_bytes"].as_u64().unwrap() <= 1 << 30);
        let of = |key: &str| plan["shared_out"][key].as_u64().unwrap() / MIB;
        ["tiers.dram", "tiers.index", "tiers.harvest", "tiers.segment"].map(of)
    };
    let all = shared(&[]);
    assert!(all[0] > 200 && all[1] > 100 && all[2] > 10 && all[3] > 10, "{all:?}");
    let given = shared(&["--tiers.dram", "100MiB", "--tiers.segment", "8MiB"]);
    assert!(given[0] == 100 && given[1] > all[1] && given[3] == 8, "{given:?}");
    let given = shared(&["--tiers.index", "64MiB", "--tiers.harvest", "0"]);
    assert!(given[0] > all[0] && (given[1], given[2]) == (64, 0), "{given:?}");
    let page = shop.ok(&unsized_args("plan", &open));
    assert!(page.lines().any(|line| line.trim_start().starts_with("memory  ")), "{page}");
    let args = [&open[..], &["--tiers.dram", "2GiB"]].concat();
    let refused = shop.fails(&unsized_args("train", &args));
    assert!(refused.contains("'rows in memory'") && refused.ends_with("lower tiers.dram"));
    assert!(planned(&shop, &[])["shared_out"].is_null());
    // The sizes of the built-in example are not the user's choice.
    let example: Value =
        serde_json::from_str(&shop.ok(&["plan", "--json", "--memory", "8GiB"])).unwrap();
    assert!(example["shared_out"]["tiers.dram"].as_u64().unwrap() > 1 << 30, "{example}");
}

#[test]
fn memory_is_a_setting_of_files_and_may_change_when_a_run_goes_on() {
    let shop = workshop();
    std::fs::write(shop.path("run.toml"), "memory = '512MiB'\n[data]\nepochs = 2\n").unwrap();
    let train = |more: &[&str]| {
        let report = ["run.toml", "--report", "report.json"];
        shop.ok(&unsized_args("train", &[&report[..], more].concat()));
        shop.report("report.json")
    };
    let whole = train(&[]);
    assert_eq!(whole["config"]["memory"], 512 * MIB);
    train(&["--data.epochs", "1", "--checkpoint", "saved"]);
    let resumed = train(&["--checkpoint", "saved", "--resume", "--memory", "1GiB"]);
    assert_eq!(resumed["model_digest"], whole["model_digest"]);
    assert_eq!(resumed["config"]["memory"], 1u64 << 30);
    // The settings of a checkpoint are the base of a run that begins with its model.
    shop.examples("more.tsv", 500);
    let from = ["train", "--from", "saved", "--data", "more.tsv", "--memory", "600MiB"];
    shop.ok(&[&from[..], &["--report", "report.json"]].concat());
    assert_eq!(shop.report("report.json")["config"]["memory"], 600 * MIB);
}

#[test]
fn a_run_says_its_plan_in_one_line() {
    let shop = workshop();
    let said = shop.ok(&unsized_args("train", &[]));
    let lines: Vec<&str> = said.lines().filter(|line| line.contains("memory at most")).collect();
    assert_eq!(lines.len(), 1, "{said}");
    assert!(lines[0].starts_with("memory at most ") && lines[0].contains(": rows "), "{said}");
    // The plan has no more rows than the data needs: 2000 lines of 26 ids.
    let plan = planned(&shop, &[]);
    let rows = plan["memory"][0].clone();
    assert!(rows["bytes"].as_u64().unwrap() < 10 * MIB, "{rows}");
    assert!(rows["why"].as_str().unwrap().contains("52000 slots"), "{rows}");
    assert!(plan["memory_bytes"].as_u64().unwrap() < 640 * MIB, "{plan}");
}

#[test]
fn a_plan_may_be_for_a_larger_machine_and_says_what_disks_hold() {
    let shop = workshop();
    let large = ["--tiers.dram", "100TiB"];
    let page = shop.ok(&unsized_args("plan", &large));
    let note = page.lines().find(|line| line.starts_with("note: this machine would refuse"));
    assert!(note.unwrap().contains("this machine has "), "{page}");
    assert!(shop.fails(&unsized_args("train", &large)).contains("this machine has "));
    let disk = |more: &[&str]| {
        let plan = planned(&shop, more);
        let bounds = plan["disk"].as_array().unwrap().clone();
        bounds.iter().map(|bound| bound["bytes"].as_u64().unwrap()).collect::<Vec<u64>>()
    };
    // A row has 5 weights, 5 sums, and another 16 bytes on disk.
    let (rows, saves) = (100_000_000, ["--rows", "100000000", "--checkpoint", "saved"]);
    let of_rows = disk(&saves[..2]);
    assert!(of_rows.len() == 1 && (56 * rows..3 * 56 * rows).contains(&of_rows[0]), "{of_rows:?}");
    let kept = disk(&saves);
    assert!(kept[0] == of_rows[0] && (3 * 56 * rows..3 * kept[0]).contains(&kept[1]), "{kept:?}");
    let best = [&saves[..], &["--checkpoint.best", "auc"]].concat();
    assert_eq!(disk(&best)[1], kept[1] / 3 * 4);
    let notes = planned(&shop, &["--rows", "1000000000"])["notes"].to_string();
    assert!(notes.contains("tiers.index = 1.00 GiB, but the index of 1000000000 rows"), "{notes}");
    // The number of rows is bounded if lines are counted.
    assert!(disk(&[])[0] > 0);
    let page = shop.ok(&unsized_args("plan", &["--data.eval_fraction", "0"]));
    assert!(page.contains("give --rows N"), "{page}");
}

/// The index is planned for the expected rows, with their number in any notation.
#[test]
fn the_index_has_room_for_rows_that_are_expected() {
    let shop = workshop();
    let open = ["--memory", "1GiB", "--data.eval_fraction", "0"];
    let with = |more: &[&str]| planned(&shop, &[&open[..], more].concat());
    let (plain, many) = (with(&[]), with(&["--rows", "4.5e7"]));
    let of = |plan: &Value, key: &str| plan["shared_out"][key].as_u64().unwrap();
    let index = of(&many, "tiers.index");
    assert!(index > of(&plain, "tiers.index").max(45_000_000 * 9), "{many}");
    assert!(of(&many, "tiers.dram") < of(&plain, "tiers.dram"), "{many}");
    assert!(many["memory_bytes"].as_u64().unwrap() <= 1 << 30, "{many}");
    for rows in ["45M", "45_000_000", "0.045G"] {
        assert_eq!(with(&["--rows", rows]), many, "{rows}");
    }
    // A run with the setting in the note has the same plan.
    let notes = many["notes"].to_string();
    assert!(notes.contains(&format!("set tiers.index = {index} (")), "{notes}");
    let given = with(&["--tiers.index", &index.to_string()]);
    assert_eq!(given["shared_out"], many["shared_out"]);
    let refused = shop.fails(&unsized_args("plan", &["--rows", "2GiB"]));
    assert!(refused.contains("write a count, for example 2000000000, 2e9 or 2G"), "{refused}");
}

#[test]
fn a_plan_from_a_checkpoint_counts_its_rows_and_has_its_settings() {
    let shop = workshop();
    shop.ok(&unsized_args("train", &["--checkpoint", "saved"]));
    shop.examples("more.tsv", 500);
    let plan = |more: &[&str]| -> Value {
        let args = ["plan", "--data", "more.tsv", "--json", "--data.eval_fraction", "0.1"];
        let args = [&args[..], &["--threads", "1"]].concat();
        serde_json::from_str(&shop.ok(&[&args[..], more].concat())).unwrap()
    };
    let settings = ["--model.dim", "4", "--model.hidden", "8", "--data.mini_batch", "64"];
    let (from, anew) = (plan(&["--from", "saved"]), plan(&settings));
    let bytes = |plan: &Value, name: &str| -> u64 {
        let bounds = plan["memory"].as_array().unwrap().iter();
        bounds.filter(|of| of["name"] == name).map(|of| of["bytes"].as_u64().unwrap()).sum()
    };
    assert!(bytes(&from, "checkpoint") > 0 && bytes(&anew, "checkpoint") == 0);
    assert_eq!(bytes(&from, "training"), bytes(&anew, "training"), "the model is the same");
    let disk = |plan: &Value| plan["disk_bytes"].as_u64().unwrap();
    assert!(disk(&from) > disk(&anew), "{from} {anew}");
    let small = plan(&["--from", "saved", "--tiers.index", "128KiB"])["notes"].to_string();
    assert!(small.contains("tiers.index = 128.0 KiB, but the index of "), "{small}");
    let none = shop.fails(&["plan", "--from", "saved"]);
    assert!(none.contains("--from trains on other data, and none is given"), "{none}");
}

/// The note does not name a setting that the command lacks or that would have no effect.
#[test]
fn a_refusal_names_settings_that_help() {
    let shop = workshop();
    shop.ok(&unsized_args("train", &["--checkpoint", "saved"]));
    let open = ["--memory", "48MiB", "--data.eval_fraction", "0"];
    let wrong = ["synth.", "the data", "tiers.index", "tiers.segment"];
    for ranks in ["1", "2"] {
        let args = [&open[..], &["--ranks", ranks]].concat();
        for job in ["train", "plan"] {
            let refused = shop.fails(&unsized_args(job, &args));
            let lower = refused.split("; lower ").nth(1);
            let lower = lower.unwrap_or_else(|| refused.rsplit_once("lower ").unwrap().1);
            assert!(!wrong.iter().any(|wrong| lower.contains(wrong)), "{refused}");
        }
    }
    for job in ["eval", "predict"] {
        let args = [job, "saved", "--data", "data.tsv", "--memory", "24MiB", "-q"];
        let refused = shop.fails(&args);
        assert!(refused.contains("memory = 24.0 MiB, but the run needs "), "{refused}");
        let lower = refused.rsplit_once("lower ").unwrap().1;
        let of_training = ["mini_batch", "model.", "tiers.index", "rows."];
        assert!(!of_training.iter().any(|wrong| lower.contains(wrong)), "{refused}");
    }
}
