//! The threads that compute steps.

use std::sync::Arc;

use rayon::ThreadPool;
use stepwell_base::NO_THREAD;

use crate::{Error, Result};

/// Creates a pool of threads that compute.
///
/// # Errors
/// If the threads cannot be started.
pub(crate) fn compute_pool(threads: usize) -> Result<Arc<ThreadPool>> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(|number| format!("compute-{number}"))
        .build();
    let pool =
        pool.map_err(|error| Error::Config(format!("threads = {threads}: {error}{NO_THREAD}")))?;
    Ok(Arc::new(pool))
}
