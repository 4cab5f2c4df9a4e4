//! Bad data in every format: one line that names file, line, column and reason, and nothing left
//! behind.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use std::fs;
use std::io::Write;
use std::os::unix::net::UnixListener;
use std::sync::Arc;

use parquet::data_type::{ByteArray, ByteArrayType, Int32Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use crate::common::Workshop;
use crate::common::bad::{Found, GOOD, HEAD, RUN};

/// A shop with the settings of all of these tests.
fn shop() -> Workshop {
    let shop = Workshop::new();
    fs::write(shop.path("run.toml"), RUN).unwrap();
    shop
}

/// Trains on a file with these bytes and packs it: both fail in the same way.
fn both(found: &mut Found, shop: &Workshop, name: &str, bytes: &[u8], says: &[&str]) {
    fs::write(shop.path(name), bytes).unwrap();
    named(found, shop, name, says);
}

fn named(found: &mut Found, shop: &Workshop, name: &str, says: &[&str]) {
    let says = [&[name], says].concat();
    let of_usage = ["no column", "does not exist", "matches no file"];
    let status = match name {
        name if name.ends_with(".packed") => 3,
        _ if of_usage.iter().any(|of| says.iter().any(|part| part.contains(of))) => 2,
        _ => 1,
    };
    found.row(shop, &["train", "run.toml", "--data", name], status, &says);
    found.row(shop, &["convert", name, "--config", "run.toml", "--out", "packed"], status, &says);
}

#[test]
fn lines_of_fields() {
    let (shop, mut found) = (shop(), Found::default());
    let mut below = |bytes: &str, says: &[&str]| {
        both(&mut found, &shop, "a.csv", format!("{HEAD}{GOOD}{bytes}").as_bytes(), says);
    };
    below("1,2,u\n", &["line 3, column 3", "has 3 columns with commas", "5 are expected"]);
    below("1,2,u,i,a,b\n", &["line 3, column 5", "has 6 columns", "5 are expected"]);
    below("1,2,\"u,x\",i\n", &["line 3, column 4", "has 4 columns", "5 are expected"]);
    below("1,2,\"u\"\"\",\"\",i,t\n", &["line 3", "has 6 columns", "5 are expected"]);
    below("1,2,\"u,i,a\n", &["line 3, column 3", "quoted field has no end", "line breaks cannot"]);
    below("1,2,\"u\"x,i,a\n", &["line 3, column 3", "not followed by the separator"]);
    below("1,abc,u,i,a\n", &["line 3, column 2", "price is 'abc'", "not a number such as 7"]);
    below("1,nan,u,i,a\n", &["line 3, column 2", "price is 'nan'", "leave the field empty"]);
    below("1,-Infinity,u,i,a\n", &["line 3, column 2", "price is '-Infinity'", "leave the field"]);
    below("1,0x1F,u,i,a\n", &["line 3, column 2", "price is '0x1F'", "hexadecimal"]);
    below("1,1e39,u,i,a\n", &["line 3, column 2", "price is '1e39'", "32-bit"]);
    below("1, 2,u,i,a\n", &["line 3, column 2", "price is ' 2'", "no space"]);
    below("1,2\0,u,i,a\n", &["line 3, column 2", "price is '2\\x00'"]);
    below("2,1,u,i,a\n", &["line 3, column 1", "click is '2'", "from 0 to 1", "`positive`"]);
    below(",1,u,i,a\n", &["line 3, column 1", "click is missing", "it is the label"]);
    below("\n1,2,u,i,a\n", &["line 3", "the line is empty"]);
    below("\n\n", &["line 3", "the line is empty"]);
    below("1,2,u,i,a", &["line 3", "no line end", "cut short", "add a newline"]);
    below("1,2,u,i,a\r", &["line 3", "no line end"]);
    below(
        &format!("1,2,{},i,a\n", "u".repeat(3 << 20)),
        &["line 3", "longer than", "a text file?"],
    );
    found.finish(40);
}

#[test]
fn first_lines() {
    let (shop, mut found) = (shop(), Found::default());
    let mut whole = |bytes: &[u8], says: &[&str]| both(&mut found, &shop, "a.csv", bytes, says);
    whole(b"", &["is empty"]);
    whole(HEAD.as_bytes(), &["a header, but no record"]);
    whole(HEAD.trim_end().as_bytes(), &["a header, but no record"]);
    whole(b"click,price,user,tags\n1,2,u,t\n", &["no column item", "click, price, user, tags"]);
    whole(b"click,price,user,user,item,tags\n", &["the column user 2 times", "each once"]);
    whole(b"click;price;user;tags\n1;2;u;t\n", &["no column item", "; add it, or use"]);
    whole(b"click\0,price,user,item,tags\n", &["no column click", "click\\u{0}"]);
    whole(b"click,price,us\x1b[1mer,item,tags\n", &["no column user", "\\u{1b}"]);
    whole(b"1,2,u,i\n", &["line 1, column 4", "5 are expected", "the type ignored"]);
    whole(
        b"click price user item tags\n1 2 u i a\n",
        &["names none of the columns", "data.header"],
    );
    whole(b"\xFF\xFEc\0l\0i\0c\0k\0\n\0", &["UTF-16", "iconv"]);
    whole(b"\xFE\xFF\0c\0l", &["UTF-16", "iconv"]);
    let long = format!("click,{}\n{GOOD}", "x".repeat(3 << 20));
    whole(long.as_bytes(), &["no column price"]);
    // Accepted: a byte order mark, other line ends, a last empty line.
    for good in [
        format!("\u{feff}{HEAD}{GOOD}"),
        format!("{HEAD}{GOOD}\n"),
        format!("{HEAD}{GOOD}\n").replace('\n', "\r\n"),
        GOOD.to_owned(),
        format!("\u{feff}{GOOD}"),
    ] {
        fs::write(shop.path("good.csv"), good).unwrap();
        shop.ok(&["train", "run.toml", "--data", "good.csv"]);
    }
    found.finish(26);
}

#[test]
fn lines_of_json() {
    let (shop, mut found) = (shop(), Found::default());
    let mut line = |bytes: &[u8], says: &[&str]| {
        // With a value in each column, so that there are no other notes.
        let good = b"{\"click\":1,\"price\":1,\"user\":\"u\",\"item\":1,\"tags\":[\"a\"]}\n";
        let says = [&["line 2"], says].concat();
        both(&mut found, &shop, "a.jsonl", &[good, bytes, b"\n"].concat(), &says);
    };
    line(b"[1,2]", &["a JSON array begins here", "one object per line: `jq -c '.[]'"]);
    line(b"\"click\"", &["not a JSON object", "an object with a value for each column"]);
    line(b"{\"click\":1,\"user\":\"u\"", &["column 21", "not a JSON object", "EOF"]);
    line(b"{\"click\":1}{\"click\":1}", &["column 12", "trailing characters"]);
    line(b"{\"click\":1,\"user\":\"u\",\"user\":\"v\"}", &["user appears twice", "give it once"]);
    line(b"{\"click\":1,\"user\":null,\"user\":\"v\"}", &["user appears twice", "give it once"]);
    line(b"{\"click\":1,\"price\":{\"a\":1}}", &["price is an object", "a number or a list"]);
    line(b"{\"click\":1,\"price\":[1]}", &["price is a list", "the type ids"]);
    line(b"{\"click\":[1]}", &["click is a list"]);
    line(b"{\"click\":1,\"tags\":[[1]]}", &["tags has a list within its list", "one list of ids"]);
    line(b"{\"click\":1,\"tags\":[{}]}", &["tags is an object"]);
    line(b"{\"click\":1,\"user\":\"\xFF\"}", &["column 20", "unicode"]);
    line(
        b"{\"click\":1,\"user\":\"\\ud800\"}",
        &["user has an invalid escape, such as half a surrogate"],
    );
    line(b"{\"click\":1,\"tags\":[\"\\udc00\"]}", &["tags has an invalid escape"]);
    line(b"{\"click\":1,\"user\":\"\0\"}", &["not a JSON object", "control character"]);
    line(b"{\"click\":1,\"price\":\"x\"}", &["price is 'x'", "not a number such as 7"]);
    line(b"{\"click\":1,\"price\":true}", &["price is 'true'"]);
    line(b"{\"click\":1,\"price\":1e400}", &["price is '1e400'", "32-bit"]);
    line(b"{\"click\":\"maybe\"}", &["click is 'maybe'", "`positive`"]);
    line(b"{\"user\":\"u\"}", &["click is missing", "it is the label"]);
    line(b"\n{\"click\":1}", &["the line is empty"]);
    let mut whole = |bytes: &[u8], says: &[&str]| both(&mut found, &shop, "b.json", bytes, says);
    whole(b"{\n\"click\":1\n}\n", &["line 1", "not a JSON object"]);
    whole(b"[\n{\"click\":1},\n{\"click\":0}\n]\n", &["line 1", "a JSON array begins here"]);
    whole(b"[{\"click\":1},{\"click\":0}]\n", &["line 1", "a JSON array begins here"]);
    whole(b"{\"click\":1}", &["line 1", "no line end"]);
    found.finish(50);
}

#[test]
fn lines_of_libsvm() {
    let (shop, mut found) = (shop(), Found::default());
    let columns = RUN.replace("[\"click\"]", "[\"label\"]").replace("\"item\"", "\"item\", \"x\"");
    let columns = columns.replace("\"tags\"", "\"tags\", \"indices\"");
    let columns = columns.replacen("[data]", "[data]\nformat = \"libsvm\"", 1);
    fs::write(shop.path("run.toml"), &columns).unwrap();
    let mut line = |bytes: &str, says: &[&str]| {
        let says = [&["line 2"], says].concat();
        let good = "1 price:2 user:1 item:1 x:1 tags:7:1 9:1";
        both(&mut found, &shop, "a.svm", format!("{good}\n{bytes}\n").as_bytes(), &says);
    };
    line("1 price:2 user", &["column 3", "'user' is not `index:value`"]);
    line("1 price:", &["column 2", "'price:' is not `index:value`"]);
    line("1 :1", &["column 2", "':1' is not `index:value`"]);
    line("1 tags::1", &["column 2", "'tags::1' is not `field:id:value`"]);
    line("1 tags:1:2:3", &["column 2", "'tags:1:2:3' is not `field:id:value`"]);
    line("1 9:x", &["indices has the item '9:x'", "finite 32-bit number"]);
    line("1 tags:9:nan", &["tags has the item '9:nan'", "such as 7:0.5"]);
    line("1 tags:9:", &["tags has the item '9:'"]);
    line("1 price:2 price:3", &["price appears twice"]);
    line("1 tags:a tags:b:1", &["tags appears twice"]);
    line("1 user:9:1", &["user is a list"]);
    line("1 price:x", &["price is 'x'"]);
    line("price:2 9:1", &["label is 'price:2'", "from 0 to 1"]);
    line("2 price:2", &["label is '2'", "from 0 to 1"]);
    line("# nothing", &["column 1", "has no label"]);
    line("\n1 9:1", &["the line is empty"]);
    fs::write(shop.path("run.toml"), columns.replace("[\"label\"]", "[\"click\"]")).unwrap();
    let says = ["line 1, column 1", "is the column label", "give the column of type label that"];
    both(&mut found, &shop, "b.svm", b"1 price:2\n", &says);
    found.finish(34);
}

#[test]
fn what_is_no_text() {
    let (shop, mut found) = (shop(), Found::default());
    let text = HEAD.to_owned() + &GOOD.repeat(20_000);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(text.as_bytes()).unwrap();
    let gzip = gzip.finish().unwrap();
    let zstd = zstd::encode_all(text.as_bytes(), 1).unwrap();
    // A file's name does not decide its format.
    fs::write(shop.path("gzip.csv"), &gzip).unwrap();
    shop.ok(&["train", "run.toml", "--data", "gzip.csv"]);
    let mut is = |name: &str, bytes: &[u8], says: &[&str]| {
        both(&mut found, &shop, name, bytes, says);
    };
    is("cut.csv.gz", &gzip[..gzip.len() / 2], &["ends too early", "cut short"]);
    is("cut.csv.zst", &zstd[..zstd.len() / 2], &["ends too early", "cut short"]);
    is("head.csv.gz", &gzip[..12], &["ends too early", "cut short"]);
    is("a.zip", b"PK\x03\x04\0\0", &["compressed with zip", "gzip and zstd"]);
    is("a.xz", b"\xFD7zXZ\0\0\0", &["compressed with xz", "gzip and zstd"]);
    is("a.bz2", b"BZh91AY&SY", &["compressed with bzip2", "gzip and zstd"]);
    is("a.arrow", b"ARROW1\0\0", &["a file of Arrow", "Parquet can be read"]);
    is("a.avro", b"Obj\x01\x02", &["a file of Avro", "Parquet can be read"]);
    is("a.npy", b"\x93NUMPY\x01", &["a file of NumPy", "Parquet can be read"]);
    is("none.parquet", b"PAR1", &["is not a complete Parquet file"]);
    is("tail.parquet", b"PAR1\0\0\0\0\x04\0\0\0PAR1", &["is not a complete Parquet file"]);
    is("a.packed", b"STEPWPAK\x03\0\0\0", &[]);
    // Not files at all.
    fs::create_dir(shop.path("folder")).unwrap();
    let _socket = UnixListener::bind(shop.path("socket")).unwrap();
    let made = std::process::Command::new("mkfifo").arg(shop.path("pipe")).status().unwrap();
    assert!(made.success());
    let others: [(&str, &[&str]); 7] = [
        ("folder", &["is a directory", "name the files in it"]),
        ("socket", &["is a socket", "write the data to a file"]),
        ("pipe", &["is a named pipe", "write it to a file"]),
        ("/dev/null", &["is a device", "name a file on a disk"]),
        ("/dev/zero", &["is a device", "name a file on a disk"]),
        ("nowhere.csv", &["does not exist"]),
        ("nothing*.csv", &["matches no file"]),
    ];
    for (name, says) in others {
        named(&mut found, &shop, name, says);
        let of_schema = if name.contains('*') { &["does not exist"][..] } else { says };
        let status = if name.starts_with("no") { 2 } else { 1 };
        found.row(&shop, &["schema", name], status, &[&[name], of_schema].concat());
    }
    found.finish(45);
}

/// A Parquet file with one row and the schema `columns`, all of whole numbers or texts.
fn parquet(shop: &Workshop, name: &str, columns: &str) -> Vec<u8> {
    let schema = Arc::new(parse_message_type(&format!("message m {{ {columns} }}")).unwrap());
    let file = fs::File::create(shop.path(name)).unwrap();
    let properties = Arc::new(WriterProperties::builder().build());
    let mut writer = SerializedFileWriter::new(file, schema, properties).unwrap();
    let mut rows = writer.next_row_group().unwrap();
    while let Some(mut column) = rows.next_column().unwrap() {
        use parquet::column::writer::ColumnWriter;
        match column.untyped() {
            ColumnWriter::Int32ColumnWriter(_) => {
                column.typed::<Int32Type>().write_batch(&[1], None, None).unwrap()
            }
            ColumnWriter::ByteArrayColumnWriter(_) => {
                let text = [ByteArray::from("2")];
                let column = column.typed::<ByteArrayType>();
                let about = column.get_descriptor();
                // A present value, the first of its row.
                let (defined, repeated) = ([about.max_def_level()], [0]);
                let is_list = about.max_rep_level() > 0;
                let (defined, repeated) = (is_list.then_some(defined), is_list.then_some(repeated));
                let (defined, repeated) = (defined.as_ref(), repeated.as_ref());
                column
                    .write_batch(&text, defined.map(|of| &of[..]), repeated.map(|of| &of[..]))
                    .unwrap()
            }
            _ => panic!("a column of another type"),
        };
        column.close().unwrap();
    }
    rows.close().unwrap();
    writer.close().unwrap();
    fs::read(shop.path(name)).unwrap()
}

#[test]
fn files_of_columns() {
    let (shop, mut found) = (shop(), Found::default());
    let text = "required binary tags (STRING);";
    let base = "required int32 click; required int32 price; required binary user (STRING);";
    let item = "required int32 item;";
    let good = parquet(&shop, "good.parquet", &format!("{base} {item} {text}"));
    shop.ok(&["train", "run.toml", "--data", "good.parquet"]);
    let mut is = |name: &str, columns: &str, says: &[&str]| {
        parquet(&shop, name, columns);
        named(&mut found, &shop, name, says);
    };
    is("less.parquet", base, &["has no column item", "click, price, user"]);
    let items = format!("{base} required int32 items; {text}");
    is("items.parquet", &items, &["has no column item", "if it is items, rename that to item in"]);
    let lists = "optional group tags (LIST) { repeated group list { optional group element (LIST) \
                 { repeated group list { optional binary element (STRING); } } } }";
    let says = ["column tags has lists of lists", "one list"];
    is("lists.parquet", &format!("{base} {item} {lists}"), &says);
    let map = "optional group tags (MAP) { repeated group key_value { required binary key \
               (STRING); optional binary value (STRING); } }";
    is("map.parquet", &format!("{base} {item} {map}"), &["several values in column tags", "a map"]);
    let list = "optional group user (LIST) { repeated group list { optional binary element \
                (STRING); } }";
    let columns = format!("required int32 click; required int32 price; {list} {item} {text}");
    is("user.parquet", &columns, &["line 1", "user is a list", "the type ids"]);
    let label = columns.replace("int32 click", "binary click (STRING)");
    is("label.parquet", &label, &["line 1", "click is '2'"]);
    for (name, bytes) in [
        ("cut.parquet", &good[..good.len() - 20]),
        ("half.parquet", &good[..good.len() / 2]),
        ("head.parquet", &good[..8]),
    ] {
        both(&mut found, &shop, name, bytes, &["is not a complete Parquet file"]);
    }
    let mut garbage = good.clone();
    let footer = garbage.len() - 60;
    garbage[footer..footer + 40].fill(0xAA);
    both(&mut found, &shop, "garbage.parquet", &garbage, &["is not a complete Parquet file"]);
    // Formats that are forced.
    fs::write(shop.path("a.csv"), HEAD.to_owned() + GOOD).unwrap();
    for (file, format, says) in [
        ("a.csv", "parquet", "is not a Parquet file, but data.format is parquet: give auto"),
        ("good.parquet", "csv", "is a Parquet file, but data.format is csv: give parquet, or auto"),
        ("good.parquet", "jsonl", "is a Parquet file, but data.format is jsonl"),
        ("a.csv", "jsonl", "line 1, column 1: the line is not a JSON object"),
        ("a.csv", "tsv", "its first line names none of the columns"),
        ("a.csv", "libsvm", "is the column label"),
    ] {
        let args = ["train", "run.toml", "--data", file, "--data.format", format];
        found.row(&shop, &args, 1, &[file, says]);
    }
    let says = ["is a Parquet file, but the settings name none", "stepwell schema"];
    found.row(&shop, &["train", "--data", "good.parquet"], 1, &says);
    found.row(&shop, &["convert", "good.parquet", "--out", "packed"], 1, &says);
    found.finish(24);
}
