//! Files of HDFS, through WebHDFS: JSON and redirects over HTTP.
//!
//! The version of a file is its time of change. HDFS cannot return a given version, so the file's
//! status is checked again after each range: bytes read between two equal statuses are of that
//! version, since a rewritten file has a new time.

use std::fmt::{Display, Formatter};
use std::io::ErrorKind;
use std::ops::Range;

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use reqwest::header::LOCATION;
use reqwest::{Response, StatusCode};
use serde_json::Value;
use stepwell_base::objects::{Depth, ObjectAbout};
use url::Url;

use crate::bounds::check_names;
use crate::clients::Clients;
use crate::fault::Fault;
use crate::web::{self, send};

/// Environment variable with the user who reads.
const USER: &str = "HADOOP_USER_NAME";
/// Default port of a NameNode's web server.
const PORT: u16 = 9870;
/// The most servers that one request is redirected to.
const REDIRECTS: usize = 5;
/// The most bytes of an answer in JSON: a listing of a million names.
const JSON_BYTES: u64 = 512 << 20;
/// Characters of a path that must be escaped in a URL.
const ESCAPED: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'%').add(b'<').add(b'>').add(b'?').add(b'`');

/// A file or directory.
#[derive(Clone, Debug)]
pub(crate) struct HdfsPath {
    /// `http` or `https`.
    scheme: &'static str,
    /// Host and port as given in the URL.
    host: String,
    /// Path from the root. // without '/' at its start
    path: String,
}

impl Display for HdfsPath {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "hdfs://{}/{}", self.host, self.path)
    }
}

impl HdfsPath {
    /// Parses what follows `hdfs://`.
    pub(crate) fn of(scheme: &'static str, rest: &str) -> Result<Self, Fault> {
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        if host.is_empty() {
            let why = "names no host: hdfs://NAMENODE:9870/path, with the port of its web server";
            return Err(Fault::lasting(ErrorKind::InvalidInput, why));
        }
        Ok(Self { scheme, host: host.to_owned(), path: path.to_owned() })
    }

    pub(crate) async fn about(&self, clients: &Clients) -> Result<ObjectAbout, Fault> {
        let status = self.json(clients, "GETFILESTATUS").await?;
        let status = &status["FileStatus"];
        match (status["type"].as_str(), status["length"].as_u64()) {
            (Some("FILE"), Some(bytes)) => {
                let changed = status["modificationTime"].as_i64().unwrap_or(0);
                let modified = changed.saturating_mul(1_000_000);
                Ok(ObjectAbout { bytes, version: changed.to_string(), modified })
            }
            (Some("DIRECTORY"), _) => Err(Fault::lasting(
                ErrorKind::IsADirectory,
                "is a directory; name the files in it, for example with a pattern",
            )),
            _ => Err(not_hdfs(&self.host)),
        }
    }

    pub(crate) async fn append(
        &self,
        clients: &Clients,
        about: &ObjectAbout,
        range: Range<u64>,
        bytes: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        let length = range.end - range.start;
        let asked = format!("OPEN&offset={}&length={length}", range.start);
        let mut url = self.url(clients, &asked)?;
        let before = bytes.len();
        for _ in 0..REDIRECTS {
            let answer = send(clients.hdfs.get(url.clone()), &url).await?;
            if answer.status().is_redirection() {
                let to = answer.headers().get(LOCATION).and_then(|to| to.to_str().ok());
                let to = to.and_then(|to| url.join(to).ok());
                url = to.ok_or_else(|| not_hdfs(&self.host))?;
                continue;
            }
            let outcome = match answer.status().is_success() {
                true => web::body(answer, &url, length, bytes).await,
                false => Err(self.refused(clients, answer).await),
            };
            // Bytes of another version are discarded.
            let now = self.about(clients).await;
            if !matches!(&now, Ok(now) if now == about) {
                bytes.truncate(before);
                return Err(now.err().unwrap_or_else(Fault::changed));
            }
            return outcome;
        }
        let why = format!("was redirected from server to server {REDIRECTS} times");
        Err(Fault::lasting(ErrorKind::Other, why))
    }

    /// Files below this one; the caller skips hidden names.
    pub(crate) async fn list(&self, clients: &Clients, depth: Depth) -> Result<Vec<String>, Fault> {
        // Paths relative to this one, with a '/' at the end; empty for this one.
        let mut folders = vec![String::new()];
        let (mut files, mut seen) = (Vec::new(), 0);
        while let Some(folder) = folders.pop() {
            let at = Self { path: format!("{}{folder}", self.path), ..self.clone() };
            let listed = at.json(clients, "LISTSTATUS").await?;
            let listed = listed["FileStatuses"]["FileStatus"].as_array().cloned();
            let listed = listed.ok_or_else(|| not_hdfs(&self.host))?;
            seen += listed.len();
            check_names(seen)?;
            for status in &listed {
                let name = status["pathSuffix"].as_str().unwrap_or_default();
                match status["type"].as_str() {
                    Some("FILE") if !name.is_empty() => files.push(format!("{folder}{name}")),
                    Some("DIRECTORY") if depth == Depth::All => {
                        folders.push(format!("{folder}{name}/"));
                    }
                    _ => {}
                }
            }
        }
        Ok(files)
    }

    /// Asks the NameNode; returns its answer to an operation.
    async fn json(&self, clients: &Clients, operation: &str) -> Result<Value, Fault> {
        let url = self.url(clients, operation)?;
        let answer = send(clients.hdfs.get(url.clone()), &url).await?;
        if !answer.status().is_success() {
            return Err(self.refused(clients, answer).await);
        }
        let mut bytes = Vec::new();
        web::body(answer, &url, JSON_BYTES, &mut bytes).await?;
        serde_json::from_slice(&bytes).map_err(|_| not_hdfs(&self.host))
    }

    fn url(&self, clients: &Clients, operation: &str) -> Result<Url, Fault> {
        let port = match self.host.rsplit_once(':') {
            Some((_, port)) if !port.ends_with(']') => String::new(),
            _ => format!(":{PORT}"),
        };
        let path = utf8_percent_encode(&self.path, ESCAPED);
        let mut url =
            format!("{}://{}{port}/webhdfs/v1/{path}?op={operation}", self.scheme, self.host);
        if let Some(user) = clients.environment.get(USER) {
            url += "&user.name=";
            url.extend(url::form_urlencoded::byte_serialize(user.as_bytes()));
        }
        Url::parse(&url)
            .map_err(|why| Fault::lasting(ErrorKind::InvalidInput, format!("names no host: {why}")))
    }

    /// Converts a server's refusal.
    async fn refused(&self, clients: &Clients, answer: Response) -> Fault {
        let status = answer.status();
        let text = answer.bytes().await.unwrap_or_default();
        let said: Value = serde_json::from_slice(&text).unwrap_or_default();
        let said = &said["RemoteException"];
        match said["exception"].as_str() {
            Some("FileNotFoundException") => Fault::missing(),
            Some("StandbyException") => Fault::lasting(
                ErrorKind::Other,
                format!("{} is a standby NameNode: name the active one", self.host),
            ),
            None if status == StatusCode::NOT_FOUND => not_hdfs(&self.host),
            _ => Fault::of_status(status, &looked_for(clients.environment.get(USER))),
        }
    }
}

fn looked_for(user: Option<&str>) -> String {
    match user {
        Some(user) => format!("HDFS does not let {user} (HADOOP_USER_NAME) read it"),
        None => "HADOOP_USER_NAME is not set: set it to a user who may read it".to_owned(),
    }
}

fn not_hdfs(host: &str) -> Fault {
    let why = format!(
        "{host} does not answer like WebHDFS: give the port of the NameNode's web server, \
         {PORT} by default, not its RPC port"
    );
    Fault::lasting(ErrorKind::Other, why)
}
