//! `train --from`: the next day, again, after a kill, with other settings and columns.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

mod courses;
mod days;
mod layouts;
mod recordless;
