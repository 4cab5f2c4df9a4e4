//! The runtime of all requests, and its clients.

use std::io::Error;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use stepwell_base::stop::StopRequest;
use tokio::runtime::Runtime;

use crate::clients::Clients;
use crate::environment::Environment;
use crate::limits::Limits;

/// Interval at which a pending request checks for a stop request.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) runtime: Runtime,
    pub(crate) clients: Clients,
}

impl Inner {
    pub(crate) fn new(limits: Limits, environment: Environment) -> Result<Self, String> {
        // An error means that another provider is installed, which is just as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("remote")
            .enable_all()
            .build()
            .map_err(|error| format!("cannot start two threads for requests: {error}"))?;
        Ok(Self { runtime, clients: Clients::new(limits, environment)? })
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
