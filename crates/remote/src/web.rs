//! Objects on web servers: `HEAD`, and `GET` of ranges.
//!
//! The version of an object is its entity tag, or else its time of change. Without either it is
//! refused, since a change during reading would not be noticed. If the tag is strong, only that
//! version is requested (`If-Match`); every answer is compared with the expected version.

use std::io::ErrorKind;
use std::ops::Range;
use std::time::UNIX_EPOCH;

use futures_util::StreamExt;
use reqwest::header::{
    AUTHORIZATION, CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderMap, HeaderName, HeaderValue,
    IF_MATCH, LAST_MODIFIED, RANGE,
};
use reqwest::{RequestBuilder, Response, StatusCode};
use stepwell_base::objects::ObjectAbout;
use url::Url;

use crate::bounds::take;
use crate::clients::Clients;
use crate::fault::Fault;

/// Environment variable with the authorization header for servers that require one.
const SECRET: &str = "STEPWELL_HTTP_AUTHORIZATION";

/// Sends a request to `url`, and returns its answer, whatever its status.
pub(crate) async fn send(request: RequestBuilder, url: &Url) -> Result<Response, Fault> {
    request.send().await.map_err(|error| Fault::of_request(&error, &host_of(url)))
}

/// Host and port of a URL.
pub(crate) fn host_of(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// Length, version and time of change of the object at `url`.
pub(crate) async fn about(clients: &Clients, url: &Url) -> Result<ObjectAbout, Fault> {
    let head = send(allowed(clients, clients.web.head(url.clone())), url).await?;
    let bytes = number_in(head.headers(), CONTENT_LENGTH);
    if let (true, Some(bytes)) = (head.status().is_success(), bytes) {
        return versioned(about_of(head.headers(), bytes));
    }
    let refused = matches!(
        head.status(),
        StatusCode::FORBIDDEN | StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED
    );
    if !refused && !head.status().is_success() {
        return Err(Fault::of_status(head.status(), &looked_for(clients)));
    }
    // Some links, such as signed ones, allow only `GET`.
    let first = allowed(clients, clients.web.get(url.clone())).header(RANGE, "bytes=0-0");
    let first = send(first, url).await?;
    match (first.status(), total_of(first.headers())) {
        (StatusCode::PARTIAL_CONTENT, Some(bytes)) => versioned(about_of(first.headers(), bytes)),
        (StatusCode::RANGE_NOT_SATISFIABLE, Some(0)) => versioned(about_of(first.headers(), 0)),
        (status, _) if status.is_success() => Err(no_parts()),
        (status, _) => Err(Fault::of_status(status, &looked_for(clients))),
    }
}

/// Appends bytes of `range`.
pub(crate) async fn append(
    clients: &Clients,
    url: &Url,
    about: &ObjectAbout,
    range: Range<u64>,
    bytes: &mut Vec<u8>,
) -> Result<(), Fault> {
    let mut request = allowed(clients, clients.web.get(url.clone()))
        .header(RANGE, format!("bytes={}-{}", range.start, range.end - 1));
    if about.version.starts_with('"') {
        request = request.header(IF_MATCH, &about.version);
    }
    let answer = send(request, url).await?;
    match answer.status() {
        StatusCode::PARTIAL_CONTENT => {}
        // The range was within the object.
        StatusCode::RANGE_NOT_SATISFIABLE => return Err(Fault::changed()),
        status if status.is_success() => return Err(no_parts()),
        status => return Err(Fault::of_status(status, &looked_for(clients))),
    }
    let headers = answer.headers();
    let now = about_of(headers, total_of(headers).unwrap_or(about.bytes));
    if (now.bytes, &now.version) != (about.bytes, &about.version) {
        return Err(Fault::changed());
    }
    if start_of(headers) != Some(range.start) {
        return Err(no_parts());
    }
    body(answer, url, range.end - range.start, bytes).await
}

/// Appends the body of an answer, of at most `room` bytes.
pub(crate) async fn body(
    answer: Response,
    url: &Url,
    mut room: u64,
    bytes: &mut Vec<u8>,
) -> Result<(), Fault> {
    let mut pieces = answer.bytes_stream();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| Fault::of_request(&error, &host_of(url)))?;
        take(&piece, &mut room, bytes)?;
    }
    Ok(())
}

/// Adds the authorization header from the environment, if it is set.
fn allowed(clients: &Clients, request: RequestBuilder) -> RequestBuilder {
    let secret = clients.environment.get(SECRET);
    let secret = secret.and_then(|text| HeaderValue::from_str(text).ok());
    match secret {
        Some(mut secret) => {
            secret.set_sensitive(true);
            request.header(AUTHORIZATION, secret)
        }
        None => request,
    }
}

/// Advice about a server that denies access.
fn looked_for(clients: &Clients) -> String {
    match clients.environment.get(SECRET) {
        Some(_) => format!("the server does not accept the value of {SECRET}"),
        None => format!("{SECRET} is not set; set it as the server wants, as in 'Bearer ...'"),
    }
}

fn no_parts() -> Fault {
    let why = "the server does not send parts of it (ranges): copy it to a disk and name the copy";
    Fault::lasting(ErrorKind::Unsupported, why)
}

fn about_of(headers: &HeaderMap, bytes: u64) -> ObjectAbout {
    let changed = text_in(headers, LAST_MODIFIED).unwrap_or_default();
    let version = text_in(headers, ETAG).unwrap_or(changed).to_owned();
    let time = httpdate::parse_http_date(changed).ok();
    let since = time.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let modified = since.and_then(|since| i64::try_from(since.as_nanos()).ok()).unwrap_or(0);
    ObjectAbout { bytes, version, modified }
}

/// Refuses an object without a version.
fn versioned(about: ObjectAbout) -> Result<ObjectAbout, Fault> {
    if !about.version.is_empty() {
        return Ok(about);
    }
    let why = "the server sends no version of it (ETag, Last-Modified), so a change while it is \
               read would not be noticed: copy it to a disk and name the copy";
    Err(Fault::lasting(ErrorKind::Unsupported, why))
}

fn text_in(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

fn number_in(headers: &HeaderMap, name: HeaderName) -> Option<u64> {
    text_in(headers, name)?.trim().parse().ok()
}

/// Length of the whole object, from `bytes 0-0/LENGTH`.
fn total_of(headers: &HeaderMap) -> Option<u64> {
    text_in(headers, CONTENT_RANGE)?.rsplit_once('/')?.1.parse().ok()
}

/// Start of the range in an answer.
fn start_of(headers: &HeaderMap) -> Option<u64> {
    text_in(headers, CONTENT_RANGE)?.strip_prefix("bytes ")?.split_once('-')?.0.parse().ok()
}
