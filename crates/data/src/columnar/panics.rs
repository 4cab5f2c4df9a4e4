//! Turns panics of the Parquet library, which some damaged files cause, into errors.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

use parquet::errors::ParquetError;

thread_local! {
    /// Whether a panic of this thread is reported as a file error, without printing it.
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work` and turns its panics into errors. State that it leaves behind isn't used: nothing is
/// read after an error.
pub(super) fn guarded<T>(
    work: impl FnOnce() -> Result<T, ParquetError>,
) -> Result<T, ParquetError> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |panic| {
            if !GUARDED.get() {
                before(panic);
            }
        }));
    });
    GUARDED.set(true);
    let outcome = catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(false);
    outcome.unwrap_or_else(|_| Err(ParquetError::General("its pages are not in order".to_owned())))
}
