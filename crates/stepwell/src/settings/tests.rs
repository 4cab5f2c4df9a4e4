use stepwell_base::ByteCount;

use super::*;

#[test]
fn every_setting_survives_its_own_text() {
    let mut config = Config::default();
    for (key, text) in [
        ("data.paths", "a.tsv, b*.tsv"),
        ("model.kind", "lr"),
        ("model.hidden", "64,32"),
        ("model.cross_layers", "2"),
        ("model.bottom", "32"),
        ("model.precision", "bf16"),
        ("tiers.dram", "64MiB"),
        ("tiers.ssd", "/tmp/x"),
        ("data.cache", "/tmp/y"),
        ("optim.rows.kind", "adam"),
        ("rows.storage", "bf16"),
        ("data.eval_fraction", "0.25"),
    ] {
        find(key).unwrap().set(&mut config, text).unwrap();
    }
    assert_eq!(config.tiers.dram, ByteCount(64 << 20));
    assert_eq!(from_json(&to_json(&config)).unwrap(), config);
}

#[test]
fn lists_of_widths_are_read_as_they_are_shown() {
    let mut config = Config::default();
    for (text, widths) in
        [("", &[][..]), ("[]", &[]), ("64", &[64]), ("64, 32", &[64, 32]), ("[64, 32]", &[64, 32])]
    {
        find("model.hidden").unwrap().set(&mut config, text).unwrap();
        assert_eq!(config.model.hidden, widths, "{text}");
    }
    config.data.paths = vec!["a,b.tsv".to_owned()];
    assert_eq!(from_json(&to_json(&config)).unwrap(), config);
}

#[test]
fn what_changes_nothing_is_told_where_it_was_chosen() {
    let mut config = Config::default();
    let chosen = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>();
    let keys = chosen(&["checkpoint.every", "seed", "synth.examples", "rows.sketch"]);
    let notes = idle_notes(&keys, &config);
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert_eq!(notes[0], "rows.sketch has no effect, because rows.admit_after is 1");
    assert!(notes[1].starts_with("checkpoint.every has no effect"), "{notes:?}");
    config.checkpoint.dir = Some("saved".into());
    config.life.admit_after = 2;
    config.data.paths = vec!["a.tsv".to_owned()];
    let notes = idle_notes(&keys, &config);
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].starts_with("synth.examples has no effect"), "{notes:?}");
    assert_eq!(idle_notes(&[], &config), [""; 0]);
}

#[test]
fn an_unknown_key_is_answered_with_the_likely_one() {
    let error = |key| find(key).err().unwrap();
    assert!(error("tiers.drm").contains("'tiers.dram'"), "{}", error("tiers.drm"));
    assert!(error("lookahead").contains("'pipeline.lookahead'"), "{}", error("lookahead"));
    assert!(error("optim.lr").contains("lr'"), "{}", error("optim.lr"));
    for nothing in ["", "foo", "1", "zzz.qq"] {
        assert!(!error(nothing).contains("did you mean"), "{}", error(nothing));
    }
}

/// What nobody means, for every setting alone, and the files that a run of it would read.
#[test]
fn absurd_values_end_in_one_line() {
    let values = [
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
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let mut wrong = Vec::new();
    for setting in SETTINGS {
        for value in values {
            let outcome = std::panic::catch_unwind(|| plan_with(setting, value));
            match outcome {
                Err(_) => wrong.push(format!("{} = {value:?}: panicked", setting.key)),
                Ok(Err(why)) if why.lines().count() != 1 => wrong.push(why),
                Ok(_) => {}
            }
        }
    }
    std::panic::set_hook(quiet);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn plan_with(setting: &Setting, value: &str) -> Result<(), String> {
    let mut config = Config::default();
    config.synth.examples = 1000;
    config.synth.vocab_scale = 0.1;
    config.tiers.dram = ByteCount(1 << 20);
    setting.set(&mut config, value)?;
    config.check()?;
    stepwell_train::plan(&config).map(|_| ()).map_err(|error| error.to_string())
}

#[test]
fn a_value_of_the_wrong_kind_names_its_key() {
    let mut config = Config::default();
    let mut error = |key: &str, text| find(key).unwrap().set(&mut config, text).unwrap_err();
    assert_eq!(error("data.epochs", "two"), "data.epochs = two: give a whole number");
    assert!(error("model.kind", "din").contains("lr, wide_deep, deepfm, dcn, dlrm"));
    assert!(error("tiers.dram", "lots").contains("64MiB"));
    let refused = error("rows.storage", "f8");
    assert_eq!(refused, "rows.storage = f8: give one of f32, f16, bf16");
    assert!(error("seed", "18446744073709551616").contains("up to 18446744073709551615"));
    assert!(error("model.hidden", "8,x").contains("for each layer"));
}
