//! Files, and the layout of their records.

use std::path::PathBuf;
use std::sync::Arc;

use crate::layout::Layout;

/// Files, and the layout of their records.
#[derive(Clone, Debug)]
pub struct Files {
    /// Paths, as returned by [`crate::resolve`].
    pub paths: Vec<PathBuf>,
    /// Columns. `None` for plain lines: label, numbers and ids, separated by tabs; the reader's
    /// schema gives their number.
    pub layout: Option<Arc<Layout>>,
}

/// Files of plain lines.
impl From<Vec<PathBuf>> for Files {
    fn from(paths: Vec<PathBuf>) -> Self {
        Self { paths, layout: None }
    }
}
