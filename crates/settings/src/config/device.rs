//! Where the dense part runs.

/// Where the dense part of a model is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DensePlace {
    /// On the processor.
    #[default]
    Host,
    /// On every device, each for a part of the mini-batch.
    Device,
}

impl DensePlace {
    /// All places.
    pub const ALL: [Self; 2] = [Self::Host, Self::Device];

    /// Name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Device => "device",
        }
    }
}
