//! The dense part as tables: one for each tensor of the model, with the tensor's rows.

use std::ops::Range;

use stepwell_base::owner::RankOf;
use stepwell_base::{Key, TableId};
use stepwell_device::Device;
use stepwell_geeps::{Applies, CLOCKS_AHEAD_MAX, Initial, Settings, Staleness, TableSettings};
use stepwell_nn::ParameterSpec;
use stepwell_settings::RowsKind;

use crate::run_plan::RankPlan;
use crate::{Error, Result, talk};

/// The most update messages on their way to a shard.
const MESSAGES_MAX: u64 = 2048;

/// A tensor of the model, and the keys of its rows.
#[derive(Clone, Debug)]
pub(super) struct Tensor {
    pub(super) table: TableId,
    pub(super) keys: Vec<Key>,
    /// Lanes of the tensor among all parameters.
    pub(super) lanes: Range<usize>,
}

/// Settings that all ranks' parameter servers share, without the values of parameters.
#[derive(Clone, Debug)]
pub(crate) struct Tables {
    pub(super) tensors: Vec<Tensor>,
    /// Allowed age of the parameters that a gradient is computed with.
    pub(super) staleness: Staleness,
    pub(super) settings: Settings,
}

impl Tables {
    /// The tables of a model of these `parameters`.
    pub(crate) fn new(ranks: RankPlan, parameters: &[ParameterSpec]) -> Self {
        let staleness = match ranks.sync.rows {
            RowsKind::Exact | RowsKind::Bounded => Staleness::Clocks(ranks.ahead_max),
            RowsKind::Async => Staleness::Unbounded,
        };
        let applies = match staleness {
            Staleness::BSP => Applies::ByClock,
            _ => Applies::OnArrival,
        };
        let (mut tensors, mut tables) = (Vec::new(), Vec::new());
        for parameter in parameters.iter().filter(|parameter| !parameter.range.is_empty()) {
            let (lanes, shape) = (parameter.range.clone(), &parameter.shape);
            // A vector is one row.
            let rows = if shape.len() > 1 { shape[0] } else { 1 };
            let keys: Vec<Key> = (0..rows as u64).map(Key).collect();
            tables.push(TableSettings {
                name: parameter.name.clone(),
                row_floats: lanes.len() / rows,
                keys: keys.clone(),
                // The values are passed separately.
                initial: Initial::Zeros,
                applies,
            });
            tensors.push(Tensor { table: TableId(tensors.len() as u32), keys, lanes });
        }
        let bytes = tensors
            .iter()
            .map(|tensor| Device::bytes_counted((tensor.lanes.len() * size_of::<f32>()) as u64));
        let settings = Settings {
            // A read or its updates, and the same of the previous clock until reclaimed.
            budget_bytes: 2 * bytes.sum::<u64>(),
            // A rank further ahead waits for answers: MPI has room for this many messages to a
            // rank.
            clocks_ahead: (ranks.ahead_max + 1)
                .min(CLOCKS_AHEAD_MAX)
                .min(MESSAGES_MAX / tensors.len().max(1) as u64)
                .max(1),
            tables,
            pins: false,
            prefetch: false,
            first_tag: talk::TABLES.0,
            ..Settings::default()
        };
        Self { tensors, staleness, settings }
    }

    /// The settings of a parameter server that begins with these parameters.
    pub(super) fn begin_with(&self, parameters: &[f32]) -> Settings {
        let values = self.tensors.iter().map(|tensor| parameters[tensor.lanes.clone()].to_vec());
        Settings { values: values.collect(), ..self.settings.clone() }
    }

    /// The most bytes of one rank's parameter server and its worker, with `ranks` ranks.
    ///
    /// # Errors
    /// If there are more ranks or tables than the server supports.
    pub(crate) fn bytes_max(&self, ranks: usize) -> Result<u64> {
        let of_rank = |rank| Ok(self.settings.bounds(RankOf { rank, ranks })?.total());
        let bounds = (0..ranks).map(of_rank).collect::<stepwell_geeps::Result<Vec<u64>>>();
        let server = bounds.map_err(|why| Error::Config(format!("sync.dense = geeps: {why}")))?;
        let lanes: usize = self.tensors.iter().map(|tensor| tensor.lanes.len()).sum();
        // Parameters, an update, and a server's initial values.
        let worker = 3 * (lanes * size_of::<f32>()) as u64;
        Ok(server.into_iter().max().unwrap_or(0) + worker)
    }
}
