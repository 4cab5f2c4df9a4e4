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
    /// Every rank's gradient goes into every step: the blocking sum.
    Bsp,
    /// The same by a server, rank 0, that has the parameters: its workers step together.
    SyncDsgd,
    /// One drawn rank's gradient starts a sum of those that are there.
    EagerMajority,
    /// Every rank has parameters of its own and averages them with those of one other.
    AdPsgd,
    /// A server, rank 0, uses gradients as they come and answers who sent them.
    RdmaWild,
    /// The first of some probed ranks starts a sum of those that are there; in groups where ranks
    /// differ too much.
    Rna,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Bsp, Self::SyncDsgd, Self::EagerMajority, Self::AdPsgd, Self::RdmaWild, Self::Rna];

    /// Its name in settings.
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

    /// Ranks that compute, of `ranks`.
    pub const fn workers(self, ranks: usize) -> usize {
        if self.has_server() { ranks - 1 } else { ranks }
    }

    /// Which of the ranks' parameters are the model: their mean.
    pub fn model_of(self, ranks: usize) -> std::ops::Range<usize> {
        match self {
            Self::AdPsgd => 0..ranks,
            _ => 0..1,
        }
    }

    /// This rank's end of it. All ranks begin with the same parameters and options.
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

    /// This rank's end of it where parameters move by `optimizer`, whatever `options` say of that,
    /// and go on until all ranks have said how many gradients they give.
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
            format!("'{text}' is no protocol; there are {names}")
        })
    }
}
