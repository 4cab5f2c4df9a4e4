//! What runs on devices.

/// Where the dense part of a model is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DensePlace {
    /// By the processor.
    #[default]
    Host,
    /// By every device, each for a part of the mini-batch.
    Device,
}

impl DensePlace {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Host, Self::Device];

    /// Its name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Device => "device",
        }
    }
}
