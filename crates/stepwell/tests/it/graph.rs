//! `model.kind = graph`: a model's list of layers, printed, drawn, trained and refused.

use std::fs;

use serde_json::Value;

use crate::common::{TINY, Workshop, args};

const KIND: [&str; 2] = ["--model.kind=dcn", "--model.cross_layers=2"];

/// The printed layers of a model train the same bits, through tiny tiers, and one layer more makes
/// another model.
#[test]
fn printed_layers_are_the_model() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 1000);
    shop.ok(&args(&[&data], &[&TINY[..], &KIND, &["--checkpoint=dcn"]].concat()));
    let sizes = ["config", "--model.dim=4", "--model.hidden=16,8", "--graph"];
    let layers = shop.ok(&[&sizes[..], &KIND, &["--svg=dcn.svg"]].concat());
    let text = format!("{layers}dim = 4\nhidden = [9]\n");
    fs::write(shop.path("graph.toml"), &text).unwrap();
    let trained = |checkpoint: &str, more: &[&str]| {
        let mut words = vec!["train", "graph.toml", "--data", &data, "--data.mini_batch=64"];
        words.extend(TINY);
        words.extend(["--checkpoint", checkpoint]);
        words.extend(more);
        shop.said(&words);
    };
    trained("graph", &[]);
    let diff = shop.run(&["diff", "dcn", "graph"]);
    assert_eq!(diff.status.code(), Some(0), "{}", String::from_utf8_lossy(&diff.stdout));
    let svg = fs::read_to_string(shop.path("dcn.svg")).unwrap();
    roxmltree::Document::parse(&svg).unwrap();
    assert!(["cross2", "mlp2", "logit", "input"].iter().all(|name| svg.contains(name)), "{svg}");
    // The layers are in the checkpoint, and a resumed run must keep them.
    let resumed = |more: &[&str]| {
        let words = ["train", "graph.toml", "--data", &data, "--data.mini_batch=64"];
        shop.fails(&[&words[..], &["--checkpoint=graph", "--resume"], more].concat())
    };
    let other = resumed(&["--model.layers.3.width=15"]);
    assert!(other.contains("model.layers.3.width"), "{other}");
    // An additional layer is refused, too.
    let more = resumed(&[
        "--model.layers.7.name=again",
        "--model.layers.7.inputs=logit",
        "--model.layers.7.width=1",
    ]);
    assert!(more.contains("model.layers.7.name = none, this run has again"), "{more}");
    // Another kind of model goes on from it.
    shop.ok(&args(&[&data], &["--model=lr", "--from=graph", "--checkpoint=lr"]));
    // A new top learns on from the old layers.
    trained("wider", &["--from=graph", "--model.layers.4.width=9"]);
    let diff = shop.run(&["diff", "dcn", "wider"]);
    assert_ne!(diff.status.code(), Some(0));
}

/// A model with learning rates of its own keeps them as layers, and may name them when it resumes.
#[test]
fn layers_keep_the_rates_of_their_model() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 1000);
    let run = ["--data", &data, "--data.mini_batch=64", "-q"];
    shop.ok(&[&["train", "--model=fm", "--checkpoint=fm"], &run[..]].concat());
    let layers = shop.ok(&["config", "--model=fm", "--graph"]);
    assert!(
        layers.starts_with("[optim.rows]\nlr = 0.0192\n\n[optim.dense]\nlr = 0.005\n\n[model]")
    );
    fs::write(shop.path("graph.toml"), layers).unwrap();
    shop.ok(&[&["train", "graph.toml", "--checkpoint=graph"], &run[..]].concat());
    shop.ok(&["diff", "fm", "graph"]);
    let resumed = ["train", "--model=fm", "--checkpoint=fm", "--resume", "--data.epochs=2"];
    let other = shop.fails(&[&resumed, &run[..], &["--optim.rows.lr=0.02"]].concat());
    assert!(other.contains("optim.rows.lr = 0.0192, this run has 0.02"), "{other}");
    shop.ok(&[&resumed, &run[..], &["--optim.rows.lr=0.0192", "--optim.dense.lr=0.005"]].concat());
}

#[test]
fn all_settings_with_layers_are_a_settings_file_and_json() {
    let shop = Workshop::new();
    let whole = shop.ok(&["config", "--model=lr", "--graph", "--toml"]);
    fs::write(shop.path("lr.toml"), &whole).unwrap();
    assert_eq!(shop.ok(&["config", "lr.toml", "--toml"]), whole);
    let json: Value =
        serde_json::from_str(&shop.ok(&["config", "lr.toml", "--json", "--graph"])).unwrap();
    assert_eq!(json["model.kind"], "graph");
    assert_eq!(json["model.layers.2.inputs"], serde_json::json!(["first_order", "linear"]));
    let listed = shop.ok(&["config", "lr.toml"]);
    assert!(listed.contains("model.layers.1.zero") && listed.contains("[true]"), "{listed}");
}

#[test]
fn wrong_layers_are_refused_with_their_line() {
    let shop = Workshop::new();
    let said = |text: &str| {
        fs::write(shop.path("run.toml"), format!("[model]\nkind = \"graph\"\n{text}\n")).unwrap();
        shop.fails(&["train", "run.toml", "--synth"])
    };
    for (text, says) in [
        ("", "model.kind = graph, but it has no layers: give model.layers"),
        ("layers = 3", "run.toml:3: model.layers: write layers = [{"),
        ("layers = [3]", "run.toml:3: model.layers: write layers = [{"),
        (
            "layers = [\n{ name = \"a\", kind = \"conv\" },\n]",
            "run.toml:4: model.layers.1.kind = conv: give one of linear, activate,",
        ),
        (
            "[[model.layers]]\nname = \"a\"\nwidht = 3",
            "run.toml:5: unknown key 'model.layers.1.widht'; did you mean 'model.layers.1.width'?",
        ),
        (
            "layers = [{ name = \"a\", kind = \"linear\", inputs = [\"inputs\"], width = 1 }]",
            "layer 'a' has the input inputs, which is neither a layer nor a part of the input",
        ),
        (
            "layers = [{ name = \"a\", kind = \"linear\", inputs = [\"input\"], width = 2 }]",
            "the last layer, 'a', has 2 columns, but it must have as many as there are labels: 1",
        ),
    ] {
        let line = said(text);
        assert!(line.contains(says), "{text}: {line}");
    }
    let line = shop.fails(&["config", "--model.layers.2.kind=add"]);
    assert!(line.contains("model.layers.2 skips a number: give model.layers.1"), "{line}");
    let one = ["config", "--model.layers.1.kind=add", "--model.layers.1.name=a"];
    let line = shop.fails(&[&one[..], &["--model=graph"]].concat());
    assert!(line.contains("model.layers.1.inputs has 0 names: add takes 1 or more"), "{line}");
    shop.ok(&one);
}
