//! Objects of every kind, whatever their servers do: all of their bytes, or one line with the
//! reason.

#[path = "server/mod.rs"]
mod server;

use std::io::{ErrorKind, Read};
use std::time::Duration;

use server::{Fault, Server};
use stepwell_base::objects::{Depth, Objects};
use stepwell_remote::{Environment, Limits, Remote};

/// Small limits, so that a short test reaches all of them.
fn limits() -> Limits {
    Limits {
        range_bytes: 100_000,
        ranges: 4,
        tries: 4,
        connect: Duration::from_secs(2),
        request: Duration::from_secs(1),
        wait: Duration::from_millis(1),
        wait_most: Duration::from_millis(5),
    }
}

fn remote(server: &Server) -> Remote {
    Remote::new(limits(), Environment::from_iter(server.environment()))
}

fn content(bytes: usize) -> Vec<u8> {
    (0..bytes as u64).map(|n| (n * n / 7 + n / 4096) as u8).collect()
}

fn read(remote: &Remote, url: &str, start: u64) -> std::io::Result<Vec<u8>> {
    let about = remote.about(url)?;
    let mut bytes = Vec::new();
    remote.read(url, &about, start).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[test]
fn all_bytes_come_from_any_place_on() {
    let server = Server::start();
    let remote = remote(&server);
    let all = content(1_234_567);
    server.put("data/all", all.clone());
    server.put("data/empty", Vec::new());
    for url in server.urls("data/all") {
        let about = remote.about(&url).unwrap();
        assert_eq!(about.bytes, all.len() as u64, "{url}");
        for start in [0, 1, 65_536, 1_000_000, all.len()] {
            assert!(read(&remote, &url, start as u64).unwrap() == all[start..], "{url} {start}");
        }
        let ranges = [0..10, 900_000..1_234_567, 5..5, 77..300_077];
        let brought = remote.fetch(&url, &about, &ranges).unwrap();
        for (range, bytes) in ranges.iter().zip(brought) {
            assert!(bytes == all[range.start as usize..range.end as usize], "{url} {range:?}");
        }
    }
    for url in server.urls("data/empty") {
        assert_eq!(read(&remote, &url, 0).unwrap(), b"", "{url}");
    }
}

#[test]
fn what_passes_is_tried_again_from_where_it_stopped() {
    let server = Server::start();
    let remote = remote(&server);
    let all = content(400_000);
    server.put("all", all.clone());
    let slow = Fault::Slow(Duration::from_millis(1500));
    for url in server.urls("all") {
        for faults in [
            &[Fault::Status(500), Fault::Status(503)][..],
            &[Fault::Cut(0), Fault::Cut(1), Fault::Cut(50_000)],
            &[Fault::None, Fault::Cut(30_000), Fault::Status(502), Fault::None, Fault::Cut(99_999)],
            &[slow],
        ] {
            server.faults(faults);
            assert!(read(&remote, &url, 0).unwrap() == all, "{url}: {faults:?}");
        }
    }
}

#[test]
fn what_stays_is_an_error_after_so_many_tries() {
    let server = Server::start();
    let remote = remote(&server);
    server.put("all", content(400_000));
    for url in server.urls("all") {
        for (fault, words) in [(Fault::Status(500), "500"), (Fault::Cut(100), "cut short")] {
            server.faults(&[fault; 40]);
            let error = read(&remote, &url, 0).unwrap_err().to_string();
            assert!(error.contains(words) && !error.contains('\n'), "{url}: {error}");
            assert!(error.len() < 300, "{url}: {error}");
        }
        server.faults(&[]);
    }
}

#[test]
fn two_versions_are_never_mixed() {
    for untagged in [false, true] {
        let server = Server::start();
        if untagged {
            server.without_tags();
        }
        // One range at a time: others would consume faults meant for the next reader.
        let one = Limits { ranges: 1, ..limits() };
        let remote = Remote::new(one, Environment::from_iter(server.environment()));
        server.put("all", content(400_000));
        for url in server.urls("all") {
            for faults in [
                &[Fault::Change][..],
                &[Fault::None, Fault::None, Fault::Change],
                // Between two parts of one range.
                &[Fault::Cut(40_000), Fault::Change],
            ] {
                server.faults(faults);
                let error = read(&remote, &url, 0).unwrap_err().to_string();
                assert!(error.contains("was changed since"), "{url}: {error}");
            }
        }
        server.faults(&[]);
        let url = &server.urls("all")[0];
        let about = remote.about(url).unwrap();
        server.put("all", content(10));
        let error = remote.fetch(url, &about, &[100..200, 0..0]).unwrap_err().to_string();
        assert!(error.contains("was changed since"), "{error}");
    }
}

#[test]
fn servers_that_are_not_as_they_should_be() {
    let server = Server::start();
    let remote = remote(&server);
    server.put("all", content(400_000));
    let [web, s3, _] = server.urls("all");
    server.faults(&[Fault::Longer(5)]);
    assert!(read(&remote, &web, 0).unwrap_err().to_string().contains("was changed since"));
    server.faults(&[Fault::Whole]);
    assert!(read(&remote, &web, 0).unwrap_err().to_string().contains("does not send parts"));
    server.faults(&[Fault::Longer(5)]);
    assert!(read(&remote, &s3, 0).is_err());
    server.faults(&[]);
    server.without_head();
    assert!(read(&remote, &web, 0).unwrap() == content(400_000));
}

#[test]
fn what_has_no_version_is_refused() {
    for headless in [false, true] {
        let server = Server::start();
        server.without_versions();
        if headless {
            server.without_head();
        }
        let remote = remote(&server);
        for bytes in [0, 1000] {
            server.put("all", content(bytes));
            let [web, ..] = server.urls("all");
            let error = remote.about(&web).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.to_string().contains("sends no version of it"), "{error}");
        }
    }
}

#[test]
fn what_is_not_there_or_may_not_be_read_says_so() {
    let server = Server::start();
    let remote = remote(&server);
    server.put("secret/a", content(10));
    for url in server.urls("nothing") {
        let error = remote.about(&url).unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (ErrorKind::NotFound, "does not exist")
        );
    }
    for status in [401, 403] {
        server.refuse("secret", status);
        let looked = ["STEPWELL_HTTP_AUTHORIZATION", "AWS_ACCESS_KEY_ID", "HADOOP_USER_NAME"];
        for (url, looked) in server.urls("secret/a").iter().zip(looked) {
            let error = remote.about(url).unwrap_err().to_string();
            let says = error.contains(looked) && error.contains("may not be read");
            assert!(says, "{url}: {error}");
        }
    }
    for (url, says) in [
        ("http://no-such-host.invalid/a", "there is no host no-such-host.invalid"),
        ("hdfs://no-such-host.invalid/a", "there is no host no-such-host.invalid"),
        ("http://127.0.0.1:1/a", "127.0.0.1:1 refuses connections"),
        ("hdfs://127.0.0.1:1/a", "127.0.0.1:1 refuses connections"),
        ("http://ada:word@127.0.0.1:1/a", "has a user in it"),
        ("ftp://host/a", "has an unsupported scheme"),
        ("s3://bucket", "names no object"),
        ("hdfs:///a", "names no host"),
    ] {
        let error = remote.about(url).unwrap_err().to_string();
        assert!(error.contains(says) && !error.contains("word"), "{url}: {error}");
        assert!(!error.contains('\n'), "{url}: {error}");
    }
}

#[test]
fn nobody_who_reads_is_named_is_said_before_anybody_is_asked() {
    let server = Server::start();
    let endpoint = server.environment().into_iter().filter(|(name, _)| name == "AWS_ENDPOINT_URL");
    let no_role = ("AWS_EC2_METADATA_DISABLED".to_owned(), "true".to_owned());
    let remote = Remote::new(limits(), endpoint.chain([no_role]).collect());
    let error = remote.about("s3://bucket/a").unwrap_err().to_string();
    assert!(error.contains("AWS_ACCESS_KEY_ID"), "{error}");
    assert!(server.asked().is_empty());
}

#[test]
fn an_address_that_is_none_is_said_and_panics_nowhere() {
    let server = Server::start();
    for (name, value) in [
        ("AWS_ENDPOINT_URL", "http://127.0.0.1:no"),
        ("AWS_ENDPOINT_URL", "nonsense"),
        ("AWS_ENDPOINT_URL", "http://127.0.0.1:9 \n"),
        ("AWS_REGION", "no region"),
    ] {
        let mut environment = server.environment();
        environment.retain(|(known, _)| known != name);
        environment.push((name.to_owned(), value.to_owned()));
        let remote = Remote::new(limits(), Environment::from_iter(environment));
        let error = remote.about("s3://bucket/a").unwrap_err().to_string();
        assert!(error.contains(name) && !error.contains('\n'), "{error}");
    }
    for url in
        ["s3://buc ket/a", "s3://b%ket/a", "http://[/a", "http://a b/", "hdfs://a b/c", "s3://b//"]
    {
        let error = remote(&server).about(url).unwrap_err().to_string();
        assert!(!error.is_empty() && !error.contains('\n'), "{url}: {error}");
    }
}

#[test]
fn secrets_are_sent_and_users_named() {
    let server = Server::start();
    server.put("a", content(10));
    let mut environment = server.environment();
    environment.push(("STEPWELL_HTTP_AUTHORIZATION".into(), "Bearer word".into()));
    let remote = Remote::new(limits(), Environment::from_iter(environment));
    for url in server.urls("a") {
        read(&remote, &url, 0).unwrap();
    }
    let asked = server.asked();
    let all = |part: &str, has: &str| {
        asked.iter().filter(|line| line.contains(part)).all(|line| line.contains(has))
    };
    assert!(all("/web/", "Bearer word") && all("/webhdfs/", "\"user.name\": \"ada\""), "{asked:?}");
    assert!(all("/bucket/", "AWS4-HMAC-SHA256"), "{asked:?}");
    let debug = format!("{remote:?}");
    assert!(!debug.contains("word") && !debug.contains("secret\""), "{debug}");
}

#[test]
fn folders_are_listed() {
    let server = Server::start();
    let remote = remote(&server);
    for name in ["d/b.csv", "d/a.csv", "d/deep/c.csv", "other/e.csv"] {
        server.put(name, content(10));
    }
    for url in &server.urls("d/")[1..] {
        let mut names = remote.list(url, Depth::Folder).unwrap();
        names.sort();
        assert_eq!(names, ["a.csv", "b.csv"], "{url}");
        let mut names = remote.list(url, Depth::All).unwrap();
        names.sort();
        assert_eq!(names, ["a.csv", "b.csv", "deep/c.csv"], "{url}");
    }
    let error = remote.list(&server.urls("d/")[0], Depth::Folder).unwrap_err().to_string();
    assert!(error.contains("web servers do not list"), "{error}");
}
