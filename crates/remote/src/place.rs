//! Where an object is: parses URLs and dispatches requests.

use std::fmt::{Display, Formatter};
use std::io::ErrorKind;
use std::ops::Range;

use stepwell_base::objects::{Depth, ObjectAbout};
use url::Url;

use crate::clients::Clients;
use crate::fault::Fault;
use crate::hdfs::HdfsPath;
use crate::s3::S3Key;
use crate::web::{self, host_of};

/// An object or a folder.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    S3(S3Key),
    Web(Url),
    Hdfs(HdfsPath),
}

/// Without the query of a URL, which may be a secret.
impl Display for Place {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::S3(key) => key.fmt(f),
            Self::Web(url) => {
                write!(f, "{}://{}{}", url.scheme(), host_of(url), url.path())
            }
            Self::Hdfs(path) => path.fmt(f),
        }
    }
}

impl Place {
    pub(crate) fn of(url: &str) -> Result<Self, Fault> {
        let wrong = |why: &str| Fault::lasting(ErrorKind::InvalidInput, why);
        let (scheme, rest) = url.split_once("://").ok_or_else(|| wrong("is not a URL"))?;
        let authority = rest.split('/').next().unwrap_or_default();
        if authority.contains('@') {
            return Err(wrong(
                "has a user in it, which would appear in reports and checkpoints: leave it out, \
                 and give credentials in the environment",
            ));
        }
        match scheme.to_ascii_lowercase().as_str() {
            "s3" | "s3a" => S3Key::of(rest).map(Self::S3),
            "hdfs" | "webhdfs" => HdfsPath::of("http", rest).map(Self::Hdfs),
            "swebhdfs" => HdfsPath::of("https", rest).map(Self::Hdfs),
            "http" | "https" => {
                let parsed =
                    Url::parse(url).map_err(|why| wrong(&format!("is not a URL: {why}")))?;
                Ok(Self::Web(parsed))
            }
            _ => Err(wrong("has an unsupported scheme: use s3, http, https, hdfs or webhdfs")),
        }
    }

    /// Length, version and time of change of the object.
    pub(crate) async fn about(&self, clients: &Clients) -> Result<ObjectAbout, Fault> {
        match self {
            Self::S3(key) => key.about(clients).await,
            Self::Web(url) => web::about(clients, url).await,
            Self::Hdfs(path) => path.about(clients).await,
        }
    }

    /// Appends bytes of `range`, from its start on, as they arrive; bytes that arrived before a
    /// fault stay.
    pub(crate) async fn append(
        &self,
        clients: &Clients,
        about: &ObjectAbout,
        range: Range<u64>,
        bytes: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        match self {
            Self::S3(key) => key.append(clients, about, range, bytes).await,
            Self::Web(url) => web::append(clients, url, about, range, bytes).await,
            Self::Hdfs(path) => path.append(clients, about, range, bytes).await,
        }
    }

    /// Names of the objects in this folder, relative to it.
    pub(crate) async fn list(&self, clients: &Clients, depth: Depth) -> Result<Vec<String>, Fault> {
        match self {
            Self::S3(key) => key.list(clients, depth).await,
            Self::Hdfs(path) => path.list(clients, depth).await,
            Self::Web(_) => Err(Fault::lasting(
                ErrorKind::InvalidInput,
                "is a pattern, but web servers do not list their files: name each file",
            )),
        }
    }
}
