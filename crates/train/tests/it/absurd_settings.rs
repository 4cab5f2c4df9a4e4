//! Plans of absurd settings, and of the greatest allowed ones: they end in a plan or in one line.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use std::panic::{AssertUnwindSafe, catch_unwind};

use stepwell_base::ByteCount;
use stepwell_settings::{Config, SETTINGS, Setting, find};

/// Absurd values, for every setting alone, and the files that such a run would read.
const ABSURD: [&str; 29] = [
    "0",
    "1",
    "2",
    "255",
    "65536",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "18446744073709551616",
    "-1",
    "-0",
    "1e308",
    "-1e308",
    "1e-320",
    "nan",
    "inf",
    "-inf",
    "",
    ",",
    "[",
    "1,",
    "0,0",
    "18446744073709551615,1",
    "true",
    "1EiB",
    "16384PiB",
    "0.5",
    "\u{0}",
];

/// Describes a wrong end of a plan: a panic, or more than one line.
fn wrong_end(config: &Config) -> Option<String> {
    let plan = || {
        config.check()?;
        stepwell_train::plan(config, &stepwell_train::Expected::default())
            .map(|_| ())
            .map_err(|error| error.to_string())
    };
    match catch_unwind(AssertUnwindSafe(plan)) {
        Err(_) => Some("panicked".to_owned()),
        Ok(Err(why)) if why.lines().count() != 1 => Some(why),
        Ok(_) => None,
    }
}

fn small() -> Config {
    let mut config = Config::default();
    config.synth.examples = 1000;
    config.synth.vocab_scale = 0.1;
    config.tiers.dram = Some(ByteCount(1 << 20));
    config
}

#[test]
fn absurd_values_end_in_one_line() {
    let mut wrong = Vec::new();
    for setting in SETTINGS {
        for value in ABSURD {
            let mut config = small();
            let end = setting.set(&mut config, value).map(|()| wrong_end(&config));
            let end = end.unwrap_or_else(|why| (why.lines().count() != 1).then_some(why));
            wrong.extend(end.map(|end| format!("{} = {value:?}: {end}", setting.key)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Whether a setting accepts this text, the others being unchanged.
fn takes(setting: &Setting, text: &str) -> bool {
    let mut config = Config::default();
    setting.set(&mut config, text).and_then(|()| setting.check_alone(&config)).is_ok()
}

/// The greatest number that `takes` accepts, if it accepts all numbers below except the least.
fn greatest(takes: impl Fn(u64) -> bool) -> Option<u64> {
    let mut yes = (0..=1).find(|number| takes(*number))?;
    for bit in (0..64).rev() {
        let more = yes | 1 << bit;
        yes = if takes(more) { more } else { yes };
    }
    Some(yes)
}

/// The most layers that a setting accepts, or more than anyone would type.
fn widest(setting: &Setting) -> String {
    let layers = |count: u64| vec!["65536"; count as usize].join(",");
    let most = greatest(|count| count <= 2048 && takes(setting, &layers(count)));
    layers(most.unwrap())
}

/// Greatest values of a setting; all values of a setting that is a name.
fn extremes(setting: &Setting) -> Vec<String> {
    // The search starts at 1e-30, or at the default if a minimum excludes that.
    let begins = || {
        let default = setting.get(&Config::default()).as_f64();
        let mut least = [Some(1e-30), default].into_iter().flatten();
        least.find(|number| takes(setting, &number.to_string())).unwrap()
    };
    // Positive numbers are ordered like their bits.
    let number =
        |bits: u64| format!("{:?}", f64::from_bits(begins().to_bits().saturating_add(bits)));
    match setting.what().as_str() {
        "whole number" | "bytes" => {
            vec![greatest(|number| takes(setting, &number.to_string())).unwrap().to_string()]
        }
        "number" => vec![number(greatest(|bits| takes(setting, &number(bits))).unwrap())],
        "list of widths" => vec![widest(setting)],
        "true or false" => vec!["true".to_owned()],
        "name" => names(setting),
        // A place for checkpoints adds to a plan; the others are files, which do not exist.
        _ if setting.key == "checkpoint.dir" => vec![place()],
        _ => Vec::new(),
    }
}

fn names(setting: &Setting) -> Vec<String> {
    let refusal = setting.set(&mut Config::default(), "?").unwrap_err();
    let (_, names) = refusal.split_once("give one of ").unwrap();
    names.split(", ").map(str::to_owned).collect()
}

/// A directory that does not exist.
fn place() -> String {
    std::env::temp_dir().join("stepwell-no-such-place").display().to_string()
}

/// Configurations whose plans depend on different parts.
fn grounds() -> Vec<Config> {
    let with = |pairs: &[(&str, &str)]| {
        let mut config = small();
        for (key, text) in pairs {
            find(key).unwrap().set(&mut config, text).unwrap();
        }
        config
    };
    let place = place();
    vec![
        small(),
        with(&[("model.kind", "dcn"), ("pipeline.lookahead", "0"), ("pipeline.horizon", "0")]),
        with(&[("model.kind", "dlrm"), ("checkpoint.dir", &place), ("rows.admit_after", "2")]),
        with(&[("model.kind", "wide_deep"), ("checkpoint.dir", &place), ("rows.history", "true")]),
    ]
}

#[test]
fn the_greatest_of_each_setting_ends_in_a_plan_or_one_line() {
    let (mut tried, mut wrong) = (0, Vec::new());
    for setting in SETTINGS {
        for value in extremes(setting) {
            for (number, mut config) in grounds().into_iter().enumerate() {
                setting.set(&mut config, &value).unwrap();
                let value = &value[..value.len().min(40)];
                let what = |end| format!("{} = {value} on ground {number}: {end}", setting.key);
                wrong.extend(wrong_end(&config).map(what));
                tried += 1;
            }
        }
    }
    assert!(wrong.is_empty() && tried > 200, "{tried} tried\n{}", wrong.join("\n"));
}

/// The greatest values of all settings at once, with smaller ones where settings limit each other.
#[test]
fn the_greatest_of_all_settings_end_in_one_line() {
    let mut all = Config::default();
    for setting in SETTINGS {
        if let Some(value) = extremes(setting).last() {
            setting.set(&mut all, value).unwrap();
        }
    }
    // Many batches ahead, one batch as large as possible, and few but large blocks.
    let lesser: [&[(&str, &str)]; 4] = [
        &[],
        &[("pipeline.horizon", "16383"), ("pipeline.lookahead", "16383"), ("data.batch", "0")],
        &[("pipeline.horizon", "0"), ("pipeline.lookahead", "0")],
        &[("pipeline.horizon", "0"), ("pipeline.lookahead", "0"), ("train.blocks", "1")],
    ];
    let batch = (all.data.mini_batch as u64 * 16_384).to_string();
    for kind in names(find("model.kind").unwrap()) {
        for pairs in lesser {
            for tiers in [&all.tiers, &Config::default().tiers] {
                let mut config = Config { tiers: tiers.clone(), ..all.clone() };
                let both = [
                    ("model.kind", &*kind),
                    ("rows.admit_probability", "1"),
                    ("data.batch", &batch),
                ];
                for (key, value) in both.iter().chain(pairs) {
                    find(key).unwrap().set(&mut config, value).unwrap();
                }
                let what = format!("{kind} with {pairs:?}");
                assert_eq!(wrong_end(&config), None, "{what}");
                let taken = config.check().is_ok()
                    && stepwell_train::plan(&config, &stepwell_train::Expected::default()).is_ok();
                assert!(!taken, "{what}: no machine has so much");
            }
        }
    }
}
