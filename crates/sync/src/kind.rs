//! The protocols by name.

use std::fmt::{Display, Formatter};
use std::str::FromStr;

use stepwell_fabric::Fabric;

use crate::ad_psgd::AdPsgd;
use crate::bsp::Bsp;
use crate::eager_majority::EagerMajority;
use crate::rna::Rna;
use crate::worker::Worker;
use crate::{Number, OpenEnded, Optimizer, Options, OptionsError, Protocol, rdma_wild, sync_dsgd};

/// A protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Every rank's gradient is in every step: the blocking sum.
    Bsp,
    /// The same through a server, rank 0, which has the parameters: its workers step together.
    SyncDsgd,
    /// The gradient of a drawn rank starts a sum of the available ones.
    EagerMajority,
    /// Every rank has its own parameters and averages them with another rank's.
    AdPsgd,
    /// A server, rank 0, uses gradients as they arrive and answers their senders.
    RdmaWild,
    /// The first of some probed ranks starts a sum of the available gradients; in groups if ranks
    /// differ too much.
    Rna,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Bsp, Self::SyncDsgd, Self::EagerMajority, Self::AdPsgd, Self::RdmaWild, Self::Rna];

    /// Name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bsp => "bsp",
            Self::SyncDsgd => "sync_dsgd",
            Self::EagerMajority => "eager_majority",
            Self::AdPsgd => "ad_psgd",
            Self::RdmaWild => "rdma_wild",
            Self::Rna => "rna",
        }
    }

    /// Whether rank 0 is a server, which computes no gradients.
    pub const fn has_server(self) -> bool {
        matches!(self, Self::SyncDsgd | Self::RdmaWild)
    }

    /// Number of ranks that compute, of `ranks`.
    pub const fn workers(self, ranks: usize) -> usize {
        if self.has_server() { ranks - 1 } else { ranks }
    }

    /// The ranks whose parameters' mean is the model.
    pub fn model_of(self, ranks: usize) -> std::ops::Range<usize> {
        match self {
            Self::AdPsgd => 0..ranks,
            _ => 0..1,
        }
    }

    /// Begins this rank's end. All ranks begin with the same parameters and options.
    ///
    /// # Errors
    /// Options that do not fit the ranks.
    pub fn begin<T: Number>(
        self,
        fabric: &Fabric,
        parameters: Vec<T>,
        options: &Options,
    ) -> Result<Box<dyn Protocol<T>>, OptionsError> {
        options.check(self, fabric.size())?;
        let optimizer = options.descent(parameters.len());
        Ok(self.end_of(fabric, parameters, (optimizer, options)))
    }

    /// Begins this rank's end with parameters that move by `optimizer`, regardless of those
    /// `options`, until all ranks have set the number of gradients.
    ///
    /// # Errors
    /// Options that do not fit the ranks.
    pub fn begin_open<T: Number>(
        self,
        fabric: &Fabric,
        parameters: Vec<T>,
        (optimizer, options): (Box<dyn Optimizer<T>>, &Options),
    ) -> Result<Box<dyn OpenEnded<T>>, OptionsError> {
        options.check(self, fabric.size())?;
        let options = Options { steps: u64::MAX, may_rest: true, ..options.clone() };
        Ok(self.end_of(fabric, parameters, (optimizer, &options)))
    }

    fn end_of<T: Number>(
        self,
        fabric: &Fabric,
        parameters: Vec<T>,
        by: (Box<dyn Optimizer<T>>, &Options),
    ) -> Box<dyn OpenEnded<T>> {
        match self {
            Self::Bsp => Box::new(Bsp::new(fabric, parameters, by)),
            Self::SyncDsgd | Self::RdmaWild if fabric.rank() > 0 => {
                Box::new(Worker::new(fabric, parameters, by.1, self == Self::RdmaWild))
            }
            Self::SyncDsgd => Box::new(sync_dsgd::Server::new(fabric, parameters, by)),
            Self::EagerMajority => Box::new(EagerMajority::new(fabric, parameters, by)),
            Self::AdPsgd => Box::new(AdPsgd::new(fabric, parameters, by)),
            Self::RdmaWild => Box::new(rdma_wild::Server::new(fabric, parameters, by)),
            Self::Rna => Box::new(Rna::new(fabric, parameters, by)),
        }
    }
}

impl Display for Kind {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|kind| kind.name() == text).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("'{text}' is not a protocol; give one of {names}")
        })
    }
}
