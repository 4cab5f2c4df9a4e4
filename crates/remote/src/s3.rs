//! Objects of S3 and compatible stores, through `object_store`.

use std::error::Error as _;
use std::fmt::{Display, Formatter};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::{
    BackoffConfig, ClientOptions, Error, GetOptions, GetRange, ObjectMeta, ObjectStore,
    ObjectStoreExt, RetryConfig,
};
use stepwell_base::objects::{Depth, ObjectAbout};
use tokio::net::TcpStream;
use url::Url;

use crate::bounds::{check_names, take};
use crate::clients::Clients;
use crate::environment::Environment;
use crate::fault::{Fault, innermost};
use crate::limits::Limits;

/// Where Amazon's machines get their role's credentials.
const ROLE: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::new(169, 254, 169, 254), 80));
/// Time limit for the connection to it.
const CONNECT_MAX: Duration = Duration::from_secs(1);
/// Variables with credentials; one of them is enough.
const KEYS: [&str; 4] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
];

/// Variables with the store's address, the first one taking precedence.
const ENDPOINTS: [&str; 3] = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"];

/// An object or, if the key ends with `/`, a folder.
#[derive(Clone, Debug)]
pub(crate) struct S3Key {
    bucket: String,
    key: String,
}

impl Display for S3Key {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "s3://{}/{}", self.bucket, self.key)
    }
}

impl S3Key {
    /// Parses what follows `s3://`.
    pub(crate) fn of(rest: &str) -> Result<Self, Fault> {
        match rest.split_once('/') {
            Some((bucket, key)) if is_label(bucket) => {
                Ok(Self { bucket: bucket.to_owned(), key: key.to_owned() })
            }
            _ => Err(Fault::lasting(ErrorKind::InvalidInput, "names no object: s3://BUCKET/KEY")),
        }
    }

    pub(crate) async fn about(&self, clients: &Clients) -> Result<ObjectAbout, Fault> {
        let store = self.store(clients).await?;
        let meta = store.head(&self.path()?).await.map_err(|error| self.fault(clients, &error))?;
        Ok(about_of(&meta))
    }

    pub(crate) async fn append(
        &self,
        clients: &Clients,
        about: &ObjectAbout,
        range: Range<u64>,
        bytes: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        let options = GetOptions {
            if_match: Some(about.version.clone()).filter(|version| version.starts_with('"')),
            range: Some(GetRange::Bounded(range.clone())),
            ..GetOptions::default()
        };
        let store = self.store(clients).await?;
        let answer = store.get_opts(&self.path()?, options).await;
        let answer = answer.map_err(|error| self.fault(clients, &error))?;
        let now = about_of(&answer.meta);
        if (now.bytes, &now.version) != (about.bytes, &about.version) {
            return Err(Fault::changed());
        }
        let mut room = range.end - range.start;
        let mut pieces = answer.into_stream();
        while let Some(piece) = pieces.next().await {
            take(&piece.map_err(|error| self.fault(clients, &error))?, &mut room, bytes)?;
        }
        Ok(())
    }

    pub(crate) async fn list(&self, clients: &Clients, depth: Depth) -> Result<Vec<String>, Fault> {
        let folder = self.path()?;
        let folder = Some(&folder).filter(|folder| !folder.as_ref().is_empty());
        let store = self.store(clients).await?;
        let mut keys = Vec::new();
        if depth == Depth::All {
            let mut listed = store.list(folder);
            while let Some(meta) =
                listed.try_next().await.map_err(|error| self.fault(clients, &error))?
            {
                keys.push(meta.location);
                check_names(keys.len())?;
            }
        } else {
            let listed = store.list_with_delimiter(folder).await;
            let listed = listed.map_err(|error| self.fault(clients, &error))?;
            check_names(listed.objects.len())?;
            keys.extend(listed.objects.into_iter().map(|meta| meta.location));
        }
        // Keys elsewhere were not requested.
        let name = |key: Path| Some(key.as_ref().strip_prefix(&self.key)?.to_owned());
        Ok(keys.into_iter().filter_map(name).collect())
    }

    fn path(&self) -> Result<Path, Fault> {
        Path::parse(&self.key).map_err(|why| {
            let why = format!("has an unsupported key: {}", innermost(&why));
            Fault::lasting(ErrorKind::InvalidInput, why)
        })
    }

    /// The client of this bucket.
    async fn store(&self, clients: &Clients) -> Result<Arc<AmazonS3>, Fault> {
        if let Some(store) = clients.buckets.get(&self.bucket) {
            return Ok(store);
        }
        let environment = &clients.environment;
        check_address(environment)?;
        find_credentials(environment).await?;
        let store = builder(&clients.limits, environment).with_bucket_name(&self.bucket).build();
        let store = store.map_err(|error| self.fault(clients, &error))?;
        Ok(clients.buckets.keep(&self.bucket, store))
    }

    fn fault(&self, clients: &Clients, error: &Error) -> Fault {
        let denied = |what: &str| {
            let why = format!("may not be read ({what}): {}", looked_for(&clients.environment));
            Fault::lasting(ErrorKind::PermissionDenied, why)
        };
        match error {
            Error::NotFound { source, .. } if source.to_string().contains("NoSuchBucket") => {
                let why = format!("does not exist: there is no bucket {}", self.bucket);
                Fault::lasting(ErrorKind::Other, why)
            }
            Error::NotFound { .. } => Fault::missing(),
            Error::Precondition { .. } => Fault::changed(),
            Error::PermissionDenied { .. } => denied("403"),
            Error::Unauthenticated { .. } => denied("401"),
            other => match other.source().and_then(inner) {
                Some(inner) => self.fault(clients, inner),
                None if !has_keys(&clients.environment) => denied("no credentials were found"),
                None => of_request(other, endpoint(&clients.environment).unwrap_or("S3")),
            },
        }
    }
}

/// Finds the store's own error among the causes of another one.
fn inner<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(inner) = error.downcast_ref::<Error>() {
            return Some(inner);
        }
        next = error.source();
    }
    None
}

/// Converts the error of a request that failed.
fn of_request(error: &Error, host: &str) -> Fault {
    let mut fault = Fault::of_request(error, host);
    let words = error.source().map(ToString::to_string).unwrap_or_default();
    let answered = ["status code", "response error"].iter().any(|part| words.contains(part));
    if answered {
        let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
        fault.why = format!("the store answered: {}", shortened(&words));
    }
    // The library has already retried other temporary failures.
    fault.again &= !answered && fault.kind != ErrorKind::ConnectionRefused;
    fault
}

/// The client described by the environment, within `limits`.
fn builder(limits: &Limits, environment: &Environment) -> AmazonS3Builder {
    let retry = RetryConfig {
        backoff: BackoffConfig {
            init_backoff: limits.wait,
            max_backoff: limits.wait_most,
            base: 2.0,
        },
        max_retries: limits.tries.saturating_sub(1) as usize,
        retry_timeout: limits.request,
    };
    let http = endpoint(environment).is_some_and(|url| url.starts_with("http://"));
    let client = ClientOptions::new()
        .with_connect_timeout(limits.connect)
        .with_timeout(limits.request)
        .with_allow_http(http);
    let mut builder = AmazonS3Builder::new().with_region("us-east-1");
    for (name, value) in environment.iter().filter(|(name, _)| name.starts_with("AWS_")) {
        if let Ok(key) = name.to_ascii_lowercase().parse() {
            builder = builder.with_config(key, value);
        }
    }
    builder.with_retry(retry).with_client_options(client)
}

/// The store's address in the environment; `None` for Amazon's.
fn endpoint(environment: &Environment) -> Option<&str> {
    ENDPOINTS.iter().find_map(|name| environment.get(name))
}

/// Whether a text may be part of a server's address: the library panics otherwise.
fn is_label(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    !text.is_empty() && text.bytes().all(fits)
}

/// Refuses an invalid address or region.
fn check_address(environment: &Environment) -> Result<(), Fault> {
    let wrong = |name: &str, what: &str| {
        let why = format!("cannot be read: {name} is {what}");
        Err(Fault::lasting(ErrorKind::InvalidInput, why))
    };
    for name in ["AWS_REGION", "AWS_DEFAULT_REGION"] {
        if environment.get(name).is_some_and(|region| !is_label(region)) {
            return wrong(name, "not the name of a region");
        }
    }
    for name in ENDPOINTS.into_iter().chain(["AWS_METADATA_ENDPOINT"]) {
        let Some(text) = environment.get(name) else { continue };
        let is_web = ["http://", "https://"].iter().any(|scheme| text.starts_with(scheme));
        let fits = text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'@');
        if !is_web || !fits || Url::parse(text).is_err() {
            return wrong(name, "not a URL such as http://HOST:PORT");
        }
    }
    Ok(())
}

/// Refuses to ask without credentials: the library would wait for the role of an Amazon machine,
/// which other machines do not have.
async fn find_credentials(environment: &Environment) -> Result<(), Fault> {
    if has_keys(environment) {
        return Ok(());
    }
    let none = environment.get("AWS_EC2_METADATA_DISABLED").is_some_and(|value| value == "true");
    let has_role =
        !none && (environment.get("AWS_METADATA_ENDPOINT").is_some() || answers(ROLE).await);
    match has_role {
        true => Ok(()),
        false => Err(Fault::lasting(
            ErrorKind::PermissionDenied,
            format!("may not be read: no credentials were found; {}", looked_for(environment)),
        )),
    }
}

/// Whether a server accepts connections at `address`.
async fn answers(address: SocketAddr) -> bool {
    let connected = tokio::time::timeout(CONNECT_MAX, TcpStream::connect(address)).await;
    matches!(connected, Ok(Ok(_)))
}

/// Whether the environment has credentials, or says that none are needed.
fn has_keys(environment: &Environment) -> bool {
    environment.get("AWS_SKIP_SIGNATURE").is_some_and(|value| value != "false")
        || KEYS.iter().any(|key| environment.get(key).is_some())
}

/// Names the variables for credentials, or the one that was used.
fn looked_for(environment: &Environment) -> String {
    let found = KEYS.iter().find(|key| environment.get(key).is_some());
    match found {
        Some(key) => format!("the store does not accept the credentials of {key}"),
        None => format!(
            "looked for {}, and this machine's role; AWS_SKIP_SIGNATURE=true reads public data",
            KEYS.join(", ")
        ),
    }
}

fn about_of(meta: &ObjectMeta) -> ObjectAbout {
    let changed = meta.last_modified;
    let version = meta.e_tag.clone().unwrap_or_else(|| changed.to_rfc3339());
    let modified = changed.timestamp_nanos_opt().unwrap_or(0);
    ObjectAbout { bytes: meta.size, version, modified }
}

/// Shortens a text, such as an answer in XML.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(200) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
