//! Errors of studies.

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a study.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The data can't be read.
    #[error(transparent)]
    Data(#[from] stepwell_data::DataError),
    /// The images don't fit the study.
    #[error("{}: {why}", path.display())]
    Images {
        /// The file.
        path: std::path::PathBuf,
        /// The reason, with a fix.
        why: String,
    },
    /// The clicks don't fit the study.
    #[error("{}: {why}", path.display())]
    Clicks {
        /// The file.
        path: std::path::PathBuf,
        /// The reason, with a fix.
        why: String,
    },
    /// An invalid model.
    #[error(transparent)]
    Graph(#[from] stepwell_nn::GraphError),
    /// Invalid options.
    #[error(transparent)]
    Options(#[from] stepwell_sync::OptionsError),
    /// Invalid costs.
    #[error("{}: {why}; `stepwell-lab study costs --json FILE` measures them", path.display())]
    Costs {
        /// The file.
        path: std::path::PathBuf,
        /// The reason.
        why: String,
    },
    /// Rows can't be stored.
    #[error(transparent)]
    Rows(#[from] stepwell_engine::Error),
    /// A parameter server failed.
    #[error(transparent)]
    Geeps(#[from] stepwell_geeps::Error),
    /// A device failed.
    #[error(transparent)]
    Device(#[from] stepwell_device::Error),
    /// A protocol broke.
    #[error(transparent)]
    Fabric(#[from] stepwell_fabric::Error),
}
