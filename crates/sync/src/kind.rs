//! The protocols by name.

use std::fmt::{Display, Formatter};
use std::str::FromStr;

use stepwell_fabric::Fabric;

use crate::ad_psgd::AdPsgd;
use crate::bsp::Bsp;
use crate::eager_majority::EagerMajority;
use crate::number::Number;
use crate::optimizers::Optimizer;
use crate::options::{Options, OptionsError};
use crate::protocol::{OpenEnded, Protocol};
use crate::rna::Rna;
use crate::worker::{UpdateOf, Worker};
use crate::{rdma_wild, sync_dsgd};

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
        Ok(self.end_of(fabric, parameters, optimizer, options))
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
        optimizer: Box<dyn Optimizer<T>>,
        options: &Options,
    ) -> Result<Box<dyn OpenEnded<T>>, OptionsError> {
        options.check(self, fabric.size())?;
        let options = Options { steps: u64::MAX, may_rest: true, ..options.clone() };
        Ok(self.end_of(fabric, parameters, optimizer, &options))
    }

    fn end_of<T: Number>(
        self,
        fabric: &Fabric,
        parameters: Vec<T>,
        optimizer: Box<dyn Optimizer<T>>,
        options: &Options,
    ) -> Box<dyn OpenEnded<T>> {
        match self {
            Self::Bsp => Box::new(Bsp::new(fabric, parameters, optimizer, options)),
            Self::SyncDsgd if fabric.rank() > 0 => {
                Box::new(Worker::new(fabric, parameters, options, UpdateOf::All))
            }
            Self::RdmaWild if fabric.rank() > 0 => {
                Box::new(Worker::new(fabric, parameters, options, UpdateOf::Each))
            }
            Self::SyncDsgd => {
                Box::new(sync_dsgd::Server::new(fabric, parameters, optimizer, options))
            }
            Self::EagerMajority => {
                Box::new(EagerMajority::new(fabric, parameters, optimizer, options))
            }
            Self::AdPsgd => Box::new(AdPsgd::new(fabric, parameters, optimizer, options)),
            Self::RdmaWild => {
                Box::new(rdma_wild::Server::new(fabric, parameters, optimizer, options))
            }
            Self::Rna => Box::new(Rna::new(fabric, parameters, optimizer, options)),
        }
    }
}

impl Options {
    /// The most bytes of a rank's end for parameters of `parameter_bytes`, including its windows
    /// and messages.
    pub fn bytes(&self, kind: Kind, ranks: usize, parameter_bytes: usize) -> usize {
        // Parameters, gradient, velocity, and messages in flight in both directions.
        let replica = 3 + 4;
        let copies = match kind {
            Kind::Bsp | Kind::EagerMajority => replica + 1,
            // A window, and another of its size during MPI's transfer, or waiting messages.
            Kind::SyncDsgd | Kind::RdmaWild => replica + 2 * ranks,
            Kind::AdPsgd => replica + 2,
            Kind::Rna => replica + 3 + self.waiting_max,
        };
        copies * parameter_bytes
    }

    fn check(&self, kind: Kind, ranks: usize) -> Result<(), OptionsError> {
        let wrong = |why: String| Err(OptionsError::new(why));
        if ranks < 2 {
            return wrong(format!("{kind} needs several ranks, but there is one: use at least 2"));
        }
        if !(self.rate.base > 0.0 && self.rate.base.is_finite()) {
            return wrong(format!("the rate is {}: use a finite one above 0", self.rate.base));
        }
        if !(0.0..1.0).contains(&self.momentum) {
            return wrong(format!("the momentum is {}: use one from 0 to below 1", self.momentum));
        }
        if !(0.0..1.0).contains(&self.weight_decay) {
            let decay = self.weight_decay;
            return wrong(format!("the weight decay is {decay}: use one from 0 to below 1"));
        }
        if kind == Kind::Rna {
            return self.check_rna(ranks);
        }
        Ok(())
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
