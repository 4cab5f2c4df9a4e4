//! Errors of the lab's libraries as failures of a command.

use stepwell_cli::Failure;

/// An outcome that ends a command if it is an error.
pub(crate) trait OrEnd<T> {
    /// The value, or the failure with its exit status: wrong arguments are errors of usage.
    fn or_end(self) -> Result<T, Failure>;
}

impl<T> OrEnd<T> for stepwell_bench::Result<T> {
    fn or_end(self) -> Result<T, Failure> {
        self.map_err(|error| match error {
            stepwell_bench::Error::Arguments(line) => Failure::Usage(line),
            other => Failure::Error(other.to_string()),
        })
    }
}

impl<T> OrEnd<T> for stepwell_cache_sim::Result<T> {
    fn or_end(self) -> Result<T, Failure> {
        self.map_err(|error| match error {
            stepwell_cache_sim::Error::Arguments(line) => Failure::Usage(line),
            other => Failure::Error(other.to_string()),
        })
    }
}

impl<T> OrEnd<T> for stepwell_study::Result<T> {
    fn or_end(self) -> Result<T, Failure> {
        self.map_err(|error| match error {
            stepwell_study::Error::Data(error) => error.into(),
            other => Failure::Error(other.to_string()),
        })
    }
}
