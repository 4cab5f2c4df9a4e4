//! The settings of devices.

use stepwell_device::Choice;
use stepwell_engine::Lookup;

use crate::check;
use crate::config::{Config, DensePlace};
use crate::no_effect;
use crate::setting::{Kept, Setting, setting};
use crate::setting_types::Typed;

/// Devices for rows.
pub(crate) const DEVICE: Setting = setting!(
    "device",
    device = Choice::Auto,
    Never,
    "where each rank keeps the rows of its working set: auto (all CUDA devices if they can be \
     used, else host), host, cuda, cuda:0,1 or emulated:2; does not change the model"
);

/// Bytes of a device for rows.
pub(crate) const HBM: Setting = setting!(
    "tiers.hbm",
    tiers.hbm = None,
    Never,
    "bytes of each device for rows and for moving them; its rows keep their slots on the host and \
     are at most half of the rows there"
)
.default_name("nine tenths of its free memory")
.idle(no_effect::on_the_host);

/// How a step finds rows on a device.
pub(crate) const LOOKUP: Setting = setting!(
    "tiers.lookup",
    tiers.lookup = Lookup::Slots,
    Never,
    "slots or table: how a step finds its rows on a device, by slot number or by key in a hash \
     table there, which takes 24 bytes of the device per row"
)
.idle(no_effect::on_the_host);

/// Number of mini-batches that count uses of rows.
pub(crate) const WARM_UP: Setting = setting!(
    "tiers.warm_up",
    tiers.warm_up = 100,
    Never,
    "mini-batches that count uses of rows before the most used ones go to devices, for tables with \
     place = device; until then all of their rows stay on the host"
)
.check(|config| check::positive(config.tiers.warm_up as u64))
.idle(no_effect::without_tables_on_devices);

/// Where the dense part runs.
pub(crate) const DENSE: Setting = setting!(
    "train.dense",
    train.dense = DensePlace::Host,
    Never,
    "host or device: where the dense part of the model is computed; CUDA devices give other bits \
     than the host"
);
