//! The quick parser gives the same results as the library.

use proptest::prelude::*;

use super::*;
use crate::layout::{Column, ColumnKind, IdRule, LabelRule, LayoutOptions, ListRule};

fn layout() -> Layout {
    let column =
        |(name, kind): (&str, ColumnKind)| Column { name: name.to_owned(), of: Vec::new(), kind };
    let list = ListRule { separator: "|".to_owned(), most: 9, values: None };
    let columns = [
        ("y", ColumnKind::Label(LabelRule::default())),
        ("a", ColumnKind::Id(IdRule::default())),
        ("long name", ColumnKind::Id(IdRule::default())),
        ("l", ColumnKind::Id(IdRule { list: Some(list), ..IdRule::default() })),
    ];
    let options =
        LayoutOptions { missing: vec!["NA".to_owned(), "7".to_owned()], ..Default::default() };
    Layout::new(options, columns.map(column).to_vec()).unwrap()
}

/// Values of all sources, or an error.
fn read(layout: &Layout, line: &str, quick: bool) -> Result<Vec<String>, String> {
    let mut fields = Fields::new(layout.sources.len());
    let names = Names::of(layout).filter(|_| quick);
    let body = line.as_bytes();
    split(layout, body, Some(line), 0..line.len(), names.as_ref(), &mut fields)
        .map_err(|fault| format!("{fault:?}"))?;
    let found = |source| {
        let record = fields.record(body);
        let one = record.bytes(source).map(<[u8]>::to_vec);
        let list = record.list(source).map(|value| value.bytes().to_vec());
        format!("{} {one:?} {:?}", fields.has(source), list.collect::<Vec<_>>())
    };
    Ok((0..layout.sources.len()).map(found).collect())
}

/// Whether the quick parser accepts the line.
fn is_quick(layout: &Layout, line: &str) -> bool {
    let mut fields = Fields::new(layout.sources.len());
    let names = Names::of(layout).unwrap();
    quick::split(layout, &names, line.as_bytes(), 0..line.len(), &mut fields)
}

#[test]
fn usual_lines_are_quick() {
    let layout = layout();
    for line in [
        r#"{"y":1,"a":"x","long name":-1.5e3}"#,
        r#"{"y": 1, "a": null, "z": "none of ours", "long name": true}"#,
        r#"{"long name":"ein längerer Text, über acht Bytes","y":0,"a":0.25}"#,
        r#"{"a":"","y":false,"z":12}"#,
    ] {
        assert!(is_quick(&layout, line), "{line}");
        assert_eq!(read(&layout, line, true), read(&layout, line, false));
    }
    for line in [
        "{}",
        "",
        r#"{"y":01}"#,
        r#"{"y":1.}"#,
        r#"{"y":-}"#,
        r#"{"y":1e}"#,
        r#"{"y":+1}"#,
        r#"{"y":1}}"#,
        r#"{"y":1} "#,
        r#"{"y":1,}"#,
        r#"{"y" :1}"#,
        r#"{"y":nul}"#,
        r#"{"y":1,"y":1}"#,
        r#"{"a":"\n"}"#,
        "{\"a\":\"\t\"}",
        r#"{"a":"x}"#,
        r#"{"a":[1]}"#,
        r#"{"z":{"a":1}}"#,
        r#"{"\u0061":1}"#,
    ] {
        assert!(!is_quick(&layout, line), "{line}");
    }
}

fn part() -> impl Strategy<Value = String> {
    let parts = [
        "{",
        "}",
        "\"y\"",
        "\"a\"",
        "\"long name\"",
        "\"l\"",
        "\"z\"",
        ":",
        ": ",
        ",",
        ", ",
        "1",
        "0",
        "-1.5",
        "01",
        "1e5",
        "1E-5",
        "1.",
        "7",
        "\"7\"",
        "\"NA\"",
        "\"\"",
        "\"text\"",
        "\"é\\n\"",
        "true",
        "false",
        "null",
        "[1,\"b\"]",
        "{\"a\":1}",
        "\\",
        "\"",
        " ",
        "\u{1}",
    ];
    prop::sample::select(parts.to_vec()).prop_map(str::to_owned)
}

/// A line that may be an object.
fn line() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec!["y", "a", "long name", "l", "z", "\\u0061"]);
    let value = prop_oneof![4 => part(), 1 => "[0-9]{1,12}", 1 => "\"[a-zé ]{0,20}\""];
    let pair = (name, prop::bool::ANY, value).prop_map(|(name, space, value)| {
        format!("\"{name}\":{}{value}", if space { " " } else { "" })
    });
    let object =
        prop::collection::vec(pair, 0..6).prop_map(|pairs| format!("{{{}}}", pairs.join(",")));
    let broken = prop::collection::vec(part(), 0..14).prop_map(|parts| parts.concat());
    let cut = (object.clone(), any::<prop::sample::Index>()).prop_map(|(object, at)| {
        let cuts: Vec<usize> = object.char_indices().map(|(at, _)| at).collect();
        object[..cuts[at.index(cuts.len())]].to_owned()
    });
    prop_oneof![6 => object, 2 => broken, 1 => cut]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if std::env::var_os("STEPWELL_LONG").is_some() { 200_000 } else { 4000 },
        failure_persistence: None,
        ..Default::default()
    })]

    #[test]
    fn quick_lines_are_the_library_s(line in line()) {
        let layout = layout();
        prop_assert_eq!(read(&layout, &line, true), read(&layout, &line, false));
    }
}
