//! Why a rank of a training run ends.

use stepwell_fabric::Error as FabricError;
use stepwell_train::Error as TrainError;

use crate::failure::Failure;

/// Why a rank ends.
pub(crate) enum Ended {
    /// The rank failed itself.
    Own(Failure),
    /// Other ranks failed.
    Others(FabricError),
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Self {
        Self::Own(failure)
    }
}

impl From<String> for Ended {
    fn from(message: String) -> Self {
        Self::Own(message.into())
    }
}

impl From<FabricError> for Ended {
    fn from(error: FabricError) -> Self {
        Self::Others(error)
    }
}

impl From<TrainError> for Ended {
    fn from(error: TrainError) -> Self {
        match error {
            TrainError::Fabric(error) => Self::Others(error),
            other => Self::Own(other.into()),
        }
    }
}

impl Ended {
    /// The failure, for a command without other ranks that report it.
    pub(crate) fn into_failure(self) -> Failure {
        match self {
            Self::Own(failure) => failure,
            Self::Others(error) => error.to_string().into(),
        }
    }
}
