//! `stepwell completions`, `stepwell man` and `--help`.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use crate::common::Workshop;

#[test]
fn shells_learn_commands_flags_and_names() {
    let shop = Workshop::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = shop.ok(&["completions", shell]);
        for word in ["predict", "tensorboard", "tiers.dram"] {
            assert!(script.contains(word), "{shell} does not know {word}");
        }
        // Other shells do not complete values.
        for word in ["sven", "wide_deep", "working_set"] {
            let completes = ["bash", "zsh", "fish"].contains(&shell);
            assert!(!completes || script.contains(word), "{shell} does not know {word}");
        }
    }
    let mut checked = 0;
    for shell in ["bash", "zsh", "fish"] {
        let check = Command::new(shell).arg("-n").stdin(Stdio::piped()).spawn();
        let Ok(mut check) = check else {
            stepwell_skip::skipped(format_args!("there is no {shell}"));
            continue;
        };
        let script = shop.ok(&["completions", shell]);
        check.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
        assert!(check.wait().unwrap().success(), "{shell}");
        checked += 1;
    }
    println!("{checked} shells read theirs");
    let refused = shop.run(&["completions", "tcsh"]);
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn bash_completes_the_name_of_a_model() {
    let shop = Workshop::new();
    let script = shop.text("stepwell.bash");
    fs::write(&script, shop.ok(&["completions", "bash"])).unwrap();
    let words = "COMP_WORDS=(stepwell train --model d); COMP_CWORD=3; \
                 _stepwell stepwell d --model; echo \"${COMPREPLY[@]}\"";
    let run = Command::new("bash").args(["-c", &format!(". {script}; {words}")]).output();
    let Ok(run) = run else {
        stepwell_skip::skipped("there is no bash");
        return;
    };
    assert_eq!(String::from_utf8_lossy(&run.stdout).trim(), "deepfm dcn dcn_v1 dlrm din");
}

#[test]
fn every_command_has_a_page_of_the_manual() {
    let shop = Workshop::new();
    let said = shop.ok(&["man", "--dir", "pages"]);
    let names: Vec<String> = fs::read_dir(shop.path("pages"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(said.contains(&format!("{} pages in pages", names.len())), "{said}");
    let error = shop.fails(&["man", "--dir", "pages"]);
    assert!(error.contains("exists; replace the pages with --force"), "{error}");
    shop.ok(&["man", "--dir", "pages", "--force"]);
    for name in ["stepwell.1", "stepwell-train.1", "stepwell-store.1", "stepwell-store-check.1"] {
        assert!(names.contains(&name.to_owned()), "{names:?}");
    }
    let page = shop.ok(&["man", "store", "check"]);
    assert_eq!(page, fs::read_to_string(shop.path("pages/stepwell-store-check.1")).unwrap());
    assert!(page.contains(".TH stepwell-store-check 1"), "{page}");
    assert!(shop.ok(&["man"]).contains("embedding tables are larger than memory"));
    assert!(shop.fails(&["man", "dance"]).contains("there is no command 'dance'"));
    let error = shop.fails(&["man", "--dir", "no/where"]);
    assert!(error.contains("--dir no/where: there is no directory no"), "{error}");
}

#[test]
fn help_says_defaults_names_and_examples() {
    let shop = Workshop::new();
    let help = shop.ok(&["train", "--help-all"]);
    for part in [
        "[default: 4096]",
        "[default: all cores]",
        "[possible values: lr, fm, wide_deep, deepfm, dcn, dcn_v1, dlrm, final_mlp, mask_net, \
         mmoe, ple, din, two_tower, graph]",
        "[possible values: sgd, momentum, adagrad, adam]",
        "[possible values: lru-lfu, s3-fifo, sven]",
    ] {
        assert!(help.contains(part), "{part}");
    }
    for command in ["eval", "predict"] {
        let help = shop.ok(&[command, "--help-all"]);
        let dram = help.split("--tiers.dram").nth(1).unwrap();
        let default = dram.split("[default: ").nth(1).unwrap();
        assert!(default.starts_with("as in training]"), "{command}: {dram}");
    }
    let examples = help.split("Examples:").nth(1).unwrap();
    assert!(examples.matches("stepwell train").count() >= 3, "{examples}");
    // The short help fits on a screen or two and refers to the rest.
    let short = shop.ok(&["train", "--help"]);
    assert!(short.lines().count() <= 60, "{short}");
    for part in ["--data", "--epochs", "--lr", "--batch-size", "--help-all", "`stepwell config`"] {
        assert!(short.contains(part), "{part}: {short}");
    }
    assert!(!short.contains("--pipeline.horizon"), "{short}");
    assert_eq!(shop.ok(&["train", "-h"]), short);
    // An error about a wrong name has the key, as everywhere.
    let error = shop.fails(&["train", "--model", "transformer"]);
    assert!(error.contains("model.kind = transformer: give one of lr, fm, wide_deep"), "{error}");
    let error = shop.fails(&["train", "--optim.rows.kind", "lion"]);
    assert!(error.contains("optim.rows.kind = lion: give one of sgd"), "{error}");
}
