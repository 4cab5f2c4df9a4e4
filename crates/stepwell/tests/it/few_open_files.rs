//! A run whose store has more segments than the process may have files open.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use std::process::Command;

use crate::common::{SMALL, Workshop, lines_beside_notes};

/// Runs the program with a limit of open files; returns its whole output.
fn run_with(shop: &Workshop, files: u64, args: &[&str]) -> String {
    let output = Command::new("sh")
        .args(["-c", &format!("ulimit -n {files} && exec \"$0\" \"$@\"")])
        .arg(env!("CARGO_BIN_EXE_stepwell"))
        .args(args)
        .current_dir(shop.path(""))
        .env("TMPDIR", shop.path(""))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{files} files, {args:?}: {said}{error}");
    said + &error
}

#[test]
fn a_run_that_may_have_too_many_files_open_is_refused_before_it_begins() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 2000);
    let limited = |files: u64, job: &str, ranks: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit -n {files} && exec \"$0\" \"$@\"")]);
        command.arg(env!("CARGO_BIN_EXE_stepwell")).args([job, "--data", &data]);
        command.args(SMALL).args(["--threads", "1", "--ranks", ranks]).current_dir(shop.path(""));
        command.env("TMPDIR", shop.path("")).output().unwrap()
    };
    for (ranks, enough, mend) in [("1", 40, "raise it to"), ("8", 100, "or lower ranks")] {
        let limit = |files| format!("the limit of this process is {files} (ulimit -n): raise it");
        for files in [16, 12] {
            let error = String::from_utf8(limited(files, "train", ranks).stderr).unwrap();
            assert!(
                error.contains(&limit(files)) && error.contains(mend),
                "{ranks} ranks: {error}"
            );
            assert_eq!(lines_beside_notes(&error), 1, "{error}");
        }
        // A plan may be for another machine.
        let planned = limited(14, "plan", ranks);
        let said = String::from_utf8(planned.stdout).unwrap();
        assert!(planned.status.success() && said.contains(&limit(14)), "{said}");
        let output = limited(enough, "train", ranks);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_run_may_have_64_files_open_and_gives_the_same_model() {
    let shop = Workshop::new();
    let data = shop.text("data.tsv");
    shop.ok(&["synth", "--out", &data, "--examples", "40000"]);
    let train = |files, engine: &str, more: &[&str]| {
        let report = format!("{files}-{engine}.json");
        let mut args = vec!["train", "--data", &data, "--preset", "criteo", "--model", "wide_deep"];
        args.extend(["--model.dim", "16", "--model.hidden", "8", "--data.mini_batch", "64"]);
        args.extend(["--tiers.dram", "400KiB", "--tiers.segment", "128KiB"]);
        args.extend(["--tiers.index", "16MiB", "--report", &report]);
        args.extend(more);
        (run_with(&shop, files, &args), shop.report(&report))
    };
    let (_, many) = train(1000, "auto", &[]);
    let (said, few) = train(64, "auto", &["--checkpoint", "saved"]);
    assert_eq!(few["model_digest"], many["model_digest"]);
    let segments = few["tiers"]["disk"]["segments"].as_u64().unwrap();
    assert!(segments > 100, "{segments} segments");
    // A third of the process's limit, and more only while all of these are in use.
    let disk = &few["tiers"]["disk"];
    let figure = |name: &str| disk[name].as_u64().unwrap();
    let [open, peak] = [figure("files_open"), figure("files_open_peak")];
    assert_eq!(figure("files_open_max"), 64 / 3);
    assert!(0 < open && open <= peak && peak < 64, "{open} open, {peak} at most");
    assert_eq!(disk["stores"][0]["files_open_max"], 64 / 3);
    let told = format!("{open} of the stores, {peak} at most (above 21 only while all are in use)");
    assert!(said.contains(&told), "{said}");
    run_with(&shop, 64, &["eval", "saved", "--data", &data]);
    let saved = std::fs::read_dir(shop.path("saved")).unwrap().flatten().next().unwrap().path();
    let checked = run_with(&shop, 64, &["store", "check", saved.to_str().unwrap()]);
    assert!(checked.contains(" segments, "), "{checked}");
}
