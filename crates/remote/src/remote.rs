//! The synchronous interface.

use std::io::{Error, Read};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use futures_util::{StreamExt, TryStreamExt, stream};
use stepwell_base::objects::{Depth, ObjectAbout, Objects};
use tracing::info;

use crate::ahead::Ahead;
use crate::environment::Environment;
use crate::limits::Limits;
use crate::place::Place;
use crate::range::{answer, whole};
use crate::runtime::{Inner, until_stop};

/// Number of concurrent requests if a caller names many ranges.
const FETCHES: usize = 16;
/// Bytes of a connection in addition to a range: windows of the protocol and the system.
const CONNECTION_BYTES: u64 = 2 << 20;

/// Reads objects of all supported kinds of URL.
#[derive(Debug)]
pub struct Remote {
    limits: Limits,
    environment: Environment,
    /// Made on first use: most runs name no URL, and reading certificates takes a while.
    inner: OnceLock<Result<Arc<Inner>, String>>,
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

impl Objects for Remote {
    fn about(&self, url: &str) -> Result<ObjectAbout, Error> {
        let place = Place::of(url)?;
        let Inner { runtime, clients } = &**self.inner()?;
        let about = answer(&clients.limits, &place, || place.about(clients));
        Ok(runtime.block_on(until_stop(about))??)
    }

    fn list(&self, url: &str, depth: Depth) -> Result<Vec<String>, Error> {
        let place = Place::of(url)?;
        let Inner { runtime, clients } = &**self.inner()?;
        let names = answer(&clients.limits, &place, || place.list(clients, depth));
        let names = runtime.block_on(until_stop(names))??;
        info!(folder = %place, objects = names.len(), "folder listed");
        Ok(names)
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

/// A reader that returns an error.
struct Failing(Option<Error>);

impl Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}
