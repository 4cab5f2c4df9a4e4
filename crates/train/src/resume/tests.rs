use serde_json::json;
use stepwell_nn::Precision;
use stepwell_settings::{FeatureConfig, ModelKind, look_up, to_json};

use super::*;

fn state(config: &Config) -> RunState {
    RunState {
        position: RunPosition::default(),
        files: Vec::new(),
        train_end: None,
        model: model_settings(config),
        config: to_json(config),
        kernels: String::new(),
        job: String::new(),
        earlier: Some(Vec::new()),
        began: None,
        waited: None,
        plateaus: FallenRates::default(),
    }
}

fn checkpoint() -> Checkpoint {
    Checkpoint {
        path: "saved".into(),
        step: 1,
        run: Value::Null,
        meta: json!({
            "key_hash": KEY_HASH_NAME,
            "initial_values": random::initializer_name(),
        }),
        dense: Default::default(),
        rows: Vec::new(),
        ended: false,
        lease: Default::default(),
    }
}

fn check(was: &RunState, now: &Config) -> std::result::Result<(), String> {
    was.check(&state(now), &checkpoint()).map_err(|error| error.to_string())
}

#[test]
fn a_setting_that_an_earlier_build_did_not_know_was_as_it_is_by_default() {
    let mut was = state(&Config::default());
    was.model.retain(|(key, _)| !key.starts_with("rows.") && key != "pipeline.staleness");
    assert_eq!(check(&was, &Config::default()), Ok(()));
    was.model.retain(|(key, _)| key != "model.precision");
    assert_eq!(check(&was, &Config::default()), Ok(()));
    let mut half = Config::default();
    half.model.precision = Precision::Bf16;
    let error = check(&was, &half).unwrap_err();
    assert!(error.contains("model.precision = f32, this run has bf16"), "{error}");
    let mut stale = Config::default();
    stale.pipeline.staleness = 1;
    let error = check(&was, &stale).unwrap_err();
    assert!(error.contains("pipeline.staleness = 0, this run has 1"), "{error}");
}

#[test]
fn how_data_is_read_is_kept() {
    let mut quoted = Config::default();
    (quoted.data.header, quoted.data.separator) = (Some(false), Some(";".to_owned()));
    let was = state(&quoted);
    let check = |now: &RunState| {
        was.check(now, &checkpoint()).map_err(|error| error.to_string()).err().unwrap_or_default()
    };
    assert_eq!(check(&state(&quoted)), "");
    let mut other = quoted.clone();
    other.data.header = None;
    assert!(check(&state(&other)).contains("data.header = false, this run has none"));
    other.data.header = Some(true);
    assert!(check(&state(&other)).contains("data.header = false, this run has true"));
    let mut other = quoted.clone();
    other.data.separator = Some(",".to_owned());
    assert!(check(&state(&other)).contains("data.separator = ;, this run has ,"));
    let mut other = quoted.clone();
    other.data.format = stepwell_data::Format::Csv;
    assert!(check(&state(&other)).contains("data.format = auto, this run has csv"));
    // A checkpoint that does not record how data is read.
    assert_eq!(check(&RunState { config: Value::Null, ..state(&quoted) }), "");
    // Jobs keep their identity.
    assert_eq!(was.model, state(&Config::default()).model);
}

#[test]
fn the_same_files_in_another_order_are_said_to_be_so() {
    let file = |name: &str| DataFile {
        name: name.to_owned(),
        bytes: 4,
        content: String::new(),
        path: String::new(),
        ends: String::new(),
        empty: false,
    };
    let was = RunState { files: vec![file("d10"), file("d2")], ..state(&Config::default()) };
    let now = RunState { files: vec![file("d2"), file("d10")], ..was.clone() };
    let error = was.check(&now, &checkpoint()).unwrap_err().to_string();
    assert!(error.contains("in another order, with 'd10' in the place of 'd2'"), "{error}");
}

#[test]
fn shapes_of_a_model_are_kept_and_those_of_others_do_not_count() {
    let config = |kind, cross_layers, bottom: &[usize]| {
        let mut config = Config::default();
        (config.model.kind, config.model.cross_layers) = (kind, cross_layers);
        config.model.bottom = bottom.to_vec();
        config
    };
    let was = state(&config(ModelKind::Dcn, 3, &[4]));
    let error = check(&was, &config(ModelKind::Dcn, 2, &[4])).unwrap_err();
    assert!(error.contains("model.cross_layers = 3, this run has 2"), "{error}");
    assert_eq!(check(&was, &config(ModelKind::Dcn, 3, &[5])), Ok(()));
    let was = state(&config(ModelKind::Dlrm, 3, &[4]));
    let error = check(&was, &config(ModelKind::Dlrm, 3, &[4, 2])).unwrap_err();
    assert!(error.contains("model.bottom = [4], this run has [4, 2]"), "{error}");
    assert_eq!(check(&was, &config(ModelKind::Dlrm, 2, &[4])), Ok(()));
}

#[test]
fn a_sketch_keeps_its_size_where_there_is_one() {
    let with = |admit_after, bytes| {
        let mut config = Config::default();
        config.rows.admit_after = admit_after;
        config.rows.sketch.0 = bytes;
        config
    };
    let was = state(&with(2, 4096));
    let error = check(&was, &with(2, 8192)).unwrap_err();
    assert!(error.contains("rows.sketch = 4096, this run has 8192"), "{error}");
    assert_eq!(check(&state(&with(1, 4096)), &with(1, 8192)), Ok(()));
    // An earlier build did not record the size of the sketch; the sketch itself then decides.
    let mut was = was;
    was.model.retain(|(key, _)| key != "rows.sketch");
    assert_eq!(check(&was, &with(2, 8192)), Ok(()));
}

#[test]
fn an_evaluation_may_read_other_data_but_no_other_model() {
    let was = state(&Config::default());
    let check = |now: &Config| {
        let checkpoint = checkpoint();
        was.check_model(now, &checkpoint).map_err(|error| error.to_string())
    };
    let mut now = Config::default();
    (now.data.mini_batch, now.synth.examples) = (64, 7);
    now.data.paths = vec!["other.tsv".to_owned()];
    assert_eq!(check(&now), Ok(()));
    now.pipeline.staleness = 9;
    let error = check(&now).unwrap_err();
    assert!(error.contains("trained with pipeline.staleness = 0"), "{error}");
    let mut now = Config::default();
    now.model.dim = 4;
    assert!(check(&now).unwrap_err().contains("model.dim = 16"));
}

#[test]
fn keys_and_initial_values_of_another_function_are_refused() {
    let was = state(&Config::default());
    for (field, name, what) in [
        ("key_hash", json!("xxh3-64(value bytes, seed = slot)"), "its keys were made by 'xxh3"),
        ("initial_values", json!("dice"), "its initial values were made by 'dice'"),
        ("key_hash", Value::Null, "by 'a function without a name'"),
    ] {
        let mut other = checkpoint();
        other.run = was.to_json();
        assert_eq!(RunState::read(&other).unwrap(), was);
        other.meta[field] = name;
        let error = RunState::read(&other).unwrap_err().to_string();
        assert!(error.contains(what) && error.contains("train from scratch"), "{error}");
    }
}

/// Every part differs from its default, so that none can be left out unseen.
#[test]
fn a_state_comes_back_whole() {
    let position = RunPosition {
        epoch: 1,
        file: 2,
        line: 3,
        step: 4,
        skipped: 5,
        skipped_earlier: u64::MAX,
        window: 6,
        taken: 7,
    };
    let file = |name: &str| DataFile {
        name: name.to_owned(),
        bytes: 7,
        content: "a".into(),
        path: String::new(),
        ends: String::new(),
        empty: false,
    };
    let whole = RunState {
        position,
        files: vec![file("a\tb \u{1F980}"), file("")],
        train_end: Some((u32::MAX, u64::MAX)),
        config: json!({ "optim": { "rows": { "lr": 0.1 } }, "none": null }),
        kernels: "avx2".to_owned(),
        job: "7".to_owned(),
        waited: Some(Waited {
            evaluated: 9,
            best: 4,
            by: Metric::Rmse,
            value: 0.1,
            evaluations: 2,
            patience: 3,
            data: u64::MAX,
        }),
        ..state(&Config::default())
    };
    let none = RunState { train_end: None, files: Vec::new(), waited: None, ..whole.clone() };
    for state in [whole, none] {
        let json = state.to_json();
        assert_eq!(serde_json::from_value::<RunState>(json.clone()).unwrap(), state);
        let text = json.to_string();
        assert_eq!(serde_json::from_str::<RunState>(&text).unwrap(), state);
        let nulls = json.as_object().unwrap().values().filter(|part| part.is_null()).count();
        let none = [state.train_end.is_none(), state.began.is_none(), state.waited.is_none()];
        assert_eq!(nulls, none.into_iter().filter(|none| *none).count(), "{text}");
    }
}

#[test]
fn data_that_was_changed_is_named() {
    let file = |name: &str, bytes, content: &str| DataFile {
        name: name.to_owned(),
        bytes,
        content: content.to_owned(),
        path: String::new(),
        ends: String::new(),
        empty: false,
    };
    let with = |files: &[DataFile]| RunState { files: files.to_vec(), ..state(&Config::default()) };
    let was = with(&[file("a.tsv", 7, "1"), file("b.tsv", 8, "2")]);
    let error = |now: &[DataFile]| was.check(&with(now), &checkpoint()).unwrap_err().to_string();
    assert!(was.check(&was.clone(), &checkpoint()).is_ok());
    let found = error(&[file("a.tsv", 7, "1"), file("b.tsv", 8, "3")]);
    assert!(found.contains("'b.tsv', which was changed since: it has other content"), "{found}");
    let found = error(&[file("a.tsv", 9, "1"), file("b.tsv", 8, "2")]);
    assert!(found.contains("it has 9 bytes, not 7"), "{found}");
    let found = error(&[file("b.tsv", 8, "2"), file("a.tsv", 7, "1")]);
    assert!(found.contains("the same files in another order"), "{found}");
}

#[test]
fn what_differs_is_named_and_so_is_what_is_no_more() {
    let was = state(&Config { seed: 7, ..Config::default() });
    let error = check(&was, &Config::default()).unwrap_err();
    assert!(error.contains("seed = 7, this run has 1"), "{error}");
    let mut was = state(&Config::default());
    was.model.push(("model.beauty".to_owned(), "much".to_owned()));
    let error = check(&was, &Config::default()).unwrap_err();
    assert!(error.contains("model.beauty = much"), "{error}");
}

/// The settings with these values.
fn given(pairs: &[&str]) -> Config {
    let mut config = Config::default();
    for pair in pairs {
        let (key, value) = pair.split_once('=').unwrap_or_default();
        look_up(key).and_then(|found| found.set(&mut config, value)).expect(pair);
    }
    config
}

#[test]
fn settings_without_effect_do_not_count() {
    let fm = "model.kind=fm";
    let two = ["optim.rows.kind=adam", "tables.embedding.optimizer=adagrad"];
    for (was, now) in [
        (&[][..], &["optim.rows.momentum=0.9"][..]),
        (&[], &["optim.rows.eps=1e-10", "optim.dense.beta1=0.9", "optim.dense.eps=1e-8"]),
        (&[], &["optim.rows.l2=0", "optim.dense.schedule=constant"]),
        (&[], &["optim.dense.decay_steps=9", "model.experts=9"]),
        (&[fm], &[fm, "model.hidden=8", "model.dropout=0.5"]),
        (&["model.kind=lr"], &["model.kind=lr", "model.dim=3", "model.init_range=1"]),
        (&["rows.expire_after=9"], &["rows.expire_after=9", "rows.history=true"]),
        (&["optim.rows.kind=frozen"], &["optim.rows.kind=frozen", "optim.rows.l1=1"]),
        (&two[..1], &[two[0], "optim.rows.beta1=0.9"]),
        // No table has rows with adam.
        (&two, &[two[0], two[1], "optim.rows.beta1=0.5"]),
    ] {
        for (was, now) in [(was, now), (now, was)] {
            let (was, now) = (state(&given(was)), given(now));
            assert_eq!(check(&was, &now), Ok(()), "{was:?}");
            assert!(was.check_model(&now, &checkpoint()).is_ok(), "{was:?}");
        }
    }
    for (was, now, says) in [
        (&[][..], &["optim.rows.eps=1e-9"][..], "optim.rows.eps = none, this run has 0.000000001"),
        (&["optim.rows.l2=0.1"], &["optim.rows.l2=0"], "optim.rows.l2 = 0.1"),
        (&[fm, "model.hidden=8"], &["model.hidden=9"], "model.kind = fm"),
        (&two[..], &two[..1], "tables.embedding"),
        (&two[..1], &[two[0], "optim.rows.beta1=0.5"], "optim.rows.beta1 = none"),
        (&["optim.dense.ema=0.9"], &[], "optim.dense.ema = 0.9"),
        // It has no effect in only one of both.
        (&["data.eval_fraction=0.2"], &["data.eval_paths=a.tsv"], "data.eval_fraction = 0.2"),
    ] {
        let error = check(&state(&given(was)), &given(now)).unwrap_err();
        assert!(error.contains(says), "{says}: {error}");
    }
}

#[test]
fn tables_and_features_that_were_not_there_make_another_model() {
    let features = vec![FeatureConfig { columns: vec!["C1".into()], ..FeatureConfig::default() }];
    let named = Config { features, ..Config::default() };
    let error = check(&state(&Config::default()), &named).unwrap_err();
    assert!(error.contains("tables.embedding.dim = none, this run has 16"), "{error}");
    let error = check(&state(&named), &Config::default()).unwrap_err();
    assert!(error.contains("this run has none; a resumed run must keep it"), "{error}");
    assert_eq!(check(&state(&named), &named), Ok(()));
}
