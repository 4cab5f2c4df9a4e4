//! The runtime, its clients, and the interface of those who wait.

use std::io::{Error, Read};
use std::ops::Range;
use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, stream};
use stepwell_base::objects::{ObjectAbout, Objects};
use tokio::runtime::Runtime;

use crate::ahead::Ahead;
use crate::place::Place;
use crate::range::{answer, whole};
use crate::s3::Buckets;
use crate::{Limits, web};

/// Ranges that are asked for at once where somebody names many.
const FETCHES: usize = 16;
/// Bytes that a connection holds beside a range: windows of its protocol and of the system.
const CONNECTION_BYTES: u64 = 2 << 20;

/// Objects of all kinds of URL that are read.
#[derive(Debug)]
pub struct Remote(Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) runtime: Runtime,
    pub(crate) clients: Clients,
}

/// Who asks.
#[derive(Debug)]
pub(crate) struct Clients {
    pub(crate) limits: Limits,
    /// Follows redirects.
    pub(crate) web: reqwest::Client,
    /// Follows none: HDFS says with one whom to ask.
    pub(crate) hdfs: reqwest::Client,
    pub(crate) buckets: Buckets,
}

impl Remote {
    /// Starts two threads, and asks nobody yet.
    ///
    /// # Errors
    /// A system that has no room for them.
    pub fn new(limits: Limits) -> Result<Self, Error> {
        // Somebody may have chosen another one before, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("remote")
            .enable_all()
            .build()?;
        let clients = Clients {
            web: web::client(&limits, true).map_err(Error::other)?,
            hdfs: web::client(&limits, false).map_err(Error::other)?,
            buckets: Buckets::default(),
            limits,
        };
        Ok(Self(Arc::new(Inner { runtime, clients })))
    }
}

impl Objects for Remote {
    fn about(&self, url: &str) -> Result<ObjectAbout, Error> {
        let place = Place::of(url)?;
        let clients = &self.0.clients;
        let about = self.0.runtime.block_on(answer(&clients.limits, || place.about(clients)));
        Ok(about?)
    }

    fn list(&self, url: &str, deep: bool) -> Result<Vec<String>, Error> {
        let place = Place::of(url)?;
        let clients = &self.0.clients;
        let names = self.0.runtime.block_on(answer(&clients.limits, || place.list(clients, deep)));
        Ok(names?)
    }

    fn fetch(
        &self,
        url: &str,
        about: &ObjectAbout,
        ranges: &[Range<u64>],
    ) -> Result<Vec<Vec<u8>>, Error> {
        let place = Place::of(url)?;
        let clients = &self.0.clients;
        let within = |range: &Range<u64>| {
            let end = range.end.min(about.bytes);
            range.start.min(end)..end
        };
        let all = stream::iter(ranges.iter().map(within))
            .map(|range| whole(clients, &place, about, range))
            .buffered(FETCHES)
            .try_collect();
        let fetched: Result<Vec<Vec<u8>>, _> = self.0.runtime.block_on(all);
        Ok(fetched?)
    }

    fn read(&self, url: &str, about: &ObjectAbout, start: u64) -> Box<dyn Read + Send> {
        match Place::of(url) {
            Ok(place) => Box::new(Ahead::new(Arc::clone(&self.0), place, about.clone(), start)),
            Err(fault) => Box::new(Failing(Some(fault.into()))),
        }
    }

    fn reader_bytes_max(&self) -> u64 {
        let Limits { range_bytes, ranges, .. } = self.0.clients.limits;
        (ranges as u64 + 1) * range_bytes + ranges as u64 * CONNECTION_BYTES
    }
}

/// A reader of what cannot be read.
struct Failing(Option<Error>);

impl Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}
