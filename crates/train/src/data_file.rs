//! Identity of data files, for checkpoints.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use stepwell_data::{
    Layout, fingerprint_of_ends, fingerprints, has_no_record, is_stream, length_of, name_of_file,
};

use crate::Result;

/// Identity of a data file.
#[derive(Clone, Debug, Eq, Serialize, Deserialize)]
pub struct DataFile {
    /// File name without its directory, which may differ between machines, but with folders that
    /// are columns.
    pub name: String,
    /// Length in bytes.
    pub bytes: u64,
    /// Fingerprint of the file's bytes, computed by [`stepwell_data::fingerprints`].
    pub content: String,
    /// Absolute path or URL; empty if an older build wrote the checkpoint.
    #[serde(default)]
    pub path: String,
    /// Fingerprint of both ends, independent of other files; empty for a stream, or if an older
    /// build wrote the checkpoint.
    #[serde(default)]
    pub ends: String,
    /// Whether the file has no record yet, so that none of it is trained.
    #[serde(default)]
    pub empty: bool,
}

/// Compares name, length and content; the path may differ.
impl PartialEq for DataFile {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, self.bytes, &self.content) == (&other.name, other.bytes, &other.content)
    }
}

impl DataFile {
    pub(crate) fn to_json(&self) -> Value {
        let Self { name, bytes, content, path, ends, empty } = self;
        let parts: [(&str, Value); 6] = [
            ("name", name.as_str().into()),
            ("bytes", (*bytes).into()),
            ("content", content.as_str().into()),
            ("path", path.as_str().into()),
            ("ends", ends.as_str().into()),
            ("empty", (*empty).into()),
        ];
        parts.into_iter().collect()
    }
}

/// Returns the identity of each data file.
pub(crate) fn identify(files: &[PathBuf], layout: Option<&Arc<Layout>>) -> Result<Vec<DataFile>> {
    let contents = fingerprints(files)?;
    let file = |(path, content): (&PathBuf, u128)| {
        let name = name_of_file(path, layout.map(Arc::as_ref));
        let bytes = length_of(path)?;
        let ends = fingerprint_of_ends(path)?.map(|ends| format!("{ends:032x}"));
        let whole = path.canonicalize().unwrap_or_else(|_| path.clone());
        Ok(DataFile {
            name,
            bytes,
            content: format!("{content:032x}"),
            path: whole.to_string_lossy().into_owned(),
            ends: ends.unwrap_or_default(),
            empty: !is_stream(path) && has_no_record(path, layout.map(Arc::as_ref)),
        })
    };
    files.iter().zip(contents).map(file).collect()
}
