//! Guesses about small files, and names of records in every format.

use parquet::basic::LogicalType;
use parquet::file::properties::WriterProperties;
use stepwell_data::{Files, Guessed, Input, Layout, LayoutOptions, Texts, guess};

use crate::common::*;
use crate::rows::*;
use crate::typed::{self, Meaning, Values, plain};

const HEADER: &str = "click,price,age,user,city,tags\n";

fn guessed(text: &str) -> Vec<(String, Guessed)> {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "a.csv", text);
    guess(&path).unwrap().columns.into_iter().map(|column| (column.name, column.kind)).collect()
}

#[test]
fn a_label_counts_as_one_where_it_says_yes_or_is_the_larger() {
    for (one, other, positive) in [
        ("TRUE", "FALSE", None),
        ("1", "0", None),
        ("1", "-1", Some("1")),
        ("2", "1", Some("2")),
        ("yes", "no", Some("yes")),
        ("win", "loss", Some("win")),
        ("clicked", "not clicked", Some("clicked")),
        ("good", "bad", Some("good")),
        ("open", "not open", Some("open")),
    ] {
        // Regardless of their frequencies.
        for often in [one, other] {
            let rare = if often == one { other } else { one };
            let labels = [often, often, rare].map(|label| format!("{label},u1\n")).concat();
            let columns = guessed(&format!("label,user\n{labels}"));
            let expected = positive.map(str::to_owned).into_iter().collect();
            assert_eq!(columns[0].1, Guessed::Label(expected), "{often} {rare}");
        }
    }
    // If neither text is informative, the rarer one is positive.
    let columns = guessed("label,user\nred,u1\nblue,u2\nred,u3\n");
    assert_eq!(columns[0].1, Guessed::Label(vec!["blue".to_owned()]));
}

#[test]
fn numbers_far_from_zero_keep_what_tells_them_apart() {
    let rows = |number: &dyn Fn(u64) -> u64| -> String {
        (0..200).map(|n| format!("{},u{},{}\n", n % 2, n % 7, number(n))).collect()
    };
    let far = |n| 70_000_000 + n * 3;
    let columns = guessed(&format!("click,user,height\n{}", rows(&far)));
    let Guessed::Number(mean, deviation) = columns[2].1 else { panic!("{columns:?}") };
    let exact = (0..200).map(|n| far(n) as f64).sum::<f64>() / 200.0;
    assert!((mean - exact).abs() < 0.01 * deviation, "{mean} {exact} {deviation}");
    // An unchanged moment has no information.
    let columns = guessed(&format!("click,user,when\n{}", rows(&|n| 1_712_345_678 + n)));
    assert_eq!(columns[2], ("when".to_owned(), Guessed::Ignored));
}

#[test]
fn separators_within_texts_and_behind_lines_are_no_lists_and_no_columns() {
    let text = "click,city,\n1,\"New York, NY\",\n0,Oslo,\n1,\"Boston, MA\",\n0,Rome,\n";
    let columns = guessed(text);
    let expected = [("click", Guessed::Label(vec![])), ("city", Guessed::Id)];
    assert_eq!(columns, expected.map(|(name, what)| (name.to_owned(), what)));
}

#[test]
fn lists_are_guessed_alike_in_every_format() {
    let folder = tempfile::tempdir().unwrap();
    let lists = [&["7", "6"][..], &["5"], &["7", "6", "8", "9"]];
    let texts = lists.map(|list| list.join("|"));
    let brackets = lists.map(|list| format!("[{}]", list.join(", ")));
    let csv = |texts: &[String; 3]| -> String {
        let line = |(n, text): (usize, &String)| format!("{},\"{text}\"\n", n % 2);
        "click,same\n".to_owned() + &texts.iter().enumerate().map(line).collect::<String>()
    };
    let json = |of: &dyn Fn(usize) -> serde_json::Value| -> String {
        let line = |n| format!("{}\n", serde_json::json!({"click": n % 2, "same": of(n)}));
        (0..3).map(line).collect()
    };
    let parquet = |name: &str, texts: &[String; 3]| {
        let path = folder.path().join(name);
        let values = texts.iter().map(|text| text.clone().into_bytes()).collect();
        typed::parquet(&path, plain, &Values::Bytes(values), WriterProperties::builder());
        path
    };
    for path in [
        write(folder.path(), "texts.csv", csv(&texts)),
        write(folder.path(), "brackets.csv", csv(&brackets)),
        write(folder.path(), "lists.jsonl", json(&|n| lists[n].into())),
        write(folder.path(), "texts.jsonl", json(&|n| texts[n].as_str().into())),
        write(folder.path(), "brackets.jsonl", json(&|n| brackets[n].as_str().into())),
        parquet("texts.parquet", &texts),
        parquet("brackets.parquet", &brackets),
    ] {
        let guessed = guess(&path).unwrap().columns;
        let same = guessed.iter().find(|column| column.name == "same").unwrap();
        assert_eq!(same.kind, Guessed::Ids("|".to_owned(), 8), "{}", path.display());
    }
}

/// Texts of columns, record by record.
fn texts_of(files: &Files, layout: &Layout, columns: &[&str]) -> Vec<String> {
    let columns: Vec<String> = columns.iter().map(|name| (*name).to_owned()).collect();
    let mut texts = Texts::open(files, layout, &columns).unwrap();
    let mut found = Vec::new();
    while texts.next(&mut found).unwrap() {}
    found.into_iter().map(|text| String::from_utf8(text).unwrap()).collect()
}

#[test]
fn records_have_one_name_each_in_every_format() {
    let folder = tempfile::tempdir().unwrap();
    let records = records(300);
    for column in ["tags", "user", "city"] {
        let at = NAMES.iter().position(|name| *name == column).unwrap();
        let expected: Vec<String> = records.iter().map(|of| fields(of)[at].clone()).collect();
        for (path, layout) in every_format(folder.path(), &records) {
            let files = Files { paths: vec![path.clone()], layout: None };
            assert!(
                texts_of(&files, &layout, &[column]) == expected,
                "{} {column}",
                path.display()
            );
        }
    }
    for (path, layout) in every_format(folder.path(), &records) {
        let files = Files { paths: vec![path.clone()], layout: None };
        let [user, city, both] = [&["user"][..], &["city"], &["city", "user"]]
            .map(|columns| texts_of(&files, &layout, columns));
        let expected: Vec<String> =
            city.into_iter().zip(user).flat_map(|(city, user)| [city, user]).collect();
        assert!(both == expected, "{}", path.display());
    }
    // Empty files are skipped, regardless of the header setting.
    let paths = vec![write(folder.path(), "b", ""), write(folder.path(), "c.csv", HEADER)];
    let header = LayoutOptions { header: Some(true), ..Default::default() };
    let counted = Input::Files(Files { paths, layout: Some(layout(header)) });
    assert_eq!(counted.lines_of_each().unwrap(), [0, 0]);
}

#[test]
fn a_guess_sees_decimals_dates_and_numbers_that_are_stored_with_a_point() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.parquet");
    let guessed = |meaning: Meaning, values: &Values| {
        typed::parquet(&path, meaning, values, WriterProperties::builder());
        let columns = guess(&path).unwrap().columns;
        let found = columns.into_iter().find(|column| column.name == "same");
        found.map(|column| column.kind)
    };
    let decimal: Meaning = |builder| {
        let builder = builder.with_logical_type(Some(LogicalType::decimal(2, 9)));
        builder.with_precision(9).with_scale(2)
    };
    let numbers = || (0..200).map(|n| n * 37 % 101);
    let price = guessed(decimal, &Values::Small(numbers().collect()));
    assert!(matches!(price, Some(Guessed::Number(..))), "{price:?}");
    let days = numbers().map(|n| 19_000 + n).collect();
    assert_eq!(
        guessed(|builder| builder.with_logical_type(Some(LogicalType::Date)), &Values::Small(days)),
        Some(Guessed::Ignored)
    );
    let few = Values::Double(numbers().map(|n| f64::from(n % 5)).collect());
    assert_eq!(guessed(plain, &few), Some(Guessed::Id));
}
