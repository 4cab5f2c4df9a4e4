//! Settings given in files, by flags and by `--set`.

use std::fs;

use serde_json::Value;
use stepwell_settings::{Config, SETTINGS};

use crate::common::{Workshop, args};

#[test]
fn lists_are_given_as_files_have_them_and_may_have_commas() {
    let shop = Workshop::new();
    let (plain, odd) = (shop.examples("a.tsv", 500), shop.path("b,c.tsv"));
    fs::copy(&plain, &odd).unwrap();
    let both = format!("data.paths=[{plain:?}, {odd:?}]");
    shop.ok(&args(&[], &["--set", &both]));
    let listed = shop.report("report.json");
    shop.ok(&args(&[&plain, odd.to_str().unwrap()], &[]));
    assert_eq!(shop.report("report.json")["model_digest"], listed["model_digest"]);
    assert_eq!(listed["examples"], 900);
    for wrong in ["['a.tsv', b]", "['a.tsv'", "[1, 2]"] {
        let error = shop.fails(&args(&[], &["--set", &format!("data.paths={wrong}")]));
        assert!(error.contains("write a list as a file has it"), "{error}");
    }
    assert!(shop.ok(&["config", "--set", "seed=0x10"]).contains("built-in stream [16]"));
}

#[test]
fn data_by_its_flag_and_by_its_key_train_one_model() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 500);
    let by_key = format!("data.paths={data}");
    let small = ["--set", "model.hidden=8", "--set", "tiers.index=8MiB"];
    let digest = |given: [&str; 2]| {
        shop.ok(&[&["train", "--report", "report.json"][..], &given, &small].concat());
        let report = shop.report("report.json");
        (report["model_digest"].clone(), report["config"].clone())
    };
    assert_eq!(digest(["--data", &data]), digest(["--set", &by_key]));
}

#[test]
fn every_setting_is_a_flag_by_its_key() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 300);
    let defaults = Config::default();
    for setting in SETTINGS {
        let value = match setting.get(&defaults) {
            Value::Null => setting.key.to_owned(),
            Value::String(text) if text.is_empty() => "other".to_owned(),
            Value::String(text) => text,
            Value::Array(parts) if parts.is_empty() => data.clone(),
            Value::Array(parts) => parts.iter().map(Value::to_string).collect::<Vec<_>>().join(","),
            other => other.to_string(),
        };
        for name in setting.names() {
            let flag = format!("--{name}");
            for args in [vec![flag.clone(), value.clone()], vec![format!("{flag}={value}")]] {
                let by_flag: Vec<&str> = args.iter().map(String::as_str).collect();
                let pair = format!("{name}={value}");
                let by_set = shop.run(&["config", "--toml", "--set", &pair]);
                let by_flag = shop.run(&[&["config", "--toml"][..], &by_flag].concat());
                let said = String::from_utf8_lossy(&by_flag.stderr);
                assert!(!said.contains("unexpected argument"), "{args:?}: {said}");
                assert_eq!(by_flag, by_set, "{args:?}");
            }
        }
    }
}

#[test]
fn the_built_in_stream_has_one_length_and_vocabulary() {
    let shop = Workshop::new();
    for command in ["train", "plan", "config", "synth", "convert"] {
        let by_key = !["synth", "convert"].contains(&command);
        let help = shop.ok(&[command, if by_key { "--help-all" } else { "--help" }]);
        let default_of = |flag: &str| {
            let at = help.find(flag).unwrap_or_else(|| panic!("{command}: {flag}"));
            let default = help[at..].split("[default: ").nth(1).unwrap();
            default.split(']').next().unwrap().parse::<f64>().unwrap()
        };
        assert_eq!(default_of(if by_key { "--synth.examples" } else { "--examples" }), 3e6);
        assert_eq!(default_of(if by_key { "--synth.vocab_scale" } else { "--vocab-scale" }), 40.0);
    }
    let example = shop.ok(&["plan"]);
    assert_eq!(example, shop.ok(&["plan", "--synth.examples=3000000", "--synth.vocab_scale=40"]));
    let listed = shop.ok(&["config", "--toml"]);
    assert!(listed.contains("examples = 3000000") && listed.contains("vocab_scale = 40"));
}

#[test]
fn of_a_setting_that_has_two_flags_the_last_counts() {
    let shop = Workshop::new();
    for (args, says) in [
        (["--model=lr", "--model.kind=dcn"], "kind = \"dcn\""),
        (["--model.kind=dcn", "--model=lr"], "kind = \"lr\""),
        (["--checkpoint=a", "--checkpoint.dir=b"], "dir = \"b\""),
        (["--checkpoint.dir=b", "--checkpoint=a"], "dir = \"a\""),
        (["--data=a", "--data.paths=b,c"], "paths = [\"b\", \"c\"]"),
        (["--data.paths=b,c", "--data=a"], "paths = [\"a\"]"),
        (["--skip-max=1", "--data.skip_max=2"], "skip_max = 2"),
        (["--data.skip_max=2", "--skip-max=1"], "skip_max = 1"),
    ] {
        let written = shop.ok(&[&["config", "--toml"][..], &args].concat());
        assert!(written.lines().any(|line| line == says), "{args:?}: {written}");
    }
    let data = shop.examples("data.tsv", 300);
    let by_key = format!("--data.paths={data}");
    shop.ok(&args(&[], &[&by_key, "--checkpoint.dir=saved", "--model.kind=lr"]));
    let scored = shop.ok(&["predict", "saved", "--data", &data, "--data.mini_batch", "32"]);
    assert_eq!(scored.lines().count(), 301);
    shop.ok(&["convert", &data, "--out=p", "--data.skip_max=1", "--data.preset=criteo"]);
}

#[test]
fn data_that_is_given_as_settings_is_told_how_it_is_given() {
    let shop = Workshop::new();
    shop.examples("data.tsv.zst", 100);
    shop.examples("data.tsv", 100);
    for file in ["data.tsv", "data.tsv.zst"] {
        let error = shop.fails(&["train", file]);
        assert!(error.ends_with(&format!("write --data {file}")), "{error}");
    }
    // An error in a settings file names the file, with any extension.
    fs::write(shop.path("run.conf"), "[data]\nepoch = 1\n").unwrap();
    let error = shop.fails(&["train", "run.conf"]);
    assert!(error.contains("run.conf:2") && !error.contains("--data"), "{error}");
}

#[test]
fn optimizers_take_all_of_their_settings_and_keep_them() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 1500);
    let digest = |more: &[&str]| {
        shop.ok(&args(&[&data], more));
        shop.report("report.json")["model_digest"].clone()
    };
    let usual = digest(&[]);
    // Giving the usual values does not change the model.
    assert_eq!(digest(&["--optim.rows.eps", "1e-10", "--optim.rows.initial", "0"]), usual);
    assert_eq!(digest(&["--optim.dense.beta1", "0.9", "--optim.dense.eps", "1e-8"]), usual);
    for (key, value) in [
        ("optim.rows.eps", "0.5"),
        ("optim.rows.initial", "0.1"),
        ("optim.dense.beta1", "0.5"),
        ("optim.dense.beta2", "0.9"),
        ("optim.dense.eps", "0.01"),
    ] {
        assert_ne!(digest(&[&format!("--{key}"), value]), usual, "{key}");
    }
    let initial = ["--optim.rows.initial", "0.1", "--checkpoint", "saved"];
    shop.ok(&args(&[&data], &initial));
    let saved = shop.ok(&["inspect", "saved", "--json"]);
    assert!(saved.contains("0.1"), "{saved}");
    let error = shop.fails(&args(&[&data], &["--checkpoint", "saved", "--resume"]));
    assert!(error.contains("optim.rows.initial = 0.1"), "{error}");
    for (key, value, part) in [
        ("optim.rows.eps", "0", "above 0"),
        ("optim.rows.eps", "1e-50", "above 0 (in f32"),
        ("optim.rows.initial", "-1", "from 0"),
        ("optim.dense.beta1", "1", "less than 1"),
        ("optim.dense.beta2", "0.99999999999", "less than 1"),
    ] {
        let error = shop.fails(&args(&[&data], &[&format!("--{key}"), value]));
        assert!(error.contains(key) && error.contains(part), "{error}");
    }
    let output = shop.run(&args(&[&data], &["--optim.rows.beta1", "0.5"]));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("optim.rows.beta1 has no effect, because only adam"), "{said}");
}

#[test]
fn settings_are_written_as_a_file_that_says_the_same() {
    let shop = Workshop::new();
    let data = shop.examples("odd, \"name\".tsv", 300);
    let given = [
        "--data",
        &data,
        "--model.hidden=",
        "--tiers.dram=3MiB",
        "--optim.rows.eps=1e-9",
        "--tables.a.lr=0.5",
        "--features.1.columns=C1,C3-C4",
        "--features.1.table=a",
        "--tiers.policy=sven",
    ];
    let written = shop.ok(&[&["config", "--toml"][..], &given].concat());
    fs::write(shop.path("run.toml"), &written).unwrap();
    assert_eq!(shop.ok(&["config", "--toml", "run.toml"]), written);
    assert!(written.contains("lr = 0.5") && written.contains("# cache =\n"), "{written}");
    assert!(written.lines().all(|line| line.len() <= 100 || line.starts_with("paths = ")));
    let report = |args: &[&str]| {
        shop.ok(&[&["train", "--report", "report.json", "--tiers.index=8MiB"][..], args].concat());
        let report = shop.report("report.json");
        (report["model_digest"].clone(), report["config"].clone())
    };
    assert_eq!(report(&given), report(&["run.toml"]));
    // `config` lists the resolved settings; without arguments, the defaults.
    let listed = shop.ok(&["config", "run.toml"]);
    assert!(listed.contains("[sven]") && listed.contains("tables.a.lr "), "{listed}");
    let defaults = shop.ok(&["config"]);
    assert!(defaults.contains("[s3-fifo]") && defaults.contains("tables.NAME.lr "));
    let whole = shop.ok(&["config", "--toml"]);
    fs::write(shop.path("all.toml"), whole).unwrap();
    assert_eq!(shop.ok(&["config", "all.toml"]), defaults);
    assert!(shop.fails(&["config", "none.toml"]).contains("none.toml"));
    assert!(shop.fails(&["config", "--model.dim=0"]).contains("model.dim"));
}

#[test]
fn flags_count_more_than_set_and_set_more_than_the_file() {
    let shop = Workshop::new();
    let (a, b) = (shop.examples("a.tsv", 300), shop.examples("b.tsv", 300));
    fs::write(shop.path("run.toml"), "[model]\nkind = \"dlrm\"\n").unwrap();
    let paths = format!("data.paths={b}");
    let set = ["--set", &paths, "--set", "model.kind=dcn", "--set", "checkpoint.dir=other"];
    let resolved = |more: &[&str]| -> Value {
        let args = [&["config", "run.toml", "--json"][..], &set, more].concat();
        serde_json::from_str(&shop.ok(&args)).unwrap()
    };
    let of = |found: &Value| {
        ["data.paths", "model.kind", "checkpoint.dir"].map(|key| found[key].clone())
    };
    let wanted = |path: &str, kind: &str, directory: &str| {
        [serde_json::json!([path]), kind.into(), directory.into()]
    };
    assert_eq!(of(&resolved(&[])), wanted(&b, "dcn", "other"));
    let flags = ["--data", &a, "--model", "lr", "--checkpoint", "own"];
    assert_eq!(of(&resolved(&flags)), wanted(&a, "lr", "own"));
    let keys = ["--data.paths", &a, "--model.kind", "lr", "--checkpoint.dir", "own"];
    assert_eq!(of(&resolved(&keys)), wanted(&a, "lr", "own"));
    shop.ok(&args(&[&a], &["--checkpoint", "saved"]));
    let (missing, kept) = ("data.eval_paths=none.tsv", "data.paths=none.tsv");
    shop.ok(&["eval", "saved", "--set", missing, "--set", kept, "--data", &b, "-q"]);
}

#[test]
fn names_that_people_type_are_those_of_settings() {
    let shop = Workshop::new();
    let typed = ["--epochs=2", "--batch-size=64", "--dim=4", "--lr=0.5", "--tiers.dram=2G"];
    let meant = [
        "--data.epochs=2",
        "--data.mini_batch=64",
        "--model.dim=4",
        "--optim.rows.lr=0.5",
        "--optim.dense.lr=0.5",
        "--tiers.dram=2GiB",
    ];
    let listed = |flags: &[&str]| shop.ok(&[&["config", "--toml"], flags].concat());
    assert_eq!(listed(&typed), listed(&meant));
    assert!(listed(&["--lr=0.5", "--optim.rows.lr=0.25"]).contains("lr = 0.25"));
}

#[test]
fn wrong_flags_are_told_in_one_line() {
    let shop = Workshop::new();
    for (args, says) in [
        (&["train", "--chekpoint", "x"][..], "unexpected argument '--chekpoint' found"),
        (&["train", "--resume=maybe"], "invalid value 'maybe' for '--resume[=<auto>]'"),
        (&["synth"], "the following required arguments were not provided: --out <FILE>"),
        (&["trian"], "unrecognized subcommand 'trian'"),
        (&["train", "--resume", "auto"], "write --resume=auto"),
        (&["train", "--evaluate-first"], "--evaluate-first needs --from CHECKPOINT"),
        (&["train", "--again"], "--again needs --from CHECKPOINT"),
        (&["train", "--repaired"], "--repaired needs --resume or --from CHECKPOINT"),
        (&["train", "--limits", "x"], "--limits needs --report FILE or --json"),
        (&["train", "--force", "--resume"], "cannot be used with"),
    ] {
        let said = shop.fails(args);
        assert!(said.starts_with("stepwell: ") && said.contains(says), "{said}");
        assert!(!said.contains("as a value"), "{said}");
        assert_eq!(shop.run(args).status.code(), Some(2));
    }
    let bare = shop.run(&[]);
    assert_eq!(bare.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&bare.stderr).contains("Usage:"));
}

/// Flags have one name; earlier names still work.
#[test]
fn former_names_of_flags_are_understood() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 300);
    fs::write(shop.path("run.toml"), "[model]\ndim = 4\n").unwrap();
    let train = ["train", "--config", "run.toml", "--data", &data, "--checkpoint", "saved"];
    shop.ok(&[&train[..], &["--tiers.index=8MiB"]].concat());
    for (command, name, former) in [
        (&["export", "saved"][..], "--out", "--to"),
        (&["store", "repair", "saved"], "--out", "--into"),
    ] {
        assert!(shop.ok(&[&command[..command.len() - 1], &["--help"]].concat()).contains(name));
        for flag in [name, former] {
            let output = shop.run(&[command, &[flag, "no/where.svg"]].concat());
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(said.starts_with("stepwell: ") && !said.contains("unexpected"), "{said}");
        }
    }
    let twice = ["train", "run.toml", "--config", "run.toml"];
    assert!(shop.fails(&twice).contains("cannot be used with"));
}

/// Policies that the product no longer has mean the default, on the command line and in files;
/// names are spelled with hyphens or underscores.
#[test]
fn removed_policies_mean_the_default_and_say_so() {
    let shop = Workshop::new();
    fs::write(shop.path("run.toml"), "[tiers]\npolicy = \"w_tinylfu\"\n").unwrap();
    let policy = |args: &[&str]| {
        let output = shop.run(&[&["config", "--json"], args].concat());
        let error = String::from_utf8(output.stderr).unwrap();
        let settings: Value = serde_json::from_slice(&output.stdout).unwrap();
        (settings["tiers.policy"].as_str().unwrap().to_owned(), error)
    };
    for (args, name) in [
        (&["--tiers.policy", "lru"][..], "lru"),
        (&["--set", "tiers.policy=w-tinylfu"], "w-tinylfu"),
        (&["run.toml"], "w_tinylfu"),
    ] {
        let (policy, error) = policy(&[args, &["--quiet"]].concat());
        assert_eq!(policy, "s3-fifo", "{args:?}");
        let note = format!("stepwell: warning: tiers.policy = {name}: this policy was removed");
        assert!(error.starts_with(&note) && error.lines().count() == 1, "{error}");
    }
    for (name, is) in [("s3_fifo", "s3-fifo"), ("lru_lfu", "lru-lfu"), ("sven", "sven")] {
        assert_eq!(policy(&["--tiers.policy", name]), (is.to_owned(), String::new()));
    }
    let error = shop.fails(&["config", "--tiers.policy", "fifo"]);
    assert!(error.contains("tiers.policy = fifo: give one of lru-lfu, s3-fifo, sven"), "{error}");
}

/// A file of all settings, as `config --toml` writes it, chooses none of them.
#[test]
fn defaults_that_a_file_repeats_need_no_notes() {
    let shop = Workshop::new();
    fs::write(shop.path("all.toml"), shop.ok(&["config", "--toml"])).unwrap();
    assert_eq!(shop.notes(&["plan", "all.toml", "--rows", "1000"]), "");
}
