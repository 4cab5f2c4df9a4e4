//! `stepwell schema`: its guesses of columns, and that its settings train.

use std::fs;

use crate::common::Workshop;

/// The settings guessed for a file with this text.
fn guessed(shop: &Workshop, name: &str, text: &str) -> String {
    fs::write(shop.path(name), text).unwrap();
    shop.ok(&["schema", name, "--out", "run.toml", "--force"]);
    shop.ok(&["train", "run.toml", "--tiers.index=8MiB", "--dim=4"]);
    fs::read_to_string(shop.path("run.toml")).unwrap()
}

#[test]
fn comments_say_what_was_seen_and_count_records() {
    let shop = Workshop::new();
    let line = |n: usize| format!("{},u{},{}\n", n % 2, n % 7, n % 9 * 31);
    let text = "click,user,price\n".to_owned() + &(0..70).map(line).collect::<String>();
    let settings = guessed(&shop, "rows.csv", &text);
    for part in [
        "Guessed from the first 70 records of rows.csv",
        "at least 70 records (estimated)",
        "# user: 7 distinct, most often u",
        "(10 of 70)",
    ] {
        assert!(settings.contains(part), "{part}: {settings}");
    }
}

#[test]
fn lines_that_were_not_examined_are_named() {
    let shop = Workshop::new();
    let line = |n: usize| format!("{},u{},{}\n", n % 2, n % 7, n % 9 * 31);
    let lines: Vec<String> = (0..70).map(line).collect();
    let text = "click,user,price\n".to_owned() + &lines[..30].concat() + "\n1,u1\n";
    fs::write(shop.path("rows.csv"), text + &lines[30..].concat()).unwrap();
    let said = shop.said(&["schema", "rows.csv"]);
    assert!(said.contains("rows.csv, line 33: has more or fewer columns"), "{said}");
    assert!(said.contains("first 70 records"), "{said}");
}

#[test]
fn lists_of_ids_with_values_are_guessed() {
    let shop = Workshop::new();
    let (head, sep) = ("click,user,bought\n", [" ", "|", ";"]);
    for separator in sep {
        let line = |n: usize| {
            let more =
                if n.is_multiple_of(3) { format!("{separator}9:1.2") } else { String::new() };
            let bought = if n.is_multiple_of(5) { String::new() } else { format!("{n}:0.5{more}") };
            format!("{},u{},{bought}\n", n % 2, n % 7)
        };
        let text = head.to_owned() + &(0..60).map(line).collect::<String>();
        let settings = guessed(&shop, "rows.csv", &text);
        let column = settings.split("[\"bought\"]").nth(1).unwrap();
        let is = |part: &str| column.contains(part);
        assert!(is("type = \"ids\"") && is("values = \":\""), "{separator:?}: {settings}");
        let name = format!("separator = {separator:?}");
        assert!(is(&name) || separator == "|", "{separator:?}: {settings}");
    }
    let line = |n: usize| {
        format!(
            "{{\"click\":{},\"user\":\"u{}\",\"bought\":[\"{n}:2\",\"7:0.5\"]}}\n",
            n % 2,
            n % 7
        )
    };
    let settings = guessed(&shop, "rows.jsonl", &(0..60).map(line).collect::<String>());
    assert!(settings.contains("values = \":\""), "{settings}");
    // Times are not lists with values.
    let line = |n: usize| format!("{},u{},12:{}\n", n % 2, n % 7, n);
    let text = "click,user,at\n".to_owned() + &(10..60).map(line).collect::<String>();
    let settings = guessed(&shop, "rows.csv", &text);
    assert!(!settings.contains("values"), "{settings}");
}

#[test]
fn counts_of_clicks_and_impressions_come_with_a_hint() {
    let shop = Workshop::new();
    let line = |n: usize| format!("{},{},u{},{}\n", n % 3, 3 + n % 50, n % 7, n % 2);
    let text = "Clicks,impressions,user,bought\n".to_owned();
    let settings = guessed(&shop, "rows.csv", &(text + &(0..80).map(line).collect::<String>()));
    let hint = "names = [\"rate\"], type = \"label\", of = [\"Clicks\", \"impressions\"]";
    for name in ["Clicks", "impressions"] {
        let of_it = settings.lines().find(|line| line.starts_with(&format!("# {name}: "))).unwrap();
        assert!(of_it.contains("to learn Clicks over impressions") && of_it.contains(hint));
    }
    // Applies the hint.
    let label = hint.replace("], type", "]\ntype").replace("\", of", "\"\nof");
    let made = "[data]\npaths = [\"rows.csv\"]\n[[columns]]\n".to_owned() + &label;
    let counts = "\n[[columns]]\nnames = [\"Clicks\", \"impressions\"]\ntype = \"ignored\"\n";
    let made = made + counts + "[[columns]]\nnames = [\"user\"]\n";
    fs::write(shop.path("made.toml"), made).unwrap();
    shop.ok(&["train", "made.toml", "--tiers.index=8MiB", "--dim=4"]);
}
