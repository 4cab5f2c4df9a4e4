//! Models of two towers: their vectors, and the recall of items by these.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use std::collections::BTreeSet;
use std::fs;

use crate::common::Workshop;

const COLUMNS: [&str; 12] = [
    "--set",
    "columns.1.names=click",
    "--set",
    "columns.1.type=label",
    "--set",
    "columns.2.names=user,item,shop",
    "--model.hidden",
    "16",
    "--model.vector",
    "4",
    "--data.mini_batch",
    "64",
];

/// Trains on clicks of users on items of their own kind.
fn trained() -> Workshop {
    let shop = Workshop::new();
    let mut text = String::from("click,user,item,shop\n");
    for number in 0..3000u32 {
        let (user, item) = (number * 7 % 41, number * 13 % 53);
        let click = u32::from((user + item).is_multiple_of(3));
        text += &format!("{click},u{user},i{item},s{}\n", item % 7);
    }
    fs::write(shop.path("data.csv"), text).unwrap();
    let train = ["train", "--data", "data.csv", "--checkpoint", "saved", "--model", "two_tower"];
    let item = ["--model.item", "item,shop", "--data.eval_fraction", "0", "-q"];
    shop.ok(&[&train[..], &COLUMNS, &item].concat());
    shop
}

/// Label, score and both vectors of each line of a file of scores.
fn read(text: &str) -> Vec<(bool, f32, [Vec<f32>; 2])> {
    let mut lines = text.lines();
    let header = "click,score,user/unit.1,user/unit.2,user/unit.3,user/unit.4,item/unit.1,\
                  item/unit.2,item/unit.3,item/unit.4";
    assert_eq!(lines.next(), Some(header));
    let line = |line: &str| {
        let numbers: Vec<f32> = line.split(',').map(|number| number.parse().unwrap()).collect();
        let [label, score, vectors @ ..] = &numbers[..] else { panic!("{line}") };
        (*label == 1.0, *score, [vectors[..4].to_vec(), vectors[4..].to_vec()])
    };
    lines.map(line).collect()
}

fn dot(one: &[f32], other: &[f32]) -> f32 {
    one.iter().zip(other).map(|(a, b)| a * b).sum()
}

#[test]
fn scores_and_recall_follow_from_the_vectors() {
    let shop = trained();
    let layers = ["--layer", "user/unit", "--layer", "item/unit", "--label"];
    let predict = ["predict", "saved", "--data", "data.csv", "-q"];
    let found = read(&shop.ok(&[&predict[..], &layers].concat()));
    assert_eq!(found.len(), 3000);
    let mut items = BTreeSet::new();
    for (_, score, [user, item]) in &found {
        let wanted = 1.0 / (1.0 + (-dot(user, item) / 0.1).exp());
        assert!((score - wanted).abs() < 1e-4, "{score} {wanted}");
        assert!((dot(user, user) - 1.0).abs() < 1e-5 && (dot(item, item) - 1.0).abs() < 1e-5);
        items.insert(item.iter().map(|lane| lane.to_bits()).collect::<Vec<_>>());
    }
    assert_eq!(items.len(), 53);
    let items: Vec<Vec<f32>> =
        items.iter().map(|item| item.iter().map(|lane| f32::from_bits(*lane)).collect()).collect();
    let positives: Vec<_> = found.iter().filter(|(click, ..)| *click).collect();
    let is_taken = |(_, _, [user, item]): &&&(bool, f32, [Vec<f32>; 2])| {
        items.iter().filter(|other| dot(user, other) > dot(user, item)).count() < 18
    };
    let recall = positives.iter().filter(is_taken).count() as f64 / positives.len() as f64;
    shop.ok(&["eval", "saved", "--data", "data.csv", "--at", "18", "--report", "eval.json", "-q"]);
    let report = shop.report("eval.json")["recall"].clone();
    assert_eq!(report["positives"].as_u64(), Some(positives.len() as u64));
    assert_eq!((report["k"].as_u64(), report["items"].as_u64()), (Some(18), Some(53)));
    assert!((report["recall"].as_f64().unwrap() - recall).abs() < 2e-3, "{report} {recall}");
    assert!(recall > 0.45, "{recall}");
    // Users' columns may be empty where only items are wanted.
    fs::write(shop.path("items.csv"), "user,item,shop\n,i5,s5\n").unwrap();
    let of_items = ["predict", "saved", "--data", "items.csv", "--unlabelled", "-q"];
    let text = shop.ok(&[&of_items[..], &["--id", "item", "--layer", "item/unit"]].concat());
    let line = text.lines().nth(1).unwrap();
    let vector: Vec<f32> = line.split(',').skip(2).map(|number| number.parse().unwrap()).collect();
    assert!(line.starts_with("i5,") && items.contains(&vector), "{line}");
}

#[test]
fn what_has_no_vectors_is_refused() {
    let shop = trained();
    let said = shop.fails(&["predict", "saved", "--data", "data.csv", "--layer", "itme/unit"]);
    assert!(
        said.contains("the model has no layer 'itme/unit': it has user/input, user1, user,"),
        "{said}"
    );
    let twice = ["--layer", "item/unit", "--layer", "item/unit"];
    let said = shop.fails(&[&["predict", "saved", "--data", "data.csv"][..], &twice].concat());
    assert!(said.contains("--layer item/unit: named twice"), "{said}");
    let other = ["train", "--data", "data.csv", "--checkpoint", "other", "--model", "lr"];
    shop.ok(&[&other[..], &COLUMNS[..6], &["-q"]].concat());
    let said = shop.fails(&["eval", "other", "--data", "data.csv", "--at", "5"]);
    assert!(said.contains("--at 5 needs --group COLUMN") && said.contains("this one is lr"));
}
