//! Catches expected panics with their messages, without printing them.

use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
    static SAID: RefCell<Option<String>> = const { RefCell::new(None) };
}

static HOOK: Once = Once::new();

/// Runs `work` on this thread, and turns a panic into its message.
///
/// # Errors
/// `work` panicked.
pub(crate) fn quietly<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if QUIET.get() {
                SAID.set(Some(info.to_string().replace('\n', ": ")));
            } else {
                before(info);
            }
        }));
    });
    let was = QUIET.replace(true);
    let outcome = panic::catch_unwind(AssertUnwindSafe(work));
    QUIET.set(was);
    outcome.map_err(|_| SAID.take().unwrap_or_else(|| "nothing".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_panic_said_comes_back() {
        assert_eq!(quietly(|| 7), Ok(7));
        let said = quietly(|| assert_eq!(1, 2, "no")).unwrap_err();
        assert!(said.contains("no") && said.contains("expected_panics.rs"), "{said}");
        let inner = quietly(|| quietly(|| panic!("inner"))).unwrap();
        assert!(inner.unwrap_err().contains("inner"));
    }
}
