//! The runtime, its clients, and the synchronous interface.

use std::io::{Error, Read};
use std::ops::Range;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::{Either, select};
use futures_util::{StreamExt, TryStreamExt, stream};
use stepwell_base::objects::{ObjectAbout, Objects};
use stepwell_base::stop::StopRequest;
use tokio::runtime::Runtime;

use crate::ahead::Ahead;
use crate::place::Place;
use crate::range::{answer, whole};
use crate::s3::Buckets;
use crate::{Environment, Limits, web};

/// Number of concurrent requests if a caller names many ranges.
const FETCHES: usize = 16;
/// Bytes of a connection in addition to a range: windows of the protocol and the system.
const CONNECTION_BYTES: u64 = 2 << 20;

/// Interval at which a pending request checks for a stop request.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// Reads objects of all supported kinds of URL.
#[derive(Debug)]
pub struct Remote {
    limits: Limits,
    environment: Environment,
    /// Made on first use: most runs name no URL, and reading certificates takes a while.
    inner: OnceLock<Result<Arc<Inner>, String>>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) runtime: Runtime,
    pub(crate) clients: Clients,
}

/// Clients of all kinds of server.
#[derive(Debug)]
pub(crate) struct Clients {
    pub(crate) limits: Limits,
    pub(crate) environment: Environment,
    /// Follows redirects.
    pub(crate) web: reqwest::Client,
    /// Does not follow redirects: HDFS uses them to name the server to ask.
    pub(crate) hdfs: reqwest::Client,
    pub(crate) buckets: Buckets,
}

impl Remote {
    /// Makes no request and starts no thread yet.
    pub fn new(limits: Limits, environment: Environment) -> Self {
        Self { limits, environment, inner: OnceLock::new() }
    }

    fn inner(&self) -> Result<&Arc<Inner>, Error> {
        let begin = || Inner::new(self.limits.clone(), self.environment.clone()).map(Arc::new);
        let inner = self.inner.get_or_init(begin);
        inner.as_ref().map_err(|why| Error::other(why.clone()))
    }
}

impl Inner {
    fn new(limits: Limits, environment: Environment) -> Result<Self, String> {
        // An error means that another provider is installed, which is just as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("remote")
            .enable_all()
            .build()
            .map_err(|error| format!("cannot start two threads for requests: {error}"))?;
        let clients = Clients {
            web: web::client(&limits, true)?,
            hdfs: web::client(&limits, false)?,
            buckets: Buckets::default(),
            limits,
            environment,
        };
        Ok(Self { runtime, clients })
    }
}

impl Objects for Remote {
    fn about(&self, url: &str) -> Result<ObjectAbout, Error> {
        let place = Place::of(url)?;
        let Inner { runtime, clients } = &**self.inner()?;
        let about = runtime.block_on(until_stop(answer(&clients.limits, || place.about(clients))));
        Ok(about??)
    }

    fn list(&self, url: &str, deep: bool) -> Result<Vec<String>, Error> {
        let place = Place::of(url)?;
        let Inner { runtime, clients } = &**self.inner()?;
        let names = answer(&clients.limits, || place.list(clients, deep));
        Ok(runtime.block_on(until_stop(names))??)
    }

    fn fetch(
        &self,
        url: &str,
        about: &ObjectAbout,
        ranges: &[Range<u64>],
    ) -> Result<Vec<Vec<u8>>, Error> {
        let place = Place::of(url)?;
        let Inner { runtime, clients } = &**self.inner()?;
        let within = |range: &Range<u64>| {
            let end = range.end.min(about.bytes);
            range.start.min(end)..end
        };
        let all = stream::iter(ranges.iter().map(within))
            .map(|range| whole(clients, &place, about, range))
            .buffered(FETCHES)
            .try_collect();
        let fetched: Result<Vec<Vec<u8>>, _> = runtime.block_on(until_stop(all))?;
        Ok(fetched?)
    }

    fn read(&self, url: &str, about: &ObjectAbout, start: u64) -> Box<dyn Read + Send> {
        let opened = self.inner().and_then(|inner| Ok((inner, Place::of(url)?)));
        match opened {
            Ok((inner, place)) => {
                Box::new(Ahead::new(Arc::clone(inner), place, about.clone(), start))
            }
            Err(error) => Box::new(Failing(Some(error))),
        }
    }

    fn reader_bytes_max(&self) -> u64 {
        let Limits { range_bytes, ranges, .. } = self.limits;
        (ranges as u64 + 1) * range_bytes + ranges as u64 * CONNECTION_BYTES
    }
}

/// Waits for an answer until the process is asked to stop.
///
/// # Errors
/// If the process was asked to stop.
pub(crate) async fn until_stop<T>(answer: impl Future<Output = T>) -> Result<T, Error> {
    let stop = StopRequest::of_process();
    let stopped = async {
        while !stop.is_made() {
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
    };
    match select(pin!(answer), pin!(stopped)).await {
        Either::Left((answer, _)) => Ok(answer),
        Either::Right(_) => Err(StopRequest::error()),
    }
}

/// A reader that returns an error.
struct Failing(Option<Error>);

impl Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}
