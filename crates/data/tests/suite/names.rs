//! Columns by name: which first lines are headers and which are records, and the order of columns
//! in files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use stepwell_data::{
    Column, ColumnKind, DenseRule, Files, Format, IdRule, Input, LabelRule, Layout, LayoutOptions,
    ReadOptions, Texts, names_notes, resolve,
};

use crate::common::*;
use crate::rows::{column, options_of, read};

fn id(name: &str) -> Column {
    column(name, ColumnKind::Id(IdRule::default()))
}

fn label(positive: &[&str]) -> Column {
    let positive = positive.iter().map(|text| (*text).to_owned()).collect();
    column("liked", ColumnKind::Label(LabelRule { positive, ..Default::default() }))
}

/// A label of texts, a user, an item.
fn liked(options: LayoutOptions) -> Arc<Layout> {
    Arc::new(Layout::new(options, vec![label(&["yes"]), id("user"), id("item")]).unwrap())
}

fn bare(layout: &Arc<Layout>) -> Arc<Layout> {
    Arc::new(layout.without_label().unwrap())
}

/// Labels and bags, without positions.
type Examples = Vec<(u32, Vec<Vec<u64>>)>;

fn read_text(folder: &Path, text: &str, layout: &Arc<Layout>) -> Result<Examples, String> {
    let path = write(folder, "text", text);
    let rows = read(&path, layout, &options_of(layout, 1 << 16));
    let rows = rows.map_err(|error| error.to_string())?.0;
    Ok(rows.into_iter().map(|(_, label, _, bags)| (label, bags)).collect())
}

fn notes(folder: &Path, text: &str, layout: &Arc<Layout>) -> Vec<String> {
    let path = write(folder, "text", text);
    let said = names_notes(&Files { paths: vec![path], layout: Some(Arc::clone(layout)) }).unwrap();
    [said.notes, said.warnings].concat()
}

#[test]
fn names_in_another_case_are_names_and_said() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let layout = liked(LayoutOptions::default());
    let expected = read_text(folder, "liked,user,item\nyes,u1,3\nno,u2,4\n", &layout).unwrap();
    assert!(notes(folder, "liked,user,item\nyes,u1,3\n", &layout).is_empty());
    let named = liked(LayoutOptions { header: Some(true), ..Default::default() });
    for text in [
        "Liked,Item,User\nyes,3,u1\nno,4,u2\n",
        "\u{feff}LIKED,ITEM,USER\r\nyes,3,u1\r\nno,4,u2\r\n",
        "\"Item\",\"index\",\"User\",\"liked\"\n3,0,u1,yes\n4,1,u2,no\n",
        "ITEM;LIKED;user\n3;yes;u1\n4;no;u2\n",
        "Item\tLiked\tUser\n3\tyes\tu1\n4\tno\tu2\n",
    ] {
        for layout in [&layout, &named] {
            assert_eq!(read_text(folder, text, layout).as_ref(), Ok(&expected), "{text}");
            let notes = notes(folder, text, layout);
            assert!(notes.len() == 1 && notes[0].contains("for item"), "{notes:?}");
        }
    }
    // Concatenated with a file that has the same header.
    for (again, row) in [
        ("Liked,Item,User", "yes,3,u1"),
        ("liked,user,item", "yes,u1,3"),
        ("Item,\"x\",User,liked", "3,x,u1,yes"),
    ] {
        for end in ["\n", "\r\n"] {
            let text = [again, row, again, row, ""].join(end);
            let error = read_text(folder, &text, &layout).unwrap_err();
            assert!(error.contains("line 3") && error.contains("repeats the header"), "{error}");
        }
    }
}

#[test]
fn a_first_line_that_may_be_names_is_never_a_record_silently() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let layout = liked(LayoutOptions::default());
    let rows = "yes,u1,i3\nno,u2,i4\n";
    for text in [
        "stars,customer,film\n",
        "vote,customer,film\nvote,customer,film\n",
        "Liked,Item,customer\n",
        // Both `USER` and `User` may be the user.
        "vote,USER,User\n",
    ] {
        let error = read_text(folder, &format!("{text}{rows}"), &layout).unwrap_err();
        assert!(error.contains("data.header") && !error.contains('\n'), "{error}");
        let bare = bare(&layout);
        let error = read_text(folder, &format!("{text}{rows}"), &bare).unwrap_err();
        assert!(error.contains("data.header") || error.contains("no column"), "{error}");
    }
    // The suggested fix works.
    let by_place = liked(LayoutOptions { header: Some(false), ..Default::default() });
    let expected = read_text(folder, rows, &by_place).unwrap();
    assert_eq!(expected.len(), 2);
    // A text that means a click, a number, or a repeated value shows that it is a record.
    assert_eq!(read_text(folder, rows, &layout).as_ref(), Ok(&expected));
    let numbers = |text: &str| read_text(folder, text, &layout).map(|rows| rows.len());
    assert_eq!(numbers("no,u2,4\nno,u3,x\n"), Ok(2));
    assert_eq!(numbers("no,u2,i4\nno,u3,i5\n"), Ok(2));
    let far: String = (0..3000).map(|n| format!("maybe{n},u{n},i{n}\n")).collect();
    assert_eq!(numbers(&format!("no,u-a,i-a\n{far}yes,u-a,i-b\n")), Ok(3002));
    assert!(numbers(&format!("vote,customer,film\n{far}")).unwrap_err().contains("data.header"));
    // A single record is inconclusive.
    assert!(numbers("no,u2,i4\n").unwrap_err().contains("data.header = false"));
    // Labels of 0 and 1 are numbers, and can't name a column.
    let plain = Arc::new(Layout::new(Default::default(), vec![label(&[]), id("a")]).unwrap());
    assert_eq!(read_text(folder, "0,x\n", &plain).unwrap().len(), 1);
    assert_eq!(read_text(folder, "true,x\n", &plain).unwrap().len(), 1);
    assert!(read_text(folder, "clicked,x\n0,y\n", &plain).unwrap_err().contains("data.header"));
}

#[test]
fn ids_that_scores_stand_beside_are_of_the_same_records() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let layout = liked(LayoutOptions::default());
    let texts = |text: &str, name: &str| {
        let path = write(folder, "text", text);
        let files = Files { paths: vec![path], layout: Some(Arc::clone(&layout)) };
        let (mut texts, mut found) =
            (Texts::open(&files, &layout, &[name.to_owned()])?, Vec::new());
        while texts.next(&mut found)? {}
        Ok::<_, stepwell_data::DataError>(found.concat())
    };
    // The label alone shows that it is a record.
    assert_eq!(texts("yes,u1,i3\n", "user").unwrap(), b"u1");
    assert_eq!(texts("Liked,Item,User\nyes,3,u1\n", "user").unwrap(), b"u1");
    assert_eq!(texts("Liked,Item,User,Session\nyes,3,u1,s\n", "session").unwrap(), b"s");
    assert!(texts("Liked,Item,User\nyes,3,u1\n", "session").is_err());
}

#[test]
fn files_without_names_beside_others_lie_as_these_say_or_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let layout = liked(LayoutOptions::default());
    let read = |texts: &[&str]| {
        let file = |(number, text): (usize, &&str)| write(folder, &number.to_string(), text);
        let paths: Vec<PathBuf> = texts.iter().enumerate().map(file).collect();
        let files = Files { paths, layout: Some(Arc::clone(&layout)) };
        let options = ReadOptions::new(layout.schema());
        read_all(Input::Files(files), &options).map_err(|error| error.to_string())
    };
    let [same, other] = ["liked,user,item\nyes,u1,3\n", "item,user,liked\n3,u1,yes\n"];
    let part = "yes,u2,4\n";
    assert_eq!(read(&[same, part]).unwrap().0.len(), 2);
    assert_eq!(read(&[same, other]).unwrap().0.len(), 2);
    for texts in [[other, part], [part, other], ["liked,user,item,x\nyes,u1,3,0\n", part]] {
        let error = read(&texts).unwrap_err();
        assert!(error.contains("has other columns than the settings, or another order"), "{error}");
    }
    // Files without records are irrelevant.
    assert_eq!(read(&[other, "", "{\"liked\":\"yes\",\"user\":1}\n"]).unwrap().0.len(), 2);
}

#[test]
fn columns_that_a_later_file_lacks_are_said() {
    let folder = tempfile::tempdir().unwrap();
    let columns = vec![
        column("label", ColumnKind::Label(LabelRule::default())),
        column("price", ColumnKind::Dense(DenseRule::default())),
        id("user"),
        id("never"),
    ];
    let layout = Arc::new(Layout::new(LayoutOptions::default(), columns).unwrap());
    let file = |name: &str, text: &str| write(folder.path(), name, text);
    let paths = vec![
        file("a.jsonl", "{\"label\":1,\"price\":2,\"user\":\"u\"}\n"),
        file("b.jsonl", "{\"label\":1,\"cost\":2,\"user\":\"u\"}\n"),
        file("c.svm", "1 price:2 user_name:1\n"),
        file("d.svm", "1 price:2 user:1\n"),
    ];
    let files = |paths| Files { paths, layout: Some(Arc::clone(&layout)) };
    let notes = names_notes(&files(paths)).unwrap().notes;
    let of = |file: &str| {
        let found = notes.iter().filter(|note| note.contains(file));
        found.cloned().collect::<Vec<String>>().join("; ")
    };
    assert!(of("a.jsonl").contains("has never: missing in each"), "{notes:?}");
    assert!(of("b.jsonl").contains("has price: missing in each"), "{notes:?}");
    assert!(of("c.svm").contains("has user (is it user_name?): missing in each"), "{notes:?}");
    assert!(of("d.svm").is_empty(), "{notes:?}");
    // Nearly equal names are errors.
    for (name, text) in [
        ("e.jsonl", "{\"label\":1,\"Price\":2,\"user\":\"u\"}\n"),
        ("f.jsonl", "{\"label\":1,\"prise\":2,\"user\":\"u\"}\n"),
        ("g.svm", "1 price:2 User:1\n"),
    ] {
        let error = names_notes(&files(vec![file(name, text)])).unwrap_err();
        assert!(error.is_of_settings(), "{error}");
        let error = error.to_string();
        assert!(error.contains(&format!("{name}: none of its first 1 records has")), "{error}");
        assert!(error.contains("give") && error.contains("the type ignored"), "{error}");
    }
}

#[test]
fn matches_of_a_pattern_come_in_the_order_of_their_numbers() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["day_10.csv", "day_2.csv", "day_1.csv", "day_02b.csv", "day_100.csv"] {
        write(folder.path(), name, "1,2\n");
    }
    let names = |pattern: &str| -> Vec<String> {
        let found = resolve(&[folder.path().join(pattern)]).unwrap();
        let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
        found.iter().map(name).collect()
    };
    let expected = ["day_1.csv", "day_2.csv", "day_02b.csv", "day_10.csv", "day_100.csv"];
    assert_eq!(names("day_*.csv"), expected);
    assert_eq!(names("*"), expected);
}

#[test]
fn a_separator_is_of_delimited_text_alone() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let columns = || vec![column("label", ColumnKind::Label(LabelRule::default())), id("user")];
    let layout = |separator: u8, header| {
        let options = LayoutOptions { separator: Some(separator), header, ..Default::default() };
        Arc::new(Layout::new(options, columns()).unwrap())
    };
    let semicolons = layout(b';', None);
    let expected = read_text(folder, "label;user\n1;a\n0;b\n", &semicolons).unwrap();
    let json = "{\"label\": 1, \"user\": \"a\"}\n{\"label\": 0, \"user\": \"b\"}\n";
    for separator in [b';', b',', b' ', b'\t'] {
        let found = read_text(folder, json, &layout(separator, None));
        assert_eq!(found.as_ref(), Ok(&expected), "{}", char::from(separator));
    }
    let numbers = read_text(folder, "label;user\n1;5\n0;6\n", &semicolons);
    assert_eq!(read_text(folder, "1 user:5\n0 user:6\n", &semicolons), numbers);
    // Words separated by spaces are fields, regardless of their form.
    let spaces = layout(b' ', Some(false));
    assert_eq!(read_text(folder, "1 3:1\n", &spaces).unwrap().len(), 1);
    let braces = layout(b';', Some(false));
    assert!(read_text(folder, "{b};c\n", &braces).unwrap_err().contains("line 1, column 1"));
    assert_eq!(read_text(folder, "1;{a}\n0;{b}\n", &semicolons).unwrap().len(), 2);
}

#[test]
fn fields_between_spaces_may_be_quoted_and_are_never_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let columns = || vec![label(&[]), id("user"), id("city")];
    let options = LayoutOptions { separator: Some(b' '), ..Default::default() };
    let layout = Arc::new(Layout::new(options.clone(), columns()).unwrap());
    let json = "{\"liked\":1,\"user\":\"u 1\",\"city\":\"paris\"}\n\
                {\"liked\":0,\"user\":\"u2\",\"city\":\"new york\"}\n";
    let auto = Arc::new(Layout::new(LayoutOptions::default(), columns()).unwrap());
    let expected = read_text(folder, json, &auto).unwrap();
    for text in [
        "liked user city\n1 \"u 1\" paris\n0 u2 \"new york\"\n",
        "city \"user\" liked\r\nparis \"u 1\" 1\r\n\"new york\" u2 0\r\n",
    ] {
        assert_eq!(read_text(folder, text, &layout).as_ref(), Ok(&expected), "{text}");
    }
    for text in ["1  a b\n", "1 a b \n", " 1 a b\n", "1 \"a\"  b\n"] {
        let text = format!("liked user city\n{text}");
        let error = read_text(folder, &text, &layout).unwrap_err();
        assert!(error.contains("4 columns with spaces between them where 3"), "{error}");
    }
    let error = Layout::new(LayoutOptions { trim: true, ..options }, columns()).unwrap_err();
    assert!(error.to_string().contains("give one of them"), "{error}");
}

#[test]
fn the_number_of_a_long_line_counts_the_names() {
    let folder = tempfile::tempdir().unwrap();
    let layout = liked(LayoutOptions::default());
    let rows = "yes,u1,3\n".repeat(5);
    let long = format!("liked,user,item\n{rows}yes,{},4\nno,u,5\n", "x".repeat(600));
    let path = write(folder.path(), "long.csv", &long);
    let error = read(&path, &layout, &options_of(&layout, 300)).unwrap_err().to_string();
    assert!(error.contains("line 7,"), "{error}");
    let huge = format!("liked,user,item\n{rows}yes,{},4\n", "x".repeat(3 << 20));
    let path = write(folder.path(), "huge.csv", &huge);
    let files = Files { paths: vec![path], layout: Some(layout) };
    let error = Input::Files(files).lines_of_each().unwrap_err().to_string();
    assert!(error.contains("line 7,"), "{error}");
}

#[test]
fn a_mark_before_plain_lines_is_no_part_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let plain = write(folder.path(), "plain", lines(0..9));
    let marked = write(folder.path(), "marked", format!("\u{feff}{}", lines(0..9)));
    let zipped = write(folder.path(), "zipped", gzip(format!("\u{feff}{}", lines(0..9))));
    let read = |path: PathBuf| read_files(&[path], &blocks_of(100)).unwrap();
    let expected = read(plain);
    assert_eq!(read(marked), expected);
    assert_eq!(read(zipped), expected);
    let wide = write(folder.path(), "wide", b"\xFF\xFE1\0\t\0");
    let error = read_files(&[wide], &blocks_of(100)).unwrap_err().to_string();
    assert!(error.contains("UTF-16"), "{error}");
}

#[test]
fn labels_of_libsvm_are_texts_where_texts_count_as_clicks() {
    let folder = tempfile::tempdir().unwrap();
    let labels = |positive: &[&str], text: &str| -> Vec<f32> {
        let positive = positive.iter().map(|text| (*text).to_owned()).collect();
        let rule = LabelRule { positive, ..Default::default() };
        let columns = vec![column("label", ColumnKind::Label(rule)), id("user")];
        let options = LayoutOptions { format: Format::LibSvm, ..Default::default() };
        let layout = Arc::new(Layout::new(options, columns).unwrap());
        let rows = read_text(folder.path(), text, &layout).unwrap();
        rows.iter().map(|(label, _)| f32::from_bits(*label)).collect()
    };
    let text = "+1 user:5\n-1 user:6\n1 user:7\n0 user:8\n";
    assert_eq!(labels(&["+1"], text), [1.0, 0.0, 0.0, 0.0]);
    assert_eq!(labels(&["-1"], text), [0.0, 1.0, 0.0, 0.0]);
    assert_eq!(labels(&["1"], text), [1.0, 0.0, 1.0, 0.0]);
    assert_eq!(labels(&[], text), [1.0, 0.0, 1.0, 0.0]);
    assert_eq!(labels(&["1", "+1", "0"], text), [1.0, 1.0, 1.0, 1.0]);
}
