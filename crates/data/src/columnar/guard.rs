//! The library panics on some files that are damaged: here a panic becomes an error.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

use parquet::errors::ParquetError;

thread_local! {
    /// Whether a panic of this thread is an error of a file, of which nobody is told by a panic.
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Does `work`, whose panics say that a file is damaged. Whatever it left half done is not gone on
/// with: after an error nothing more is read.
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
