//! A server of objects for tests: HTTP/1.1 with ranges and conditions, S3's listing, WebHDFS with
//! its redirects, and faults on request. Uses only the standard library.
//!
//! An object `a/b.csv` is `http://HOST/web/a/b.csv`, `s3://bucket/a/b.csv` of the endpoint
//! `http://HOST` and `hdfs://HOST/a/b.csv`.

#![allow(
    dead_code,
    clippy::allow_attributes,
    clippy::unwrap_used,
    reason = "each test uses its part, and ends where something is not as it should be"
)]

mod answers;

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// A fault in the answer to a request for bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// No fault.
    None,
    /// The answer is only a status.
    Status(u16),
    /// The connection ends after this many bytes of the body.
    Cut(usize),
    /// Nothing is sent for this long.
    Slow(Duration),
    /// The object is replaced by a different one.
    Change,
    /// The answer claims this many bytes more than the object has.
    Longer(u64),
    /// The whole object is sent, whatever range was requested.
    Whole,
}

#[derive(Clone)]
pub(crate) struct Object {
    pub(crate) bytes: Arc<Vec<u8>>,
    /// Number of its entity tag, and its seconds.
    pub(crate) version: u64,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Object>,
    faults: VecDeque<Fault>,
    /// First lines of requests, with the authorization in their headers.
    asked: Vec<String>,
    /// Status of all answers to requests for objects with this prefix.
    refused: Option<(String, u16)>,
    /// Whether entity tags are omitted.
    untagged: bool,
    /// Whether times of change are omitted.
    undated: bool,
    /// Whether `HEAD` is refused.
    headless: bool,
}

/// A server that runs as long as the process.
#[derive(Clone)]
pub(crate) struct Server {
    state: Arc<Mutex<State>>,
    pub(crate) host: String,
}

/// A request.
pub(crate) struct Asked {
    pub(crate) method: String,
    /// Decoded, without what follows `?`.
    pub(crate) path: String,
    pub(crate) query: BTreeMap<String, String>,
    pub(crate) headers: BTreeMap<String, String>,
}

/// An answer.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
    /// The claimed length, if it differs.
    pub(crate) length: Option<usize>,
    /// Number of bytes after which the connection ends.
    pub(crate) cut: Option<usize>,
}

impl Server {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let server = Self { state: Arc::default(), host };
        let serving = server.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let server = serving.clone();
                std::thread::spawn(move || server.serve(&stream));
            }
        });
        server
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(crate) fn put(&self, name: &str, bytes: Vec<u8>) {
        let mut state = self.state();
        let version = state.objects.get(name).map_or(1, |object| object.version + 1);
        state.objects.insert(name.to_owned(), Object { bytes: Arc::new(bytes), version });
    }

    /// Sets the faults of the next requests for bytes, one after the other.
    pub(crate) fn faults(&self, faults: &[Fault]) {
        self.state().faults = faults.iter().copied().collect();
    }

    pub(crate) fn refuse(&self, name: &str, status: u16) {
        self.state().refused = Some((name.to_owned(), status));
    }

    pub(crate) fn without_tags(&self) {
        self.state().untagged = true;
    }

    /// Omits versions of objects in later answers.
    pub(crate) fn without_versions(&self) {
        (self.state().untagged, self.state().undated) = (true, true);
    }

    pub(crate) fn without_head(&self) {
        self.state().headless = true;
    }

    /// Requests since the last call.
    pub(crate) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.state().asked)
    }

    /// The object under each kind of URL.
    pub(crate) fn urls(&self, name: &str) -> [String; 3] {
        [
            format!("http://{}/web/{name}", self.host),
            format!("s3://bucket/{name}"),
            format!("hdfs://{}/{name}", self.host),
        ]
    }

    /// The environment for reading from this server.
    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        let endpoint = format!("http://{}", self.host);
        [
            ("AWS_ACCESS_KEY_ID", "key"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
            ("AWS_ENDPOINT_URL", endpoint.as_str()),
            ("HADOOP_USER_NAME", "ada"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec()
    }

    fn serve(&self, stream: &TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        while let Some(asked) = Asked::read(&mut reader) {
            let user = asked.headers.get("authorization").cloned().unwrap_or_default();
            let line = format!("{} {} {:?} {user}", asked.method, asked.path, asked.query);
            self.state().asked.push(line);
            let answer = self.answer(&asked);
            let whole = answer.cut.is_none();
            if answer.write(stream, asked.method == "HEAD").is_err() || !whole {
                let _ = stream.shutdown(std::net::Shutdown::Both);
                return;
            }
        }
    }
}

impl Asked {
    fn read(reader: &mut impl BufRead) -> Option<Self> {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        let mut words = line.split_whitespace();
        let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
        let mut headers = BTreeMap::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            headers.insert(name.to_ascii_lowercase(), value.to_owned());
        }
        let length = headers.get("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
        reader.take(length).read_to_end(&mut Vec::new()).ok()?;
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(name), decoded(value))
        };
        let query = query.split('&').filter(|pair| !pair.is_empty()).map(pair).collect();
        Some(Self { method, path: decoded(path), query, headers })
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    pub(crate) fn query(&self, name: &str) -> &str {
        self.query.get(name).map_or("", String::as_str)
    }
}

impl Answer {
    pub(crate) fn of(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers: Vec::new(), body: body.into(), length: None, cut: None }
    }

    fn write(&self, mut stream: &TcpStream, head: bool) -> std::io::Result<()> {
        let length = self.length.unwrap_or(self.body.len());
        let mut text = format!("HTTP/1.1 {} Said\r\ncontent-length: {length}\r\n", self.status);
        for (name, value) in &self.headers {
            text += &format!("{name}: {value}\r\n");
        }
        stream.write_all(format!("{text}\r\n").as_bytes())?;
        if !head {
            let end = self.cut.unwrap_or(usize::MAX).min(self.body.len());
            stream.write_all(&self.body[..end])?;
        }
        stream.flush()
    }
}

/// Decodes `%XX`.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let code = behind.get(..2).filter(|_| *first == b'%');
        let code = code.and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            None => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    String::from_utf8(bytes).unwrap()
}
