//! Stores that are only read, from commit to commit.

mod named_files;
mod refresh;
mod view;

pub use self::refresh::Refreshed;
pub use self::view::View;
