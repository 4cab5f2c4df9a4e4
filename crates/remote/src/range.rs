//! Reads complete ranges of an object, despite failing requests.

use std::future::Future;
use std::io::ErrorKind;
use std::ops::Range;

use stepwell_base::objects::ObjectAbout;
use tracing::warn;

use crate::clients::Clients;
use crate::fault::Fault;
use crate::limits::Limits;
use crate::place::Place;

/// A try that returns at least this many bytes does not count: a bad connection may truncate every
/// answer.
const PROGRESS_BYTES: usize = 1 << 20;

/// Reads all of `range`, which must be within the object.
pub(crate) async fn whole(
    clients: &Clients,
    place: &Place,
    about: &ObjectAbout,
    range: Range<u64>,
) -> Result<Vec<u8>, Fault> {
    let wanted = (range.end - range.start) as usize;
    let mut bytes = Vec::with_capacity(wanted);
    let mut tried = 0;
    while bytes.len() < wanted {
        let before = bytes.len();
        let left = range.start + before as u64..range.end;
        let limit = clients.limits.request;
        let asked = place.append(clients, about, left, &mut bytes);
        let outcome = tokio::time::timeout(limit, asked).await;
        let fault = match outcome {
            Ok(Ok(())) if bytes.len() == wanted => break,
            Ok(Ok(())) => Fault::passing(ErrorKind::Other, "the answer was cut short"),
            Ok(Err(fault)) => fault,
            Err(_) => Fault::late(limit),
        };
        tried = if bytes.len() - before < PROGRESS_BYTES { tried + 1 } else { 0 };
        if !fault.again || tried >= clients.limits.tries {
            return Err(fault.after(tried));
        }
        let (delay, bytes) = (clients.limits.wait_before(tried), bytes.len());
        let (delay_seconds, error) = (delay.as_secs_f64(), &*fault.why);
        warn!(object = %place, tried, delay_seconds, bytes, error, "request resumes after a fault");
        tokio::time::sleep(delay).await;
    }
    Ok(bytes)
}

/// Asks about an object or folder until there is an answer, or a lasting fault.
pub(crate) async fn answer<T, F>(
    limits: &Limits,
    place: &Place,
    ask: impl Fn() -> F,
) -> Result<T, Fault>
where
    F: Future<Output = Result<T, Fault>>,
{
    let mut tried = 0;
    loop {
        let outcome = tokio::time::timeout(limits.request, ask()).await;
        let fault = match outcome {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(fault)) => fault,
            Err(_) => Fault::late(limits.request),
        };
        tried += 1;
        if !fault.again || tried >= limits.tries {
            return Err(fault.after(tried));
        }
        let delay = limits.wait_before(tried);
        let (delay_seconds, error) = (delay.as_secs_f64(), &*fault.why);
        warn!(object = %place, tried, delay_seconds, error, "request is repeated after a fault");
        tokio::time::sleep(delay).await;
    }
}
