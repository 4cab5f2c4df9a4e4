//! Data behind URLs: the same model as from files on disk, for every kind of URL and file, resumed
//! in the middle, despite faults; and errors.

#![cfg(feature = "remote")]
#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

#[path = "../../../remote/tests/server/mod.rs"]
mod server;

use std::fs;
use std::io::{BufRead, Write};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use parquet::data_type::{ByteArray, ByteArrayType, Int32Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use serde_json::Value;

use self::server::{Fault, Server};
use crate::common::{Workshop, lines_beside_notes, same};

const SETTINGS: &str = r#"
[data]
mini_batch = 64
epochs = 2
eval_fraction = 0.2
[model]
dim = 4
hidden = [8]
[tiers]
index = "8MiB"
dram = "1MiB"
segment = "64KiB"
[[columns]]
names = ["click"]
type = "label"
[[columns]]
names = ["user", "item"]
type = "id"
"#;

const ROWS: usize = 6_000;

fn row(n: usize) -> (i32, String, String) {
    let (user, item) = (n * 7919 % 83, n * 104_729 % 41);
    let click = i32::from(user.is_multiple_of(3) || item.is_multiple_of(5));
    (click, format!("user-{user}"), format!("item-{item}"))
}

/// Settings, the rows in every format, and a server with the same files.
fn shop() -> (Workshop, Server, [&'static str; 4]) {
    let (shop, server) = (Workshop::new(), Server::start());
    fs::write(shop.path("run.toml"), SETTINGS).unwrap();
    let lines = (0..ROWS).map(row).map(|(click, user, item)| format!("{click},{user},{item}\n"));
    let csv = format!("click,user,item\n{}", lines.collect::<String>());
    fs::write(shop.path("rows.csv"), &csv).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(csv.as_bytes()).unwrap();
    fs::write(shop.path("rows.csv.gz"), gzip.finish().unwrap()).unwrap();
    columns(&shop);
    shop.ok(&["convert", "rows.csv", "--config", "run.toml", "--out", "rows.packed"]);
    let names = ["rows.csv", "rows.csv.gz", "rows.parquet", "rows.packed"];
    for name in names {
        server.put(&format!("data/{name}"), fs::read(shop.path(name)).unwrap());
    }
    (shop, server, names)
}

/// The rows as Parquet, in three row groups.
fn columns(shop: &Workshop) {
    let schema = "message m { required int32 click; required binary user (UTF8); \
                  required binary item (UTF8); }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let file = fs::File::create(shop.path("rows.parquet")).unwrap();
    let properties = Arc::new(WriterProperties::builder().build());
    let mut writer = SerializedFileWriter::new(file, schema, properties).unwrap();
    for group in 0..3 {
        let rows: Vec<_> = (group * ROWS / 3..(group + 1) * ROWS / 3).map(row).collect();
        let clicks: Vec<i32> = rows.iter().map(|row| row.0).collect();
        let users: Vec<ByteArray> = rows.iter().map(|row| row.1.as_str().into()).collect();
        let items: Vec<ByteArray> = rows.iter().map(|row| row.2.as_str().into()).collect();
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<Int32Type>().write_batch(&clicks, None, None).unwrap();
        column.close().unwrap();
        for texts in [users, items] {
            let mut column = group.next_column().unwrap().unwrap();
            column.typed::<ByteArrayType>().write_batch(&texts, None, None).unwrap();
            column.close().unwrap();
        }
        group.close().unwrap();
    }
    writer.close().unwrap();
}

/// Runs the program with the environment of `server`.
fn run(shop: &Workshop, server: &Server, args: &[&str]) -> Output {
    shop.command(args).envs(server.environment()).output().unwrap()
}

fn train(shop: &Workshop, server: &Server, data: &str, more: &[&str]) -> Value {
    let args = ["train", "run.toml", "--data", data, "--report", "report.json", "--threads", "2"];
    let output = run(shop, server, &[&args[..], more].concat());
    assert!(output.status.success(), "{data}: {}", String::from_utf8_lossy(&output.stderr));
    shop.report("report.json")
}

/// The error line of training on `data`.
fn refused(shop: &Workshop, server: &Server, data: &str, more: &[&str]) -> String {
    let output = run(shop, server, &[&["train", "run.toml", "--data", data], more].concat());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && !said.contains("panicked"), "{data}: {said}");
    assert_eq!(lines_beside_notes(&said), 1, "{data}: {said}");
    said
}

#[test]
fn every_kind_of_url_and_of_file_trains_the_model_of_the_file() {
    let (shop, server, names) = shop();
    let expected = train(&shop, &server, "rows.csv", &[]);
    for name in names {
        for url in server.urls(&format!("data/{name}")) {
            same(&train(&shop, &server, &url, &[]), &expected, &url);
        }
    }
    let [web, s3, hdfs] = server.urls("data/rows.csv");
    // With evaluation data elsewhere, with two ranks, and from a cache.
    let other = ["--data.eval_paths", &s3];
    let expected_other = train(&shop, &server, "rows.csv", &["--data.eval_paths", "rows.csv"]);
    same(&train(&shop, &server, &hdfs, &other), &expected_other, "evaluated on elsewhere");
    same(&train(&shop, &server, &web, &["--ranks", "2"]), &expected, "two ranks");
    for what in ["makes a cache", "reads it"] {
        same(&train(&shop, &server, &s3, &["--data.cache", "cache"]), &expected, what);
    }
}

#[test]
fn a_run_goes_on_whether_its_data_moved_or_not() {
    let (shop, server, _) = shop();
    let expected = train(&shop, &server, "rows.csv", &[]);
    let urls = server.urls("data/rows.csv");
    let places = [urls[0].as_str(), &urls[1], &urls[2], "rows.csv"];
    for (number, place) in places.iter().enumerate() {
        let saved = format!("saved-{number}");
        let save = ["--checkpoint", &saved, "--set", "checkpoint.every=35"];
        train(&shop, &server, place, &[&save[..], &["--set", "data.epochs=1"]].concat());
        // The last checkpoint is at the end of the epoch; the one before is in its middle.
        let steps = fs::read_dir(shop.path(&saved)).unwrap().flatten().map(|entry| entry.path());
        fs::remove_dir_all(steps.max().unwrap()).unwrap();
        let elsewhere = places[(number + 1) % places.len()];
        let resumed = train(&shop, &server, elsewhere, &[&save[..], &["--resume"]].concat());
        assert_eq!(resumed["model_digest"], expected["model_digest"], "{place}, {elsewhere}");
    }
}

#[test]
fn patterns_are_listed() {
    let (shop, server, _) = shop();
    let csv = fs::read_to_string(shop.path("rows.csv")).unwrap();
    let (head, rest) = csv.split_once('\n').unwrap();
    let (first, second) = rest.split_at(rest[..rest.len() / 3].rfind('\n').unwrap() + 1);
    for (name, rows) in [("b", second), ("a", first), ("deep/c", first), (".d", first)] {
        server.put(&format!("parts/{name}.csv"), format!("{head}\n{rows}").into_bytes());
    }
    let expected = train(&shop, &server, "rows.csv", &[]);
    for folder in &server.urls("parts")[1..] {
        let pattern = format!("{folder}/*.csv");
        same(&train(&shop, &server, &pattern, &[]), &expected, &pattern);
        let said = refused(&shop, &server, &format!("{folder}/*.tsv"), &[]);
        assert!(said.contains("*.tsv: matches no file"), "{said}");
    }
    let said = refused(&shop, &server, &format!("http://{}/web/*.csv", server.host), &[]);
    assert!(said.contains("/web/*.csv: is a pattern") && said.contains("name each file"), "{said}");
}

#[test]
fn faults_pass_and_changes_do_not() {
    let (shop, server, _) = shop();
    let expected = train(&shop, &server, "rows.csv", &[]);
    for url in server.urls("data/rows.csv") {
        server.faults(&[Fault::Status(500), Fault::Cut(1000), Fault::Cut(0), Fault::Status(503)]);
        same(&train(&shop, &server, &url, &[]), &expected, &url);
        server.faults(&[Fault::Status(503)]);
        let logged = run(&shop, &server, &["schema", &url, "--log", "info"]);
        let log = String::from_utf8_lossy(&logged.stderr);
        assert!(log.lines().any(|line| line.contains("503 Service Unavailable")), "{url}: {log}");
        server.faults(&[Fault::None, Fault::Change]);
        let said = refused(&shop, &server, &url, &[]);
        assert!(said.contains(&url) && said.contains("was changed since"), "{said}");
        server.faults(&[]);
        server.put("data/rows.csv", fs::read(shop.path("rows.csv")).unwrap());
    }
}

#[test]
fn what_cannot_be_read_is_one_line() {
    let (shop, server, _) = shop();
    for url in server.urls("data/none.csv") {
        let said = refused(&shop, &server, &url, &[]);
        assert!(said.contains(&format!("{url}: does not exist")), "{said}");
    }
    server.refuse("data/", 403);
    for (url, looked) in server.urls("data/rows.csv").iter().zip(["HTTP_AUTH", "AWS_", "HADOOP_"]) {
        let said = refused(&shop, &server, url, &[]);
        assert!(said.contains(url) && said.contains(looked), "{said}");
    }
    let said = refused(&shop, &server, "http://no-such-host.invalid/a.csv", &[]);
    assert!(said.contains("there is no host no-such-host.invalid"), "{said}");
    let said = refused(&shop, &server, "gs://bucket/a.csv", &[]);
    assert!(said.contains("has an unsupported scheme"), "{said}");
    let (host, user) = (&server.host, "ada:word@");
    let output =
        run(&shop, &server, &["predict", "none", "--data", &format!("s3://{user}{host}/a")]);
    assert!(!String::from_utf8_lossy(&output.stderr).contains("word"));
}

/// A third-party object store, if it is installed.
#[test]
fn the_s3_server_of_moto_is_read() {
    let python = "from moto.server import ThreadedMotoServer as S; import boto3, sys, time\n\
                  s = S(ip_address='127.0.0.1', port=0); s.start(); h, p = s.get_host_and_port()\n\
                  u = f'http://127.0.0.1:{p}'\n\
                  c = boto3.client('s3', endpoint_url=u, region_name='us-east-1')\n\
                  c.create_bucket(Bucket='bucket')\n\
                  [c.upload_file(f, 'bucket', f'data/{f}') for f in sys.argv[1:]]\n\
                  print(p, flush=True); sys.stdin.read()";
    let has = Command::new("python3").args(["-c", "import boto3, moto.server"]).output();
    if !has.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: there is no moto[server] for python3");
        return;
    }
    let (shop, mut server, names) = shop();
    let mut command = Command::new("python3");
    command.args(["-c", python]).args(names).current_dir(shop.path(""));
    command.env("AWS_ACCESS_KEY_ID", "key").env("AWS_SECRET_ACCESS_KEY", "secret");
    let mut moto =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    // The server prints other lines, too.
    let lines = std::io::BufReader::new(moto.stdout.take().unwrap()).lines();
    let port = lines.map_while(Result::ok).find_map(|line| line.parse::<u16>().ok()).unwrap();
    server.host = format!("127.0.0.1:{port}");
    let expected = train(&shop, &server, "rows.csv", &[]);
    for name in names {
        let url = format!("s3://bucket/data/{name}");
        same(&train(&shop, &server, &url, &[]), &expected, &url);
    }
    same(&train(&shop, &server, "s3://bucket/data/*.csv", &[]), &expected, "a pattern");
    let said = refused(&shop, &server, "s3://bucket/none", &[]);
    assert!(said.contains("does not exist"), "{said}");
    drop(moto.stdin.take());
    moto.wait().unwrap();
}
