use stepwell_base::ByteCount;
use stepwell_nn::Precision;
use stepwell_optim::Storage;

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
    assert_eq!(config.tiers.dram, Some(ByteCount(64 << 20)));
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
    config.rows.admit_after = 2;
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

#[test]
fn a_value_of_the_wrong_kind_names_its_key() {
    let mut config = Config::default();
    let mut error = |key: &str, text| find(key).unwrap().set(&mut config, text).unwrap_err();
    assert_eq!(error("data.epochs", "two"), "data.epochs = two: give a whole number");
    let kinds = "lr, fm, wide_deep, deepfm, dcn, dcn_v1, dlrm, final_mlp, mask_net, mmoe, ple, \
                 din, two_tower, graph";
    assert!(error("model.kind", "dinn").contains(kinds));
    assert!(error("tiers.dram", "lots").contains("64MiB"));
    let refused = error("rows.storage", "f8");
    assert_eq!(refused, "rows.storage = f8: give one of f32, f16, bf16");
    assert!(error("seed", "18446744073709551616").contains("up to 18446744073709551615"));
    assert!(error("model.hidden", "8,x").contains("for each layer"));
}

#[test]
fn a_short_name_means_the_same_and_is_the_one_that_errors_name() {
    let mut config = Config::default();
    for (name, text) in [("ranks", "3"), ("ranks.count", "4")] {
        let found = look_up(name).unwrap();
        found.set(&mut config, text).unwrap();
        assert_eq!((found.key(), config.ranks.count.to_string()), (name.into(), text.into()));
        assert_eq!(found.set(&mut config, "x"), Err(format!("{name} = x: give a whole number")));
        found.set(&mut config, "0").unwrap();
        assert_eq!(found.check_alone(&config), Err(format!("{name} is 0: give 1 to 256")));
    }
    // As in old reports, before there were other names.
    let old = from_json(&serde_json::json!({ "ranks": 5 })).unwrap();
    assert_eq!(old.ranks.count, 5);
    config.ranks.count = 9;
    assert!(config.check_ranks("ranks").unwrap_err().starts_with("ranks = 9 and train.blocks"));
    for setting in SETTINGS {
        let said = |name| setting.help.starts_with(&format!("`{name}` for short: "));
        assert!(setting.short.is_none_or(said), "{}: the help says it", setting.key);
    }
    let names: Vec<_> = SETTINGS.iter().flat_map(Setting::names).collect();
    assert!(names.iter().all(|name| names.iter().filter(|of| of == &name).count() == 1));
}

/// Digests of these lists identify jobs, so nothing in them may ever change.
#[test]
fn what_makes_a_model_is_said_as_it_always_was() {
    let said = |config: &Config| {
        let pairs = model_settings(config).into_iter();
        pairs.map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        said(&Config::default()),
        "seed=1 data.mini_batch=4096 data.eval_fraction=0.1 model.kind=DeepFm model.dim=16 \
         model.hidden=[512, 256, 128] model.init_range=0.01 model.precision=f32 \
         train.blocks=8 pipeline.staleness=0 rows.admit_after=1 rows.admit_probability=1 \
         rows.expire_after=0 rows.history=false rows.storage=f32 optim.rows.kind=Adagrad \
         optim.rows.lr=0.02 optim.dense.kind=Adam optim.dense.lr=0.001 \
         synth.examples=3000000 synth.vocab_scale=40"
    );
    let mut config = Config::default();
    config.data.paths = vec!["a.tsv".to_owned()];
    (config.model.kind, config.model.cross_layers) = (ModelKind::Dcn, 5);
    (config.model.hidden, config.model.precision) = (Vec::new(), Precision::Bf16);
    (config.rows.admit_after, config.rows.sketch.0) = (2, 4096);
    (config.rows.storage, config.optim.rows.lr) = (Storage::F16, Some(1e-7));
    config.optim.dense.kind = OptimizerKind::Sgd;
    assert_eq!(
        said(&config),
        "seed=1 data.mini_batch=4096 data.eval_fraction=0.1 model.kind=Dcn model.dim=16 \
         model.hidden=[] model.init_range=0.01 model.precision=bf16 train.blocks=8 \
         pipeline.staleness=0 rows.admit_after=2 rows.admit_probability=1 \
         rows.expire_after=0 rows.history=false rows.storage=f16 optim.rows.kind=Adagrad \
         optim.rows.lr=0.0000001 optim.dense.kind=Sgd optim.dense.lr=0.001 \
         model.cross_layers=5 rows.sketch=4096"
    );
    config.data.paths = Vec::new();
    config.model.kind = ModelKind::Dlrm;
    let said = said(&config);
    let end = " model.bottom=[512, 256] rows.sketch=4096 synth.examples=3000000 \
               synth.vocab_scale=40";
    assert!(said.contains("model.kind=Dlrm") && said.ends_with(end), "{said}");
    for (kind, name) in [(ModelKind::Lr, "Lr"), (ModelKind::WideDeep, "WideDeep")] {
        config.model.kind = kind;
        let found = model_settings(&config)[3].clone();
        assert_eq!(found, ("model.kind".to_owned(), name.to_owned()));
    }
}

#[test]
fn every_default_stands_in_the_table() {
    let mut config = Config::default();
    for setting in SETTINGS {
        let names = [
            "sgd",
            "lr",
            "bf16",
            "sven",
            "working_set",
            "logloss",
            "rna",
            "async",
            "adult",
            "csv",
            "false",
            "host",
            "device",
            "table",
            "cosine",
        ];
        for text in ["5", "0.3", "true", "9,8"].into_iter().chain(names).chain(["elsewhere"]) {
            let mut other = config.clone();
            if setting.set(&mut other, text).is_ok() && other != config {
                config = other;
                break;
            }
        }
        let (was, is) = (setting.get(&Config::default()), setting.get(&config));
        assert_ne!(was, is, "{}", setting.key);
    }
    SETTINGS.iter().for_each(|setting| (setting.begin)(&mut config));
    assert_eq!(config, Config::default());
}

#[test]
fn what_is_wrong_alone_is_answered_with_the_mend() {
    let many = vec!["8"; 257].join(",");
    for (key, text, answer) in [
        ("threads", "1025", "threads is 1025: give 1 to 1024"),
        ("ranks.timeout", "0.9", "ranks.timeout is 0.9: give 1 to 86400"),
        ("ranks.timeout", "inf", "ranks.timeout is inf: give 1 to 86400"),
        ("data.epochs", "0", "data.epochs is 0: give at least 1"),
        ("data.mini_batch", "4194305", "data.mini_batch is 4194305: give at most 4194304"),
        (
            "data.eval_fraction",
            "1",
            "data.eval_fraction is 1: give a share from 0 up to, not including, 1",
        ),
        (
            "synth.vocab_scale",
            "100001",
            "synth.vocab_scale is 100001: give more than 0 and at most 100000",
        ),
        ("model.dim", "0", "model.dim is 0: give at least 1"),
        ("model.hidden", "8,0", "model.hidden is [8, 0]: give each layer 1 to 65536"),
        ("model.hidden", &many, "model.hidden has 257 layers: give at most 256"),
        ("model.bottom", "", "model.bottom is []: give one width or more, each 1 to 65536"),
        ("model.bottom", &many, "model.bottom has 257 layers: give at most 256"),
        ("model.init_range", "-1", "model.init_range is -1: give a number from 0 to 1000"),
        (
            "pipeline.lookahead",
            "16384",
            "pipeline.lookahead is 16384: give less than 16384, as for pipeline.horizon",
        ),
        ("pipeline.staleness", "1025", "pipeline.staleness is 1025: give at most 1024"),
        ("rows.admit_after", "0", "rows.admit_after is 0: give 1 to 255"),
        (
            "rows.admit_probability",
            "1.5",
            "rows.admit_probability is 1.5: give more than 0 and at most 1",
        ),
        (
            "optim.rows.lr",
            "1e-50",
            "optim.rows.lr is 1e-50: give a number above 0 (in f32, at least 1e-45) and at most \
             1000000",
        ),
        (
            "checkpoint.minutes",
            "-1",
            "checkpoint.minutes is -1: give a number from 0 (off) to 527040",
        ),
    ] {
        let mut config = Config::default();
        find(key).unwrap().set(&mut config, text).unwrap();
        assert_eq!(config.check(), Err(answer.to_owned()));
    }
}

#[test]
fn ways_to_agree_that_do_not_go_together_are_refused_with_the_mend() {
    let given = |pairs: &[(&str, &str)]| {
        let mut config = Config::default();
        for (key, text) in [&[("ranks", "4"), ("device", "host")], pairs].concat() {
            look_up(key).unwrap().set(&mut config, text).unwrap();
        }
        config.check_ranks("ranks").err().unwrap_or_default()
    };
    assert_eq!(given(&[("sync.dense", "rna"), ("sync.rows", "bounded")]), "");
    assert_eq!(given(&[("sync.rows", "async")]), "");
    assert_eq!(given(&[("sync.dense", "geeps"), ("sync.rows", "async")]), "");
    for (pairs, why) in [
        (&[("sync.dense", "rna")][..], "give sync.rows = bounded or async, or sync.dense = bsp"),
        (&[("sync.dense", "geeps")], "sync.dense = geeps and sync.rows = exact"),
        (&[("sync.rows", "async"), ("pipeline.staleness", "1")], "give pipeline.staleness = 0"),
        (&[("sync.rows", "async"), ("train.dense", "device")], "give train.dense = host"),
        (&[("sync.rows", "async"), ("device", "emulated:1")], "give device = host"),
        (&[("sync.rows", "async"), ("ranks.exchange", "working_set")], "exchange = owner"),
        (
            &[("sync.rows", "async"), ("optim.rows.schedule", "plateau")],
            "optim.rows.schedule = plateau",
        ),
        (
            &[("sync.rows", "async"), ("optim.dense.schedule", "plateau")],
            "optim.dense.schedule = plateau",
        ),
        (&[("sync.rows", "async"), ("optim.dense.ema", "0.9")], "give no optim.dense.ema"),
        (&[("sync.rows", "async"), ("model.batch_norm", "true")], "give model.batch_norm = false"),
        (&[("sync.rows", "async"), ("model.kind", "two_tower")], "give model.log_q = false"),
        (
            &[
                ("model.kind", "graph"),
                ("model.layers.1.name", "a"),
                ("model.layers.1.kind", "dice"),
                ("model.layers.1.inputs", "input"),
                ("sync.rows", "async"),
            ],
            "model.layers.1.kind = dice: the statistics of all ranks are summed in each step; give \
             layers without dice",
        ),
    ] {
        assert!(given(pairs).contains(why), "{}", given(pairs));
    }
    // A server computes no gradients and needs no block.
    let blocks = [("train.blocks", "3"), ("sync.rows", "bounded")];
    assert!(given(&blocks).contains("at most 3 ranks"));
    assert_eq!(given(&[&blocks[..], &[("sync.dense", "rdma_wild")]].concat()), "");
}

#[test]
fn removed_policies_are_read_as_the_default() {
    let read = |text: &str| {
        let mut config = Config::default();
        config.tiers.policy = stepwell_mem::PolicyKind::Sven;
        find("tiers.policy").unwrap().set(&mut config, text).map(|()| config.tiers.policy.name())
    };
    for name in ["lru", "lfu", "sieve", "w-tinylfu", "w_tinylfu"] {
        assert_eq!(read(name), Ok("s3-fifo"), "{name}");
        assert!(removed_value("tiers.policy", name).is_some(), "{name}");
    }
    for name in ["lru_lfu", "lru-lfu"] {
        assert_eq!(read(name), Ok("lru-lfu"));
        assert_eq!(removed_value("tiers.policy", name), None);
    }
    assert!(read("fifo").is_err());
}
