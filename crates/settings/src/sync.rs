//! The settings of how ranks agree on the model, in step or not.

use stepwell_sync::Kind;

use crate::check;
use crate::config::{Config, DenseKind, RowsKind};
use crate::setting::{Kept, Setting, setting};
use crate::setting_types::Typed;

/// Most steps whose updates rows may miss, and most updates of a gradient's age.
const STEPS_MAX: u64 = 1024;

/// How ranks agree on dense parameters.
pub(crate) const DENSE: Setting = setting!(
    "sync.dense",
    sync.dense = DenseKind::BSP,
    Never,
    "bsp, sync_dsgd, eager_majority, ad_psgd, rdma_wild, rna or geeps: how ranks agree on dense \
     parameters. All but bsp need sync.rows = bounded or async, and their model depends on timing; \
     that of geeps with bounded rows and sync.staleness 0 depends only on when checkpoints are \
     made"
)
.idle(alone);

/// Updates that rows may miss.
pub(crate) const ROWS: Setting = setting!(
    "sync.rows",
    sync.rows = RowsKind::Exact,
    Never,
    "exact, bounded or async: rows that a rank reads have the updates of all earlier steps, may \
     miss those of the last sync.staleness steps, or of all steps in flight"
)
.idle(alone);

/// Number of steps whose updates bounded rows may miss.
pub(crate) const STALENESS: Setting = setting!(
    "sync.staleness",
    sync.staleness = 8,
    Never,
    "steps whose updates bounded rows may miss, and under geeps dense parameters; no effect from \
     the steps of pipeline.lookahead + 1 batches on, as no more are in flight"
)
.check(|config| check::at_most(config.sync.staleness as usize, STEPS_MAX as usize))
.idle(without_bound);

/// Number of ranks that `rna` probes.
pub(crate) const PROBES: Setting = setting!(
    "sync.probes",
    sync.probes = 2,
    Never,
    "rna: ranks asked for each sum whether they have a gradient; the first that has one starts it \
     (all ranks if there are fewer)"
)
.check(|config| check::within(config.sync.probes, 1..=check::RANKS_MAX))
.idle(without_rna);

/// Greatest age of a gradient under `rna`.
pub(crate) const AGE: Setting = setting!(
    "sync.age",
    sync.age = 8,
    Never,
    "rna: a gradient that is more dense updates old than this is dropped and counted"
)
.check(|config| check::at_most(config.sync.age as usize, STEPS_MAX as usize))
.idle(without_rna);

fn alone(config: &Config) -> Option<&'static str> {
    (config.ranks.count == 1).then_some("there is only one rank")
}

fn without_bound(config: &Config) -> Option<&'static str> {
    if let Some(why) = alone(config) {
        return Some(why);
    }
    if config.sync.rows != RowsKind::Bounded {
        return Some("sync.rows is not bounded");
    }
    // The reading step is in flight, too.
    (config.sync.staleness >= config.in_flight())
        .then_some("rows never miss as many: at most pipeline.lookahead + 1 batches are in flight")
}

fn without_rna(config: &Config) -> Option<&'static str> {
    let is_rna = config.sync.dense == Kind::Rna.into();
    alone(config).or((!is_rna).then_some("sync.dense is not rna"))
}
