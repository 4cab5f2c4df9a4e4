//! The same list gives the same bag in every format, dropped ids are counted, and values are
//! trimmed if requested.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::data_type::{ByteArray, ByteArrayType, Int32Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use stepwell_data::{
    CacheWriter, Column, ColumnKind, CutLists, Files, Format, IdRule, Input, LabelRule, Layout,
    LayoutOptions, ListRule, ReadOptions, Reader, SourceFile, guess,
};

use crate::common::*;
use crate::rows::{column, options_of, quoted};

fn list(separator: &str, most: usize) -> ColumnKind {
    let list = Some(ListRule { separator: separator.to_owned(), most, values: None });
    ColumnKind::Id(IdRule { list, ..Default::default() })
}

/// A label and a list.
fn tagged(options: LayoutOptions, kind: ColumnKind) -> Arc<Layout> {
    let columns =
        vec![column("label", ColumnKind::Label(LabelRule::default())), column("tags", kind)];
    Arc::new(Layout::new(options, columns).unwrap())
}

/// A file with a label of 1 and one of `texts` in each row.
fn texts_in_parquet(path: &Path, texts: &[&str]) {
    let schema = "message rows { required int32 label; optional binary tags (UTF8); }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let file = std::fs::File::create(path).unwrap();
    let options = Arc::new(WriterProperties::builder().build());
    let mut writer = SerializedFileWriter::new(file, schema, options).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut labels = group.next_column().unwrap().unwrap();
    let ones = vec![1; texts.len()];
    labels.typed::<Int32Type>().write_batch(&ones, None, None).unwrap();
    labels.close().unwrap();
    let mut tags = group.next_column().unwrap().unwrap();
    let values: Vec<ByteArray> = texts.iter().map(|text| text.as_bytes().to_vec().into()).collect();
    let levels = vec![1; texts.len()];
    tags.typed::<ByteArrayType>().write_batch(&values, Some(&levels), None).unwrap();
    tags.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
}

/// A column with truncated lists, the number of their examples, and of dropped ids.
type Cut = (String, u64, u64);

/// The bags of the list in each record, and the dropped ids.
fn bags(path: &Path, layout: &Arc<Layout>) -> Result<(Vec<Vec<u64>>, Vec<Cut>), String> {
    let files = Files { paths: vec![path.to_owned()], layout: Some(Arc::clone(layout)) };
    let options = ReadOptions { block_bytes: 1 << 12, ..options_of(layout, 1 << 12) };
    let mut reader = Reader::open(Input::Files(files), &options).map_err(|of| of.to_string())?;
    let (mut chunk, mut bags, mut cut) = (reader.chunk(), Vec::new(), CutLists::default());
    while reader.next_chunk(&mut chunk).map_err(|error| error.to_string())? {
        bags.extend((0..chunk.len()).map(|at| chunk.bag(at, 0).iter().map(|key| key.0).collect()));
        cut.add(&chunk, chunk.len());
    }
    assert_eq!(cut.examples, bags.len() as u64);
    let of = cut.of(layout).into_iter();
    Ok((bags, of.map(|cut| (cut.column, cut.examples, cut.ids)).collect()))
}

fn keys(items: &[&str]) -> Vec<u64> {
    items.iter().map(|item| stepwell_base::key_of("tags", item.as_bytes()).0).collect()
}

/// The texts as lists, in each format with texts.
fn files_of(folder: &Path, texts: &[&str]) -> Vec<PathBuf> {
    let csv: String = texts.iter().map(|text| format!("1,{}\n", quoted(text))).collect();
    let object = |text: &&str| serde_json::json!({ "label": 1, "tags": text }).to_string() + "\n";
    let json: String = texts.iter().map(object).collect();
    let parquet = folder.join("tags.parquet");
    texts_in_parquet(&parquet, texts);
    vec![
        write(folder, "tags.csv", format!("label,tags\n{csv}")),
        write(folder, "tags.jsonl", json),
        parquet,
    ]
}

#[test]
fn lists_in_brackets_are_the_bags_of_json_in_every_format() {
    let folder = tempfile::tempdir().unwrap();
    let texts = ["[7, 6]", "['red', \"new\"]", "[]", "[5]", "[7 6 5]", "a|NA|b", "[None, NA, c]"];
    let expected = [
        keys(&["7", "6"]),
        keys(&["red", "new"]),
        keys(&[]),
        keys(&["5"]),
        keys(&["7", "6", "5"]),
        keys(&["a", "b"]),
        keys(&["c"]),
    ];
    for separator in ["|", ","] {
        let options = LayoutOptions { missing: vec!["NA".to_owned()], ..Default::default() };
        let layout = tagged(options, list(separator, 8));
        let files = files_of(folder.path(), &texts);
        let json = "{\"label\":1,\"tags\":[7,6]}\n{\"label\":1,\"tags\":[\"red\",\"new\"]}\n\
                    {\"label\":1,\"tags\":[]}\n{\"label\":1,\"tags\":[\"5\"]}\n\
                    {\"label\":1,\"tags\":[7,6,5]}\n{\"label\":1,\"tags\":[\"a\",\"NA\",\"b\"]}\n\
                    {\"label\":1,\"tags\":[null,\"NA\",\"\",\"c\"]}\n";
        let lists = write(folder.path(), "lists.jsonl", json);
        for path in files.iter().chain([&lists]) {
            let (found, cut) = bags(path, &layout).unwrap();
            let count = if separator == "|" || *path == lists { 7 } else { 5 };
            assert_eq!(found[..count], expected[..count], "{} {separator}", path.display());
            assert_eq!(cut, []);
        }
    }
    for path in files_of(folder.path(), &["[[1, 2], [3]]"]) {
        let error = bags(&path, &tagged(LayoutOptions::default(), list("|", 8))).unwrap_err();
        assert!(error.contains("a list within its list"), "{}: {error}", path.display());
    }
}

#[test]
fn lists_in_brackets_are_guessed() {
    let folder = tempfile::tempdir().unwrap();
    let text: String = (0..40).map(|n| format!("{},\"[{n}, {}]\"\n", n % 2, n % 7)).collect();
    let path = write(folder.path(), "a.csv", format!("click,tags\n{text}"));
    let found = format!("{:?}", guess(&path).unwrap().columns[1].kind);
    assert_eq!(found, "Ids(\"|\", 4)");
}

#[test]
fn what_lists_lose_is_counted_alike_in_every_format() {
    let folder = tempfile::tempdir().unwrap();
    let texts = ["a|b|c", "a||b|", "[a, b, c, d]", "a|b|c|NA|c", "", "a"];
    let options = LayoutOptions { missing: vec!["NA".to_owned()], ..Default::default() };
    let layout = tagged(options, list("|", 2));
    let ab = keys(&["a", "b"]);
    let expected = [ab.clone(), ab.clone(), ab.clone(), ab.clone(), keys(&[]), keys(&["a"])];
    let cut = [("tags".to_owned(), 3, 5)];
    for path in files_of(folder.path(), &texts) {
        let found = bags(&path, &layout).unwrap();
        assert_eq!(found, (expected.to_vec(), cut.to_vec()), "{}", path.display());
        let bare = Arc::new(layout.without_label().unwrap());
        assert_eq!(bags(&path, &bare).unwrap(), found, "{}", path.display());
    }
    let svm = "1 tags:a:1 tags:b:1 tags:c:1\n1 tags:a:1\n1 tags:a:1 tags:b:1\n";
    let path = write(folder.path(), "a.svm", svm);
    assert_eq!(bags(&path, &layout).unwrap().1, [("tags".to_owned(), 1, 1)]);
    // A rejected record drops no ids.
    let path = write(folder.path(), "bad.csv", "label,tags\n1,a|b|c\n2,a|b|c\n");
    let files = Files { paths: vec![path], layout: Some(Arc::clone(&layout)) };
    let options = ReadOptions { skip_max: 9, ..options_of(&layout, 1 << 12) };
    let mut reader = Reader::open(Input::Files(files), &options).unwrap();
    let mut chunk = reader.chunk();
    assert!(reader.next_chunk(&mut chunk).unwrap());
    assert_eq!((chunk.cut_lists.len(), reader.skipped()), (1, 1));
    // Examples past the end of a pass belong to another one.
    let mut cut = CutLists::default();
    cut.add(&chunk, 0);
    assert_eq!(cut, CutLists::default());
}

#[test]
fn a_sign_of_comments_within_a_word_is_part_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let options = LayoutOptions { format: Format::LibSvm, ..Default::default() };
    let layout = tagged(options, list("|", 8));
    let text = "1 tags:u#5:1 tags:#fff:1 # tags:x:1\n\
                0 tags:a:1\t#tags:b:1\n\
                # 1 tags:c:1\n\
                1 tags:http://x/#a:1\n\
                1 tags:c#:1 #\n";
    let read = |text: &str| bags(&write(folder.path(), "a.ffm", text), &layout);
    let lines: Vec<&str> = text.lines().collect();
    let of = |line: usize| read(&format!("{}\n", lines[line])).map(|(bags, _)| bags);
    assert_eq!(of(0), Ok(vec![keys(&["u#5", "#fff"])]));
    assert_eq!(of(1), Ok(vec![keys(&["a"])]));
    assert!(of(2).unwrap_err().contains("has no label"));
    assert!(of(3).unwrap_err().contains("is not `field:id:value`"));
    assert_eq!(of(4), Ok(vec![keys(&["c#"])]));
    // A comment needs a space before its sign; a value followed by one is malformed.
    assert!(read("1 tags:a:1#2\n").unwrap_err().contains("tags has the item 'a:1#2'"));
    // A guess about such a file matches how it is read.
    let path = write(folder.path(), "b.ffm", "1 tags:u#5:1 item:3:1\n0 tags:v#6:1 item:4:1\n");
    let guess = guess(&path).unwrap();
    let names: Vec<&str> = guess.columns.iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["label", "item", "tags"]);
}

#[test]
fn spaces_around_values_are_dropped_in_every_format() {
    let folder = tempfile::tempdir().unwrap();
    let texts = [" a ", "a", " ?", "? ", "b c", "  "];
    let (trim, missing) = (true, vec!["?".to_owned()]);
    let id = ColumnKind::Id(IdRule::default());
    let layout = tagged(LayoutOptions { trim, missing, ..Default::default() }, id);
    let expected: Vec<Vec<u64>> =
        ["a", "a", "", "", "b c", ""].iter().map(|text| keys(&[text])).collect();
    let csv: String = texts.iter().map(|text| format!(" 1 ,{text}\n")).collect();
    let escaped: String = texts
        .iter()
        .map(|text| format!("{{\"label\": \" 1\", \"tags\": \"\\u0020{text}\"}}\n"))
        .collect();
    let mut files = files_of(folder.path(), &texts);
    files.remove(0);
    files.push(write(folder.path(), "plain.csv", format!("label, tags\n{csv}")));
    files.push(write(folder.path(), "escaped.jsonl", escaped));
    for path in &files {
        assert_eq!(bags(path, &layout).unwrap().0, expected, "{}", path.display());
    }
    // Spaces stay if trimming isn't requested.
    let layout = tagged(LayoutOptions::default(), ColumnKind::Id(IdRule::default()));
    for path in files_of(folder.path(), &texts) {
        let found = bags(&path, &layout).unwrap().0;
        assert_eq!(found[0], keys(&[" a "]), "{}", path.display());
    }
}

#[test]
fn many_lists_that_are_cut_take_bounded_memory() {
    let folder = tempfile::tempdir().unwrap();
    let layout = tagged(LayoutOptions { header: Some(false), ..Default::default() }, list("|", 1));
    let path = write(folder.path(), "many.csv", "1,a|b\n".repeat(30_000));
    let files = Files { paths: vec![path], layout: Some(Arc::clone(&layout)) };
    let options = options_of(&layout, 1 << 18);
    let mut reader = Reader::open(Input::Files(files), &options).unwrap();
    let (mut chunk, mut cut) = (reader.chunk(), CutLists::default());
    while reader.next_chunk(&mut chunk).unwrap() {
        assert!(chunk.bytes() <= layout.chunk_bytes_max(options.block_bytes));
        cut.add(&chunk, chunk.len());
    }
    let note = cut.of(&layout)[0].note();
    assert!(note.starts_with("tags: 30000 of 30000 examples have more than 1 ids"), "{note}");
    assert!(note.contains("30000 ids after these are left out"), "{note}");
}

#[test]
fn columns_of_named_ids_know_what_they_lose_by_number() {
    let columns: Vec<Column> = vec![
        column("label", ColumnKind::Label(LabelRule::default())),
        column("user", ColumnKind::Id(IdRule::default())),
        column("one", list("|", 1)),
        column("two", list(",", 2)),
    ];
    let layout = Arc::new(Layout::new(LayoutOptions::default(), columns).unwrap());
    let folder = tempfile::tempdir().unwrap();
    let text = "label;user;one;two\n1;u;a|b;1,2,3,4\n0;u;a|b;1\n";
    let found = bags(&write(folder.path(), "a.csv", text), &layout).unwrap().1;
    assert_eq!(found, [("one".to_owned(), 2, 2), ("two".to_owned(), 1, 2)]);
}

#[test]
fn a_cache_of_lists_has_at_most_the_planned_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let layout = tagged(LayoutOptions { format: Format::Csv, ..Default::default() }, list("|", 99));
    for ids in [0, 1, 4, 40] {
        let tags = |n: u64| (0..n % (ids + 1)).map(|id| (id % 10).to_string()).collect::<Vec<_>>();
        let record = |n| format!("{},{}\n", n % 2, tags(n).join("|"));
        let text = "label,tags\n".to_owned() + &(0..20_000).map(record).collect::<String>();
        let path = folder.path().join("lists.csv");
        std::fs::write(&path, text).unwrap();
        let files = Files { paths: vec![path.clone()], layout: Some(Arc::clone(&layout)) };
        let sources = [SourceFile::of(&path, Some(&layout)).unwrap()];
        for lines in [None, Some(20_000)] {
            let blocks = CacheWriter::blocks_max(&files, lines, layout.schema());
            let cache = folder.path().join("cache");
            let mut writer =
                CacheWriter::new(&cache, &files, &sources, layout.schema(), blocks).unwrap();
            let mut reader =
                Reader::open(Input::Files(files.clone()), &options_of(&layout, 1 << 16)).unwrap();
            let mut chunk = reader.chunk();
            while reader.next_chunk(&mut chunk).unwrap() {
                writer.add(&chunk, chunk.len()).unwrap();
            }
            writer.finish().unwrap();
            std::fs::remove_file(cache).unwrap();
        }
    }
}
