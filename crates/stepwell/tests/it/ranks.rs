//! Several ranks from outside: the same model, the same messages, one exit status.

use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::common::{SMALL, TINY, Workshop};
use stepwell_base::key_of;
use stepwell_base::owner::owner;
use stepwell_base::random::Stream;

fn train<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["train"];
    args.extend(SMALL);
    args.extend(TINY);
    args.extend(more);
    args
}

#[test]
fn ranks_train_the_model_of_one() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 2000);
    let with = |ranks, report| {
        let epochs = ["--data.epochs", "2", "--set", "data.eval_fraction=0.2"];
        let mut args = train(&["--data", &data, "--ranks", ranks, "--report", report]);
        args.extend(epochs);
        shop.ok(&args);
        shop.report(report)
    };
    let one = with("1", "one.json");
    for ranks in ["2", "3", "8"] {
        let several = with(ranks, "several.json");
        assert_eq!(several["config"]["ranks.count"].to_string(), ranks);
        for field in ["model_digest", "steps", "examples", "eval", "progressive", "rows"] {
            assert_eq!(several[field], one[field], "{ranks} ranks: {field}");
        }
        assert_eq!(several["by_rank"].as_array().unwrap().len().to_string(), ranks);
        assert!(one.get("by_rank").is_none());
    }
}

#[test]
fn a_file_has_ranks_as_a_number_or_as_a_table() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 500);
    let plan = |text: &str| {
        std::fs::write(shop.path("run.toml"), text).unwrap();
        let args = ["plan", "run.toml", "--data", &data];
        shop.command(&args).output().unwrap()
    };
    let tables = ["ranks = 3", "ranks.count = 3", "[ranks]\ncount = 3\ntimeout = 5"];
    for text in tables {
        let said = String::from_utf8(plan(text).stdout).unwrap();
        assert!(said.contains("3 ranks"), "{text}: {said}");
    }
    for (text, answer) in [
        ("ranks = 0", "run.toml:1: ranks is 0: give 1 to 256"),
        ("\n[ranks]\ncount = 0", "run.toml:3: ranks.count is 0: give 1 to 256"),
        ("ranks = [4]", "run.toml:1: ranks = [4]: give one value, not a list"),
        ("[ranks]\ntimeuot = 5", "unknown key 'ranks.timeuot'; did you mean 'ranks.timeout'?"),
        ("ranks = 4\n[ranks]\ntimeout = 5", "run.toml:2: duplicate key ranks: keep one"),
        ("ranks = 9", "ranks = 9 and train.blocks = 8"),
        ("ranks.count = 9", "ranks.count = 9 and train.blocks = 8"),
    ] {
        let said = String::from_utf8(plan(text).stderr).unwrap();
        assert!(said.contains(answer), "{text}: {said}");
    }
}

#[test]
fn what_ranks_cannot_do_is_refused_at_once() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 500);
    let refused = |more: &[&str]| shop.fails(&train(&[&["--data", &data[..]], more].concat()));
    assert!(refused(&["--ranks", "9"]).contains("give at most 8 ranks"));
    let one = refused(&["--ranks", "2", "--set", "train.blocks=1"]);
    assert!(one.ends_with("each rank needs at least one block; give 1 rank"), "{one}");
    assert!(refused(&["--ranks", "0"]).contains("ranks is 0: give 1 to 256"));
    assert!(refused(&["--ranks.count", "9"]).contains("ranks.count = 9 and train.blocks = 8"));
    assert!(refused(&["--set", "ranks.count=0"]).contains("ranks.count is 0: give 1 to 256"));
    assert!(refused(&["--ranks.timeout", "0"]).contains("ranks.timeout is 0: give 1 to 86400"));
    let one = refused(&["--ranks", "2", "--checkpoint", "both", "--tiers.ssd", "both"]);
    assert!(one.contains("are both") && one.contains("choose two directories"), "{one}");
    let unknown = refused(&["--ranks", "2", "--ranks.exchange", "hps"]);
    assert!(unknown.contains("ranks.exchange = hps: give one of owner, working_set"), "{unknown}");
    let lends = ["--ranks", "2", "--ranks.exchange", "working_set"];
    let late = refused(&[&lends[..], &["--pipeline.staleness", "2"]].concat());
    assert!(late.contains("give pipeline.staleness = 0, or ranks.exchange = owner"), "{late}");
}

/// The digest of a run to the end, resumed after any earlier runs.
fn digest(shop: &Workshop, data: &str, more: &[&str]) -> serde_json::Value {
    let args = [&["--data", data, "--data.epochs", "3", "--report", "digest.json"], more].concat();
    shop.ok(&train(&args));
    shop.report("digest.json")["model_digest"].clone()
}

#[test]
fn a_checkpoint_of_n_ranks_is_resumed_by_m() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 1500);
    let oracle = digest(&shop, &data, &[]);
    for (number, ranks) in [["1", "3"], ["2", "1"], ["3", "2"], ["2", "8"]].into_iter().enumerate()
    {
        let saved = format!("saved-{number}");
        let [first, then] = ranks;
        let first =
            ["--data", &data, "--data.epochs", "1", "--checkpoint", &saved, "--ranks", first];
        shop.ok(&train(&first));
        let shown = shop.ok(&["inspect", &saved, "--json"]);
        let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(shown["ranks"].to_string(), ranks[0]);
        let more = ["--checkpoint", &saved, "--resume", "--ranks", then];
        assert_eq!(digest(&shop, &data, &more), oracle, "{ranks:?}");
        // A checkpoint of several ranks is scored by one process.
        assert!(shop.ok(&["eval", &saved, "--data", &data]).contains("AUC"));
    }
}

#[test]
fn killed_ranks_go_on_with_others_and_leave_no_rows() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 3000);
    let oracle = digest(&shop, &data, &[]);
    let more = ["--checkpoint", "saved", "--checkpoint.every", "5", "--tiers.ssd", "rows"];
    // A run resumes with another exchange of rows.
    let turns = [["4", "working_set"], ["2", "owner"], ["3", "working_set"]];
    for (number, [ranks, exchange]) in turns.into_iter().enumerate() {
        let how = ["--ranks", ranks, "--ranks.exchange", exchange, "--set", "data.batch=512"];
        let args = ["--data", &data, "--data.epochs", "3", "--resume=auto"];
        let args = [&args[..], &how].concat();
        let mut child = shop.command(&train(&[&args[..], &more].concat()));
        let mut child = child.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let kept = || {
            std::fs::read_dir(shop.path("saved")).map_or(0, |listed| {
                let names = listed.flatten().map(|entry| entry.file_name());
                names.filter(|name| name.to_string_lossy().starts_with("step-")).count()
            })
        };
        let begun = Instant::now();
        while kept() < 1 + number.min(1) && begun.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(5));
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let last = [&more[..], &["--resume", "--ranks", "2"]].concat();
    assert_eq!(digest(&shop, &data, &last), oracle);
    // Two of four ranks remain, and the removed ones have left no rows.
    for rank in ["rank-2", "rank-3"] {
        let left = std::fs::read_dir(shop.path("rows").join(rank)).unwrap().flatten();
        let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
        assert_eq!(left, [".lock"]);
    }
}

/// Stops runs of any number of ranks at any moment; if a run ends before, another one starts.
#[test]
fn kills_at_any_moment_leave_the_same_model() {
    let kills = if std::env::var_os("STEPWELL_LONG").is_some() { 100 } else { 6 };
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 3000);
    let oracle = digest(&shop, &data, &[]);
    let mut dice = Stream::named(1, b"kills");
    let (mut killed, mut job, mut ended) = (0, 0, 0);
    while killed < kills {
        let (saved, rows) = (format!("saved-{job}"), format!("rows-{job}"));
        let ranks = (1 + dice.next_u64() % 8).to_string();
        let keeps = ["--checkpoint", &saved, "--checkpoint.every", "4", "--tiers.ssd", &rows];
        let goes_on = ["--resume=auto", "--ranks", &ranks, "--report", "ended.json"];
        let exchange = ["owner", "working_set"][(dice.next_u64() % 2) as usize];
        let how = ["--ranks.exchange", exchange, "--set", "data.batch=256"];
        let args = [&["--data", &data, "--data.epochs", "3"][..], &keeps, &goes_on, &how].concat();
        let mut child = shop.command(&train(&args));
        let mut child = child.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(20 + dice.next_u64() % 700));
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success());
            assert_eq!(shop.report("ended.json")["model_digest"], oracle, "{ranks} ranks");
            (job, ended) = (job + 1, ended + 1);
            continue;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        killed += 1;
    }
    let (saved, rows) = (format!("saved-{job}"), format!("rows-{job}"));
    let last = ["--checkpoint", &saved, "--resume=auto", "--tiers.ssd", &rows, "--ranks", "3"];
    assert_eq!(digest(&shop, &data, &last), oracle);
    println!("{killed} kills, {} runs went through", ended + 1);
}

/// The other ranks are at other places in the data and wait for the failing one, which must not
/// wait for them.
#[test]
fn a_rank_whose_memory_is_too_small_ends_all_and_the_last_checkpoint_stays() {
    let shop = Workshop::new();
    let line = |ids: &[String]| format!("0{}\t{}\n", "\t1".repeat(13), ids.join("\t"));
    let few = line(&vec!["same".to_owned(); 26]).repeat(640);
    let mut numbers = 0u64..;
    // Only ids with rows at rank 1.
    let mut id = |column: usize| loop {
        let id = numbers.next().unwrap().to_string();
        if owner(key_of(&format!("C{}", column + 1), id.as_bytes()), 2) == 1 {
            break id;
        }
    };
    let mut many = || line(&(0..26).map(&mut id).collect::<Vec<String>>());
    let many: String = (0..640).map(|_| many()).collect();
    std::fs::write(shop.path("data.tsv"), few + &many).unwrap();
    let keeps = ["--checkpoint", "saved", "--checkpoint.every", "3", "--tiers.dram", "40KiB"];
    let begun = Instant::now();
    let args = [&["--data", "data.tsv", "--ranks", "2", "--data.mini_batch", "64"][..], &keeps];
    let why = shop.fails(&train(&args.concat()));
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert!(why.contains("raise tiers.dram"), "{why}");
    let roomy = ["--data", "data.tsv", "--data.mini_batch", "64", "--tiers.dram", "4MiB"];
    let resumed = [&roomy[..], &["--checkpoint", "saved", "--resume", "--ranks", "3"]].concat();
    let oracle = shop.ok(&train(&roomy));
    let digest = |text: &str| text.lines().find(|line| line.contains("digest")).map(str::to_owned);
    assert_eq!(digest(&shop.ok(&train(&resumed))), digest(&oracle));
}

#[test]
fn a_damaged_part_of_a_checkpoint_is_named() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 1500);
    let admits = ["--rows.admit_after", "2", "--pipeline.staleness", "2"];
    let first = ["--data", &data, "--data.epochs", "1", "--checkpoint", "saved", "--ranks", "2"];
    shop.ok(&train(&[&first[..], &admits].concat()));
    let newest = std::fs::read_dir(shop.path("saved")).unwrap().flatten();
    let newest = newest.map(|entry| entry.path()).filter(|path| path.join("CHECKSUMS").exists());
    let newest = newest.max().unwrap();
    let resume = ["--data", &data, "--checkpoint", "saved", "--resume", "--ranks", "3"];
    let refused = || shop.fails(&train(&[&resume[..], &admits].concat()));
    for name in ["dense-1.bin", "rows-0-rank-1/manifest.json"] {
        let path = newest.join(name);
        let whole = std::fs::read(&path).unwrap();
        let mut changed = whole.clone();
        changed[whole.len() / 2] ^= 1;
        // In place of the file: others may be links to it.
        std::fs::remove_file(&path).unwrap();
        let gone = refused();
        assert!(gone.contains(name) && gone.contains("move it away"), "{gone}");
        std::fs::write(&path, &changed).unwrap();
        let damaged = refused();
        assert!(damaged.contains(name) && damaged.contains("move it away"), "{damaged}");
        std::fs::write(&path, &whole).unwrap();
    }
    shop.ok(&train(&[&resume[..], &admits].concat()));
}

#[test]
fn what_ranks_left_is_checked_and_purged_by_the_name_that_was_given() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 1500);
    let args = ["--data", &data, "--ranks", "2", "--tiers.ssd", "rows", "--checkpoint", "saved"];
    shop.ok(&train(&args));
    // Rows without a mark block the next run.
    for rank in ["rank-0", "rank-1"] {
        std::fs::create_dir_all(shop.path("rows").join(rank).join("rows-7")).unwrap();
    }
    let said = shop.ok(&train(&[&args[..], &["--force"]].concat()));
    assert!(said.contains("rows/rank-0/set-aside-1") && said.contains("rows/rank-1/set-aside-1"));
    let newest = std::fs::read_dir(shop.path("saved")).unwrap().flatten();
    let newest = newest.map(|entry| entry.path()).find(|path| path.join("CHECKSUMS").exists());
    let checked = shop.ok(&["store", "check", &newest.unwrap().display().to_string()]);
    assert!(checked.contains("rows-0-rank-0") && checked.contains("rows-0-rank-1"), "{checked}");
}

#[test]
fn what_others_left_is_in_the_way_of_a_run_that_begins_anew() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 500);
    let begin = |rows: &str, ranks: &str, more: &[&str]| {
        let args = ["--data", &data[..], "--tiers.ssd", rows, "--ranks", ranks];
        shop.command(&train(&[&args[..], more].concat())).output().unwrap()
    };
    for (rows, left, ranks) in [("a", "a/rank-2", "2"), ("b", "b/rank-0", "1"), ("c", "c", "3")] {
        std::fs::create_dir_all(shop.path(left).join("rows-0")).unwrap();
        let refused = String::from_utf8(begin(rows, ranks, &[]).stderr).unwrap();
        let why = format!("tiers.ssd = {left} holds rows of an earlier run; set them aside");
        assert!(refused.contains(&why), "{ranks} ranks: {refused}");
        let forced = begin(rows, ranks, &["--force"]);
        let said = String::from_utf8(forced.stderr).unwrap();
        assert!(forced.status.success(), "{ranks} ranks: {said}");
        assert!(said.contains(&format!("into {left}/set-aside-1")), "{ranks} ranks: {said}");
    }
}

#[test]
fn one_rank_makes_the_cache_and_all_read_it() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 1500);
    let oracle = digest(&shop, &data, &[]);
    for ranks in ["3", "2", "1"] {
        let more = ["--data.cache", "cache.packed", "--ranks", ranks];
        assert_eq!(digest(&shop, &data, &more), oracle, "{ranks}");
        assert!(shop.path("cache.packed").exists());
    }
}

#[test]
fn a_rank_that_fails_ends_all_with_its_own_words() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 2000);
    let rows = shop.path("rows");
    std::fs::create_dir_all(&rows).unwrap();
    // A file is in the place of the directory of rank 1's rows.
    std::fs::write(rows.join("rank-1"), "in the way").unwrap();
    let begun = Instant::now();
    let rows = rows.display().to_string();
    let error = shop.fails(&train(&["--data", &data, "--ranks", "3", "--tiers.ssd", &rows]));
    assert!(error.contains("rank-1"), "{error}");
    assert_eq!(error.lines().filter(|line| line.starts_with("stepwell:")).count(), 1, "{error}");
    assert!(begun.elapsed() < Duration::from_secs(10));
}

/// `tiers.index` was set for one of several ranks; scoring uses a single process.
#[test]
fn one_rank_scores_with_the_rows_of_all() {
    let shop = Workshop::new();
    let data = shop.text("data.tsv");
    shop.ok(&["synth", "--out", &data, "--examples", "6000"]);
    let barely = ["--tiers.index", "328000", "--checkpoint", "saved", "--data", &data];
    assert!(shop.fails(&train(&[&["--force"], &barely[..]].concat())).contains("tiers.index"));
    shop.ok(&train(&[&["--ranks", "4", "--force", "--threads", "1"], &barely[..]].concat()));
    shop.ok(&["eval", "saved", "--data", &data, "--report", "eval.json"]);
    let scores = shop.ok(&["predict", "saved", "--data", &data]);
    assert_eq!(scores.lines().count(), 6001);
    // The index takes no more than it needs, even with a larger limit.
    let offered = ["eval", "saved", "--data", &data, "--tiers.index", "1GiB", "--report", "b.json"];
    let output = shop.run(&offered);
    assert!(String::from_utf8_lossy(&output.stderr).contains("tiers.index has no effect"));
    assert_eq!(shop.report("b.json")["eval"], shop.report("eval.json")["eval"]);
    assert_eq!(shop.report("b.json")["budget_bytes"], shop.report("eval.json")["budget_bytes"]);
}
