//! The same rows give the same examples in every format, as documented.

use std::sync::Arc;

use proptest::prelude::*;
use stepwell_base::Key;
use stepwell_data::{
    Column, ColumnKind, DataError, DenseRule, Files, Format, IdRule, Input, LabelRule, Layout,
    LayoutOptions, ListRule, Part, Position, ReadOptions, SplitBy, SplitRule, Transform,
    log1p_of_number,
};

use crate::common::*;
use crate::rows::*;

#[test]
fn the_same_rows_are_the_same_examples_in_every_format() {
    let folder = tempfile::tempdir().unwrap();
    let records = records(500);
    let files = every_format(folder.path(), &records);
    let (expected, _) = read(&files[0].0, &files[0].1, &options_of(&files[0].1, 1 << 20)).unwrap();
    assert_eq!(expected.len(), records.len());
    for (path, layout) in &files {
        for block_bytes in [400, 3000, 1 << 18] {
            let found = read(path, layout, &options_of(layout, block_bytes)).unwrap();
            assert_eq!(found, (expected.clone(), 0), "{} {block_bytes}", path.display());
        }
        let files = Files { paths: vec![path.clone()], layout: Some(Arc::clone(layout)) };
        assert_eq!(Input::Files(files).lines_of_each().unwrap(), [500], "{}", path.display());
        // From any position.
        for line in [1, 49, 50, 170, 333, 499, 500] {
            let start = Position { file: 0, line };
            let options = ReadOptions { start, ..options_of(layout, 2000) };
            let (rows, _) = read(path, layout, &options).unwrap();
            assert!(rows == expected[line as usize..], "{} from {line}", path.display());
        }
        let start = Position { file: 0, line: 501 };
        let beyond = ReadOptions { start, ..options_of(layout, 2000) };
        let error = read(path, layout, &beyond).unwrap_err().to_string();
        assert!(error.contains("it may have changed"), "{error}");
    }
}

#[test]
fn examples_are_what_the_rules_say() {
    let folder = tempfile::tempdir().unwrap();
    let records = records(200);
    let path = write(folder.path(), "a.csv", delimited(&records, ',', false, "\n"));
    let layout = layout(LayoutOptions::default());
    let (rows, _) = read(&path, &layout, &options_of(&layout, 1 << 16)).unwrap();
    let key = |namespace: &str, text: &str| {
        stepwell_base::hash::checksum(format!("{namespace}\0{text}").as_bytes())
    };
    for (record, (_, label, dense, bags)) in records.iter().zip(&rows) {
        assert_eq!(*label, f32::from(record.click).to_bits());
        let price = record.price.map_or(0.0, |price| log1p_of_number(price as f32));
        let age = record.age.map_or(35.0, |age| f64::from(age.clamp(18, 70)));
        let missing = f32::from(u8::from(record.age.is_none()));
        let expected = [price, ((age - 40.0) / 12.5) as f32, missing].map(f32::to_bits);
        assert_eq!(dense[..], expected, "{record:?}");
        let [click, _, _, user, city, _] = fields(record);
        assert_eq!(click, record.click.to_string());
        let tags = record.tags.iter().take(3).map(|tag| key("tags", tag)).collect();
        let group = record.age.map(|age| [18, 30, 50].iter().filter(|of| age >= **of).count());
        let expected: Vec<Vec<u64>> = vec![
            vec![key("user", &user)],
            vec![key("city", &city)],
            tags,
            vec![key("user_city", &format!("{user}\u{1f}{city}"))],
            group.map(|group| key("age_group", &group.to_string())).into_iter().collect(),
        ];
        assert_eq!(*bags, expected, "{record:?}");
    }
}

#[test]
fn a_column_splits_the_data_alike_in_every_format() {
    let folder = tempfile::tempdir().unwrap();
    let records = records(300);
    let by = |by: SplitBy, part: Part| {
        move |options: LayoutOptions| {
            let split = Some(SplitRule { column: "user".to_owned(), by: by.clone() });
            let whole = Layout::new(LayoutOptions { split, ..options }, columns()).unwrap();
            Arc::new(whole.of_part(part))
        }
    };
    let values = || SplitBy::Values(vec![(1i64 << 40).to_string(), ((1i64 << 40) + 7).to_string()]);
    let mut whole = None;
    for (number, (path, layout)) in every_format(folder.path(), &records).iter().enumerate() {
        let all = read(path, layout, &options_of(layout, 900)).unwrap().0;
        let whole = whole.get_or_insert_with(|| all.clone());
        for split in [values(), SplitBy::Share(0.3)] {
            let parts = [Part::Train, Part::Evaluate].map(|part| {
                let layout = by(split.clone(), part)(layout.options().clone());
                read(path, &layout, &options_of(&layout, 900)).unwrap().0
            });
            let [train, evaluate] = &parts;
            let users = |rows: &[Row]| -> std::collections::BTreeSet<u64> {
                rows.iter().map(|row| row.3[0][0]).collect()
            };
            assert!(users(train).is_disjoint(&users(evaluate)), "file {number}");
            assert!(!evaluate.is_empty() && train.len() > evaluate.len());
            let mut together = parts.concat();
            together.sort_by_key(|row| row.0);
            assert!(together == *whole, "file {number}");
        }
    }
    let split = SplitRule { column: "nobody".to_owned(), by: values() };
    let options = LayoutOptions { split: Some(split), ..Default::default() };
    let error = Layout::new(options, columns()).unwrap_err().to_string();
    assert!(error.contains("is not a column of the data"), "{error}");
}

#[test]
fn libsvm_has_numbers_by_name_and_ids_by_field() {
    let folder = tempfile::tempdir().unwrap();
    let id = |ids: usize| {
        let list = Some(ListRule { separator: "|".to_owned(), most: ids, values: None });
        ColumnKind::Id(IdRule { list, ..Default::default() })
    };
    let columns = vec![
        column("label", ColumnKind::Label(LabelRule::default())),
        column("7", ColumnKind::Dense(DenseRule::default())),
        column("item", id(8)),
        column("indices", id(8)),
    ];
    let layout = Arc::new(Layout::new(LayoutOptions::default(), columns).unwrap());
    let text = "+1 3:1 7:0.5 9:1\n-1 item:a:1 item:b:1.0 # 3:1\n0\n1 qid:4 7:2e1 12:1\n";
    let path = write(folder.path(), "a.svm", text);
    let (rows, skipped) = read(&path, &layout, &options_of(&layout, 1 << 16)).unwrap();
    let key = |namespace: &str, text: &str| stepwell_base::key_of(namespace, text.as_bytes());
    let found: Vec<(f32, f32)> =
        rows.iter().map(|row| (f32::from_bits(row.1), f32::from_bits(row.2[0]))).collect();
    assert_eq!((found, skipped), (vec![(1.0, 0.5), (0.0, 0.0), (0.0, 0.0), (1.0, 20.0)], 0));
    let keys = |keys: &[Key]| keys.iter().map(|key| key.0).collect::<Vec<u64>>();
    assert_eq!(rows[0].3, [vec![], keys(&[key("indices", "3"), key("indices", "9")])]);
    assert_eq!(rows[1].3, [keys(&[key("item", "a"), key("item", "b")]), vec![]]);
    let bad = write(folder.path(), "b.svm", "1 3:0.5 7:1\n1 3:x\n");
    let error = read(&bad, &layout, &options_of(&layout, 1 << 16)).unwrap_err().to_string();
    assert!(error.contains("line 2: indices has the item '3:x'"), "{error}");
}

#[test]
fn layouts_that_make_no_examples_are_answered_with_the_mend() {
    let label = || column("y", ColumnKind::Label(LabelRule::default()));
    let id = |name: &str| column(name, ColumnKind::Id(IdRule::default()));
    let refused = |columns: Vec<Column>, answer: &str| {
        let error = Layout::new(LayoutOptions::default(), columns).unwrap_err().to_string();
        assert!(error.contains(answer), "{error}");
    };
    refused(vec![id("a")], "no column is the label");
    refused(vec![label()], "no column is an id");
    refused(vec![label(), id("a"), id("a")], "column a is given twice");
    let weight = |name: &str| column(name, ColumnKind::Weight);
    refused(vec![label(), weight("w"), weight("v"), id("a")], "second weight");
    let both = LabelRule { positive: vec!["yes".to_owned()], is_number: true };
    refused(vec![column("y", ColumnKind::Label(both)), id("a")], "give one of them");
    refused(vec![label(), made_of("b", &["a"], ColumnKind::Id(IdRule::default()))], "a column: ");
    let buckets = IdRule { buckets: vec![2.0, 1.0], ..Default::default() };
    refused(vec![label(), column("a", ColumnKind::Id(buckets))], "ascending order");
    let flat = Transform::Standardise { mean: 1.0, deviation: 0.0 };
    let flat = DenseRule { transform: flat, ..Default::default() };
    refused(vec![label(), id("a"), column("b", ColumnKind::Dense(flat))], "deviation above 0");
    let limits = DenseRule { low: Some(2.0), high: Some(1.0), ..Default::default() };
    refused(vec![label(), id("a"), column("b", ColumnKind::Dense(limits))], "the other way round");
    let huge = DenseRule { low: Some(1e300), ..Default::default() };
    refused(vec![label(), id("a"), column("b", ColumnKind::Dense(huge))], "32-bit");
    let of_label =
        vec![label(), id("a"), made_of("b", &["y", "a"], ColumnKind::Id(Default::default()))];
    let of_label = Layout::new(LayoutOptions::default(), of_label).unwrap();
    let error = of_label.without_label().unwrap_err().to_string();
    assert!(error.contains("column b: is made of y, which is a label"), "{error}");
    let options = LayoutOptions { separator: Some(b'e'), ..Default::default() };
    let error = Layout::new(options, vec![label(), id("a")]).unwrap_err().to_string();
    assert!(error.contains("give another,"), "{error}");
    // The name of the rules changes with the rules, and with nothing else.
    let name = |layout: Arc<Layout>| layout.rules_name();
    let auto = name(layout(LayoutOptions::default()));
    assert_eq!(auto, name(layout(LayoutOptions { format: Format::Csv, ..Default::default() })));
    assert_ne!(auto, name(layout(LayoutOptions { trim: true, ..Default::default() })));
    assert_eq!(auto, "columns fa08a0519f7ddef99c33466115c41789");
}

/// Bytes that nearly are text of some format.
fn texts() -> impl Strategy<Value = Vec<u8>> {
    let parts = prop::sample::select(vec![
        "click",
        "price",
        "age",
        "user",
        "city",
        "tags",
        ",",
        ",",
        ",",
        "\n",
        "\n",
        "\t",
        ";",
        "1",
        "0",
        "2",
        "-1",
        "x",
        "\"",
        "\"\"",
        "{",
        "}",
        "[",
        "]",
        ":",
        "{\"click\":1}\n",
        "null",
        " ",
        "\r\n",
        "\u{feff}",
        "\\u0041",
        "\\",
        "1,2,3,4,5,6\n",
        "1 3:1\n",
        "0,,,,,\n",
        "#",
        "click,price,age,user,city,tags\n",
        "{\"click\":0,\"tags\":[\"a\",1,null,true]}\n",
        "é",
    ]);
    let part = prop_oneof![
        20 => parts.prop_map(|text| text.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..6),
    ];
    prop::collection::vec(part, 0..60).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(1500),
        failure_persistence: None,
        ..Default::default()
    })]

    #[test]
    fn any_text_is_read_or_refused_and_where_it_is_cut_does_not_show(
        bytes in texts(),
        format in prop::sample::select(Format::ALL.to_vec()),
        header in prop::option::of(any::<bool>()),
        trim in any::<bool>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = write(folder.path(), "any", &bytes);
        let missing = vec!["x".to_owned()];
        let layout = layout(LayoutOptions { format, header, trim, missing, ..Default::default() });
        let read = |block_bytes| {
            let options = options_of(&layout, block_bytes);
            read(&path, &layout, &ReadOptions { skip_max: u64::MAX, ..options })
        };
        let whole = read(1 << 16);
        let files = Files { paths: vec![path.clone()], layout: Some(Arc::clone(&layout)) };
        if let (Ok((rows, skipped)), Ok(counted)) = (&whole, Input::Files(files).lines_of_each()) {
            prop_assert_eq!(rows.len() as u64 + skipped, counted[0]);
        }
        for block_bytes in [300, 1000] {
            match (&whole, read(block_bytes)) {
                (Ok(whole), Ok(found)) => prop_assert!(&found == whole, "{block_bytes}"),
                // A line may be too long for this block size.
                (_, Err(DataError::Malformed { .. })) => {}
                (whole, found) => prop_assert!(whole.is_err() && found.is_err(), "{found:?}"),
            }
        }
        let _ = stepwell_data::guess(&path);
    }

    #[test]
    fn a_damaged_parquet_file_is_read_or_refused(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in prop::option::of(any::<prop::sample::Index>()),
        kind in 0usize..4,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.parquet");
        let kinds = [Pages::First, Pages::Second, Pages::Plain, Pages::Full];
        parquet(&path, &records(60), 25, kinds[kind]);
        let mut bytes = std::fs::read(&path).unwrap();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        std::fs::write(&path, bytes).unwrap();
        let layout = layout(LayoutOptions::default());
        let options = options_of(&layout, 1 << 16);
        let _ = read(&path, &layout, &ReadOptions { skip_max: u64::MAX, ..options });
        let _ = stepwell_data::guess(&path);
    }
}
