//! What can go wrong with a study.

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a study.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The data cannot be read.
    #[error(transparent)]
    Data(#[from] stepwell_data::DataError),
    /// The data is not what the study needs.
    #[error("{}: {why}", path.display())]
    Images {
        /// The file.
        path: std::path::PathBuf,
        /// Why, and the mend.
        why: String,
    },
    /// The clicks are not what the study needs.
    #[error("{}: {why}", path.display())]
    Clicks {
        /// The file.
        path: std::path::PathBuf,
        /// Why, and the mend.
        why: String,
    },
    /// A model that does not fit together.
    #[error(transparent)]
    Graph(#[from] stepwell_nn::GraphError),
    /// Options that do not fit.
    #[error(transparent)]
    Options(#[from] stepwell_sync::OptionsError),
    /// Costs that make no sense.
    #[error("{}: {why}; `stepwell-lab study costs --json FILE` measures them", path.display())]
    Costs {
        /// The file.
        path: std::path::PathBuf,
        /// Why.
        why: String,
    },
    /// Rows that cannot be kept.
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
