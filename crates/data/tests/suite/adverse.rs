//! Adverse inputs: a corpus of files that once caused trouble, columns in any combination, damaged
//! packed records, and lines that need as much memory as possible.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;
use stepwell_data::{
    Column, ColumnKind, DenseRule, Files, Format, IdRule, Input, LabelRule, Layout, LayoutOptions,
    ListRule, PackedOptions, PackedWriter, Position, ReadFrom, ReadOptions, Reader, SourceOptions,
    TimePart, Transform,
};

use crate::common::*;
use crate::rows::{column, options_of, read};
use crate::shares;

fn id() -> ColumnKind {
    ColumnKind::Id(IdRule::default())
}

fn list(most: usize) -> ColumnKind {
    let list = Some(ListRule { separator: "|".to_owned(), most, values: None });
    ColumnKind::Id(IdRule { list, ..Default::default() })
}

fn label() -> ColumnKind {
    ColumnKind::Label(LabelRule::default())
}

fn dense() -> ColumnKind {
    ColumnKind::Dense(DenseRule::default())
}

/// The columns of the corpus.
fn shop(format: Format, header: Option<bool>) -> Arc<Layout> {
    let columns = vec![
        column("click", label()),
        column("price", dense()),
        column("user", id()),
        column("item", id()),
        column("tags", list(4)),
    ];
    let missing = vec!["NA".to_owned()];
    let options = LayoutOptions { format, header, missing, ..Default::default() };
    Arc::new(Layout::new(options, columns).unwrap())
}

/// A file gives the same result however it is cut into blocks, or an error; the counted lines are
/// those read.
fn read_or_refused(path: &Path, layout: &Arc<Layout>) {
    let at = |block_bytes| {
        let options = options_of(layout, block_bytes);
        read(path, layout, &ReadOptions { skip_max: u64::MAX, ..options })
    };
    let whole = at(1 << 18);
    let files = Files { paths: vec![path.to_owned()], layout: Some(Arc::clone(layout)) };
    let counted = Input::Files(files).lines_of_each();
    if let Ok((rows, skipped)) = &whole {
        assert_eq!(rows.len() as u64 + skipped, counted.unwrap()[0], "{}", path.display());
    }
    for block_bytes in [37, 300, 1000] {
        match (&whole, at(block_bytes)) {
            (Ok(whole), Ok(found)) => assert!(&found == whole, "{} {block_bytes}", path.display()),
            (whole, found) => assert!(whole.is_err() || found.is_err(), "{}", path.display()),
        }
    }
    let _ = stepwell_data::guess(path);
}

#[test]
fn files_that_once_were_trouble_are_read_or_refused() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 40, "{} files", files.len());
    for path in files {
        for format in Format::ALL {
            for header in [None, Some(true), Some(false)] {
                read_or_refused(&path, &shop(format, header));
            }
        }
    }
}

fn rules() -> impl Strategy<Value = ColumnKind> {
    let number = || prop::sample::select(vec![-1.5, 0.0, 1.0, 2.0, 1e9, 1e60, f64::NAN, -1e-60]);
    let maybe = || prop::option::of(number());
    let transform = prop_oneof![
        Just(Transform::None),
        Just(Transform::Log1p),
        (number(), number())
            .prop_map(|(mean, deviation)| Transform::Standardise { mean, deviation }),
    ];
    let dense = (maybe(), maybe(), transform, maybe(), any::<bool>()).prop_map(
        |(low, high, transform, fill, indicator)| {
            ColumnKind::Dense(DenseRule { low, high, transform, fill, indicator })
        },
    );
    let separator = prop::sample::select(vec!["|", "", " ", "\n", "é", "||"]);
    let list = (separator, prop::sample::select(vec![0, 1, 3, 65_536, 65_537])).prop_map(
        |(separator, most)| ListRule { separator: separator.to_owned(), most, values: None },
    );
    let buckets = prop::collection::vec(number(), 0..3);
    let namespace = prop::option::of(prop::sample::select(vec!["a", "", "\0", "shared"]));
    let ids = (namespace, buckets, prop::option::weighted(0.3, list), any::<bool>()).prop_map(
        |(namespace, buckets, list, skip_missing)| {
            let namespace = namespace.map(str::to_owned);
            let bins = (skip_missing && list.is_some()).then_some(3);
            ColumnKind::Id(IdRule {
                namespace,
                buckets,
                list,
                part: TimePart::Whole,
                skip_missing,
                bins,
            })
        },
    );
    let positive = prop::collection::vec(Just("yes".to_owned()), 0..2);
    let label = (positive, any::<bool>()).prop_map(|(positive, number)| {
        let is_number = number && positive.is_empty();
        ColumnKind::Label(LabelRule { positive, is_number })
    });
    prop_oneof![
        1 => Just(ColumnKind::Ignored),
        1 => Just(ColumnKind::Weight),
        2 => label,
        3 => dense,
        4 => ids,
    ]
}

fn any_columns() -> impl Strategy<Value = Vec<Column>> {
    let name = || prop::sample::select(vec!["a", "b", "c", "y", "", "é\n"]);
    let column = (name(), prop::collection::vec(name(), 0..3), rules());
    prop::collection::vec(column, 0..6).prop_map(|columns| {
        let made = |(name, of, kind): (&str, Vec<&str>, ColumnKind)| Column {
            name: name.to_owned(),
            of: of.into_iter().map(str::to_owned).collect(),
            kind,
        };
        columns.into_iter().map(made).collect()
    })
}

const PARTS: [&str; 24] = [
    "a,b,c,y\n",
    "y,a\n",
    "1,2,3,1\n",
    "0,,,\n",
    "1,0\n",
    "{\"a\":1,\"y\":0}\n",
    "{\"y\":1}\n",
    "{}\n",
    "1 a:1\n",
    "\n",
    ",",
    "\"",
    "yes",
    "|",
    "é",
    " ",
    "{\"a\":[1,[2]],\"y\":0}\n",
    "\r\n",
    "a:b:1",
    "NA",
    "1e60",
    "-1.5",
    "[",
    "1\t0\n",
];

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(1500),
        failure_persistence: None,
        ..Default::default()
    })]

    #[test]
    fn any_columns_are_refused_or_read_any_text(
        columns in any_columns(),
        parts in prop::collection::vec(prop::sample::select(PARTS.to_vec()), 0..30),
        format in prop::sample::select(Format::ALL.to_vec()),
        separator in prop::option::weighted(0.2, any::<u8>()),
        trim in any::<bool>(),
    ) {
        let missing = vec!["NA".to_owned()];
        let options = LayoutOptions { format, separator, trim, missing, ..Default::default() };
        match Layout::new(options, columns) {
            Err(error) => prop_assert!(error.to_string().len() > 20, "{error}"),
            Ok(layout) => {
                let folder = tempfile::tempdir().unwrap();
                let path = write(folder.path(), "any", parts.concat());
                // A layout with columns derived from the label can't do without it.
                let bare = layout.without_label().ok();
                let layouts = bare.into_iter().chain([layout]).map(Arc::new);
                for layout in layouts {
                    prop_assert_eq!(layout.id_names().len(), layout.schema().id_columns);
                    read_or_refused(&path, &layout);
                }
            }
        }
    }
}

#[test]
fn records_of_named_columns_are_shared() {
    let folder = tempfile::tempdir().unwrap();
    let layout = shop(Format::Auto, None);
    let line = |n: usize| format!("{},{n},u{},i{},t{}|t1\n", n % 2, n % 7, n % 5, n % 3);
    let object = |n: usize| format!("{{\"click\":{},\"user\":{n},\"tags\":[1,{n}]}}\n", n % 2);
    let head = "click,price,user,item,tags\n";
    let text =
        |range: std::ops::Range<usize>| head.to_owned() + &range.map(line).collect::<String>();
    let files = [
        write(folder.path(), "a", text(0..140) + "\n"),
        write(folder.path(), "b", zstd(text(140..141))),
        write(folder.path(), "c", gzip((141..300).map(object).collect::<String>())),
    ];
    let options = || SourceOptions {
        schema: layout.schema(),
        layout: Some(Arc::clone(&layout)),
        ..shares::options(&files)
    };
    let starts = [(0, 0), (0, 139), (2, 57)].map(|(file, line)| Position { file, line });
    shares::assert_shared(&options, &starts);
    let whole = shares::read(&shares::find(options()), ReadFrom::default(), 4096);
    assert!(whole.iter().map(Vec::len).sum::<usize>() >= 600);
    for (mini_batch, streams, ranks) in [(4, 2, 2), (8, 4, 1), (64, 2, 4)] {
        for (pass, whole) in whole.iter().enumerate() {
            let mut all = Vec::new();
            for rank in 0..ranks {
                let of_rank = shares::in_streams(options(), (mini_batch, streams), (rank, ranks));
                all.extend(shares::read(&of_rank, ReadFrom::default(), 700).swap_remove(pass));
            }
            all.sort_unstable_by_key(|row| row.0);
            assert!(all == *whole, "{mini_batch}, {streams} streams, {ranks} ranks");
        }
    }
}

#[test]
fn damage_of_packed_records_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let layout = shop(Format::Auto, Some(false));
    let text = write(folder.path(), "text", "1,2,u,i,a|b\n0,,v,,\n1,3,u,j,c\n");
    let files = Files { paths: vec![text], layout: Some(Arc::clone(&layout)) };
    let mut reader = Reader::open(Input::Files(files), &options_of(&layout, 4096)).unwrap();
    let (mut chunk, path) = (reader.chunk(), folder.path().join("packed"));
    assert!(reader.next_chunk(&mut chunk).unwrap());
    let options = PackedOptions::laid_out(layout.schema(), Some(&layout));
    let mut writer =
        PackedWriter::new(&path, &PackedOptions { block_bytes: 300, ..options }).unwrap();
    writer.add(&chunk).unwrap();
    assert_eq!(writer.finish().unwrap(), 3);
    let bytes = std::fs::read(&path).unwrap();
    let outcome = |bytes: &[u8]| {
        let _ = std::fs::remove_file(folder.path().join("damaged"));
        let path = write(folder.path(), "damaged", bytes);
        let options = ReadOptions { skip_max: u64::MAX, ..options_of(&layout, 4096) };
        read(&path, &layout, &options).map(|(rows, _)| rows)
    };
    assert!(outcome(&bytes).unwrap() == rows_of(&chunk));
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        // Without its first bytes, it is read as text.
        assert!(outcome(&flipped).is_err() || bit < 64, "bit {bit}");
    }
    for length in 8..bytes.len() {
        assert!(outcome(&bytes[..length]).is_err(), "{length}");
    }
}

/// `read` checks the memory of every chunk against the bound.
#[test]
fn lines_that_want_memory_stay_within_the_bound() {
    let folder = tempfile::tempdir().unwrap();
    let many = |part: &str, bytes: usize| part.repeat(bytes / part.len());
    let bytes = 100_000;
    let texts = [
        many("{}\n", bytes),
        many("{\"click\":1}\n", bytes),
        many("{\"click\":1,\"tags\":[1,2,3,4,5,6,7,8,9]}\n", bytes),
        format!("{{\"click\":1,\"tags\":[{}1]}}\n", many("1,", bytes / 2)).repeat(3),
        format!("{{\"click\":1,\"tags\":\"{}1\"}}\n", many("1|", bytes / 2)).repeat(3),
        format!("{{\"click\":1,\"tags\":[{}\"\"]}}\n", many("\"\\u0031\",", bytes / 2)).repeat(3),
        format!("{{\"click\":1,\"user\":\"{}\"}}\n", many("x", bytes / 2)).repeat(3),
        many("\n", bytes),
        many("1,,,,\n", bytes),
        many("1,1,1,1,1|1|1|1|1|1|1|1|1|1|1|1|1|1|1|1|1|1|1|1|1|1|1|1\n", bytes),
        many(",\n", bytes),
        many("1\n", bytes),
        format!("1 {}\n", many("tags:1:1 ", bytes / 2)).repeat(3),
        many("1 tags:1:1\n", bytes),
    ];
    for most in [1, 4, 65_536] {
        let columns = |tags: ColumnKind| {
            let mut columns = shop(Format::Auto, None).columns().to_vec();
            columns[0].name = "click".to_owned();
            columns[4].kind = tags;
            columns
        };
        for format in [Format::Csv, Format::JsonLines, Format::LibSvm] {
            let mut columns = columns(list(most));
            if format == Format::LibSvm {
                columns[0].name = "label".to_owned();
            }
            let options = LayoutOptions { format, header: Some(false), ..Default::default() };
            let layout = Arc::new(Layout::new(options, columns).unwrap());
            for (number, text) in texts.iter().enumerate() {
                let path = write(folder.path(), &number.to_string(), text);
                for block_bytes in [60_000, 1 << 17] {
                    let options = options_of(&layout, block_bytes);
                    let _ = read(&path, &layout, &ReadOptions { skip_max: u64::MAX, ..options });
                }
            }
        }
    }
}
