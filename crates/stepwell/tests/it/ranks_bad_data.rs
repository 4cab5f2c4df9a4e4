//! Bad data with several ranks: the same message and checkpoint as with one rank, whichever rank
//! reads it.

use crate::common::{SMALL, TINY, Workshop};

fn train<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["train"];
    args.extend(SMALL);
    args.extend(TINY);
    args.extend(more);
    args
}

#[test]
fn a_bad_line_is_one_message_whoever_reads_it() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 2000);
    let mut text = std::fs::read_to_string(&data).unwrap();
    text.insert_str(text.match_indices('\n').nth(1499).unwrap().0 + 1, "bad\n");
    std::fs::write(&data, text).unwrap();
    let one = shop.fails(&train(&["--data", &data]));
    assert!(one.contains("line 1501"), "{one}");
    assert_eq!(shop.fails(&train(&["--data", &data, "--ranks", "3"])), one);
    let skips = ["--data", &data, "--data.skip_max", "1", "--report"];
    shop.ok(&[&train(&skips)[..], &["one.json"]].concat());
    shop.ok(&[&train(&skips)[..], &["three.json", "--ranks", "3"]].concat());
    let (one, three) = (shop.report("one.json"), shop.report("three.json"));
    for field in ["model_digest", "skipped_lines", "examples"] {
        assert_eq!(three[field], one[field], "{field}");
    }
}

#[test]
fn a_bad_line_that_one_rank_has_ends_all_where_one_rank_would_end() {
    let shop = Workshop::new();
    let (first, second) = (shop.examples("first.tsv", 1500), shop.examples("second.tsv", 400));
    let data = ["--data", &first[..], "--data", &second, "--data.epochs", "2", "--report"];
    let whole = std::fs::read_to_string(&second).unwrap();
    // The first file has 23 mini-batches of 64 and 28 more examples. With three ranks, these lines
    // go to the second, the third, the first, and to the second in a later mini-batch.
    for (number, line) in [0, 20, 40, 200].into_iter().enumerate() {
        let mut text = whole.clone();
        let start: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
        text.replace_range(start..=start, "x");
        std::fs::write(&second, text).unwrap();
        let said = ["1", "3"].map(|ranks| {
            let saved = format!("saved-{number}-{ranks}");
            let more = ["report.json", "--ranks", ranks, "--checkpoint", &saved];
            let said = shop.fails(&train(&[&data[..], &more].concat()));
            assert!(said.contains(&format!("second.tsv: line {},", line + 1)), "{said}");
            assert!(shop.ok(&["inspect", &saved]).contains("step 23"), "{saved}");
            said.replace(&saved, "saved")
        });
        assert_eq!(said[0], said[1], "line {line}");
        let digest = |more: &[&str]| {
            let more = [&["more.json", "--data.skip_max", "1"], more].concat();
            shop.ok(&train(&[&data[..], &more].concat()));
            shop.report("more.json")["model_digest"].clone()
        };
        let oracle = digest(&[]);
        for (kept_by, ranks) in [("3", "2"), ("1", "3")] {
            let saved = format!("saved-{number}-{kept_by}");
            let more = ["--ranks", ranks, "--checkpoint", &saved, "--resume"];
            assert_eq!(digest(&more), oracle, "line {line}, kept by {kept_by}");
        }
    }
}

#[test]
fn of_several_bad_lines_the_first_is_named_whoever_has_it() {
    let shop = Workshop::new();
    let (first, second) = (shop.examples("first.tsv", 640), shop.examples("second.tsv", 640));
    // With three ranks, one line goes to the third, and one of the next mini-batch to the first.
    let whole = std::fs::read_to_string(&second).unwrap();
    let bad = [60, 70].into_iter();
    let mut lines: Vec<&str> = whole.split_inclusive('\n').collect();
    bad.for_each(|line| lines[line] = "bad\n");
    std::fs::write(&second, lines.concat()).unwrap();
    let end = |ranks: &str| {
        let saved = format!("saved-{ranks}");
        let data = ["--data", &first[..], "--data", &second, "--ranks", ranks];
        let said = shop.fails(&train(&[&data[..], &["--checkpoint", &saved]].concat()));
        let shown = shop.ok(&["inspect", &saved]);
        assert!(shown.contains("step 10"), "{ranks} ranks: {shown}");
        said.replace(&saved, "saved")
    };
    let one = end("1");
    assert!(one.contains("second.tsv: line 61,"), "{one}");
    // Whichever rank ends first, no message is about another rank's failure.
    for ranks in ["3", "8", "3", "8"] {
        assert_eq!(end(ranks), one, "{ranks} ranks");
        std::fs::remove_dir_all(shop.path(&format!("saved-{ranks}"))).unwrap();
    }
}

#[test]
fn a_damaged_file_ends_ranks_with_the_checkpoint_of_one() {
    let shop = Workshop::new();
    let text = shop.examples("data.tsv", 4000);
    let packed = shop.text("data.packed");
    shop.ok(&["convert", &text, "--out", &packed]);
    let mut bytes = std::fs::read(&packed).unwrap();
    let at = bytes.len() * 2 / 3;
    bytes[at] ^= 0x40;
    std::fs::write(&packed, bytes).unwrap();
    let end = |ranks: &str| {
        let saved = format!("saved-{ranks}");
        let more = ["--data.eval_fraction", "0", "--ranks", ranks, "--checkpoint", &saved];
        let said = shop.fails(&train(&[&["--data", &packed[..]], &more[..]].concat()));
        let step = shop.ok(&["inspect", &saved, "--json"]);
        let step: serde_json::Value = serde_json::from_str(&step).unwrap();
        (said.replace(&saved, "saved"), step["step"].clone())
    };
    let one = end("1");
    for ranks in ["2", "5"] {
        assert_eq!(end(ranks), one, "{ranks} ranks");
    }
}
