//! `memory`, and the settings that divide it.

use crate::config::Config;
use crate::setting::{Kept, Setting, setting};
use crate::setting_types::Typed;

/// Limit on the memory of the whole run.
pub(crate) const MEMORY: Setting = setting!(
    "memory",
    memory = None,
    Never,
    "limit in bytes on the run's host memory, all of its ranks on a machine together; tiers.dram, \
     tiers.index, tiers.harvest and tiers.segment are derived from it unless given"
)
.default_name("the sum of the other settings");

/// Bytes of rows in memory.
pub(crate) const DRAM: Setting = setting!(
    "tiers.dram",
    tiers.dram = None,
    Never,
    "bytes of rows in memory, with their index and metadata"
)
.default_name("1GiB, or a share of `memory`");

/// Limit on the index of rows on disk.
pub(crate) const INDEX: Setting =
    setting!("tiers.index", tiers.index = None, Never, "limit in bytes on the store's index")
        .default_name("1GiB, or a share of `memory`");

/// Bytes of a segment file.
pub(crate) const SEGMENT: Setting =
    setting!("tiers.segment", tiers.segment = None, Never, "bytes of a segment file")
        .default_name("64MiB, less if `memory` is small");

/// Bytes of harvested rows.
pub(crate) const HARVEST: Setting = setting!(
    "tiers.harvest",
    tiers.harvest = None,
    Never,
    "bytes of rows harvested from pages read for other rows (0: none)"
)
.default_name("64MiB, less if `memory` is small");
