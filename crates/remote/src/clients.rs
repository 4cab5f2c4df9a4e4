//! Clients of all kinds of server.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use object_store::aws::AmazonS3;
use reqwest::Client;
use reqwest::header::{ACCEPT_ENCODING, HeaderMap, HeaderValue};
use reqwest::redirect::Policy;

use crate::environment::Environment;
use crate::fault::innermost;
use crate::limits::Limits;

/// Clients of all kinds of server.
#[derive(Debug)]
pub(crate) struct Clients {
    pub(crate) limits: Limits,
    pub(crate) environment: Environment,
    /// Follows redirects.
    pub(crate) web: Client,
    /// Does not follow redirects: HDFS uses them to name the server to ask.
    pub(crate) hdfs: Client,
    pub(crate) buckets: Buckets,
}

impl Clients {
    /// Makes no request yet.
    pub(crate) fn new(limits: Limits, environment: Environment) -> Result<Self, String> {
        Ok(Self {
            web: client(&limits, Policy::limited(10))?,
            hdfs: client(&limits, Policy::none())?,
            buckets: Buckets::default(),
            limits,
            environment,
        })
    }
}

/// A client with the timeouts of `limits`.
fn client(limits: &Limits, redirects: Policy) -> Result<Client, String> {
    let mut headers = HeaderMap::new();
    // Ranges are of the object as stored.
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    let client = Client::builder()
        .connect_timeout(limits.connect)
        .default_headers(headers)
        .user_agent("stepwell")
        .redirect(redirects);
    client.build().map_err(|error| innermost(&error))
}

/// Clients by bucket, each made for its first object.
#[derive(Debug, Default)]
pub(crate) struct Buckets(Mutex<BTreeMap<String, Arc<AmazonS3>>>);

impl Buckets {
    /// The client of `bucket`, if there is one.
    pub(crate) fn get(&self, bucket: &str) -> Option<Arc<AmazonS3>> {
        self.lock().get(bucket).cloned()
    }

    /// The client of `bucket`: `client`, unless another request was faster.
    pub(crate) fn keep(&self, bucket: &str, client: AmazonS3) -> Arc<AmazonS3> {
        let mut all = self.lock();
        Arc::clone(all.entry(bucket.to_owned()).or_insert_with(|| Arc::new(client)))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<AmazonS3>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
