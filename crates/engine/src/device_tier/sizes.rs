//! Memory that rows on devices take: on the device, and on the host.

use stepwell_base::budget::Budget;
use stepwell_base::owner::RankOf;
use stepwell_base::{ByteCount, SlotIndex};
use stepwell_device::Device;
use stepwell_kernels::UpdateTable;
use stepwell_mem::metadata_bytes;

use super::describe::has_kernel;
use super::key_table;
use super::lookup::{Lookup, TableChanges};
use super::pool_sizes::{PoolShape, PoolSizes};
use super::warm_up::WarmUp;
use crate::table_spec::TableSpec;
use crate::tiers::{GroupPlan, Load, TierPlan};
use crate::working_set::OnDevice;
use crate::{Error, Result};

/// Bytes of a piece of rows between host and device.
const PIECE_BYTES: usize = 1 << 20;
/// Number of pieces of each direction in flight at once.
pub(crate) const PIECES: usize = 3;

/// The devices of a rank.
#[derive(Clone, Debug)]
pub struct DeviceOptions {
    /// The devices.
    pub devices: Vec<Device>,
    /// The rank that owns the devices.
    pub place: RankOf,
}

/// Memory for rows on each device of a rank, and how rows are used there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceShare<'a> {
    /// Bytes of each device.
    pub hbm: ByteCount,
    /// Number of devices.
    pub devices: usize,
    /// Whether rows are lent to other ranks, which needs them whole.
    pub lends: bool,
    /// How a step finds its rows.
    pub lookup: Lookup,
    /// How rows are pooled there, if the dense part is on devices as well.
    pub pooling: Option<PoolShape<'a>>,
    /// By table, whether only its most used rows may be lifted (empty: no table), and the number of
    /// mini-batches of the warm-up that counts uses.
    pub by_use: (&'a [bool], usize),
}

/// Sizes of each device's rows and buffers.
#[derive(Clone, Debug, PartialEq)]
pub struct DevicePlan {
    /// Slots of each table group.
    pub slots: Vec<usize>,
    /// Rows of a piece, by table group.
    pub(crate) piece_rows: Vec<usize>,
    /// Maximum distinct rows of a mini-batch, by table.
    pub(crate) rows_max: Vec<usize>,
    /// Whether rows visit the host whole and return whole, by table: if the host decides on their
    /// history, they are lent to other ranks, or no kernel has their optimizer.
    pub(crate) whole: Vec<bool>,
    /// Lanes of a row that visits the host, by table; enough for its gradient on the way back.
    pub(crate) visit_lanes: Vec<usize>,
    /// How a step finds its rows.
    pub lookup: Lookup,
    /// Whether only the most used rows may be lifted, by table.
    pub(crate) by_use: Vec<bool>,
    /// Number of mini-batches in which uses are counted.
    pub(crate) warm_up: usize,
    /// Sizes for pooling rows, if they are pooled there.
    pub(crate) pooling: Option<PoolSizes>,
    /// Bytes of each device for rows.
    pub rows_bytes: u64,
    /// Bytes of each device for the hash tables that find rows, if any.
    pub tables_bytes: u64,
    /// Bytes of each device for moving rows, and as many on the host.
    pub moving_bytes: u64,
    /// Number of devices.
    pub devices: usize,
}

/// Bytes of `slots` slots of a group, padded so that the next group is aligned to 16 bytes.
fn rows_bytes(group: &GroupPlan, slots: usize) -> u64 {
    ((slots * group.spec.row_lanes()).next_multiple_of(4) * size_of::<f32>()) as u64
}

/// Words per row in the lists of a mini-batch: the row's slot, and two for rounding the row.
const LIST_WORDS: usize = 3;

impl DevicePlan {
    /// Divides the memory for rows of each device among the groups of `tiers`.
    ///
    /// # Errors
    /// If it holds no row of a group in addition to the buffers that move a mini-batch's rows.
    pub fn new(
        tiers: &TierPlan,
        tables: &[TableSpec],
        load: &Load,
        DeviceShare { hbm, devices, lends, lookup, pooling, by_use }: DeviceShare<'_>,
    ) -> Result<Self> {
        let groups = &tiers.groups;
        let rows_max = tiers.rows_max(load);
        let whole = |table: &TableSpec| lends || table.life.is_some() || !has_kernel(table);
        let whole: Vec<bool> = tables.iter().map(whole).collect();
        // A row that returns whole keeps its size; sums for 16-bit weights are wider.
        let visit_lanes = tables.iter().zip(&whole).map(|(table, whole)| match whole {
            true => table.row_lanes(),
            false => table.row_lanes().max(table.weight_count()),
        });
        let visit_lanes = visit_lanes.collect();
        let piece_rows = |group: &GroupPlan| {
            (PIECE_BYTES / group.spec.row_bytes()).clamp(1, (group.slots / PIECES).max(1))
        };
        let mut plan = Self {
            slots: Vec::new(),
            piece_rows: groups.iter().map(piece_rows).collect(),
            rows_max,
            whole,
            visit_lanes,
            lookup,
            by_use: by_use.0.to_vec(),
            warm_up: by_use.1,
            pooling: None,
            rows_bytes: 0,
            tables_bytes: 0,
            moving_bytes: 0,
            devices,
        };
        plan.pooling = pooling.filter(|_| !plan.whole.contains(&true)).map(|shape| {
            let (rows, lanes) = (&plan.rows_max, plan.lanes_max());
            PoolSizes::new(shape, tables, devices, rows, lanes, &tiers.occurrences_max(load))
        });
        plan.check_counts()?;
        plan.moving_bytes = plan.moving(groups);
        plan.share_out(groups, hbm)?;
        Ok(plan)
    }

    /// Devices count words and lanes of a mini-batch in 32 bits.
    fn check_counts(&self) -> Result<()> {
        let most = self.words().max(self.lanes_max());
        if most < u32::MAX as usize {
            return Ok(());
        }
        Err(Error::Settings(format!(
            "data.mini_batch: the rows of a mini-batch may have {most} lanes, but devices count \
             only to {}: lower it, or use device = host",
            u32::MAX
        )))
    }

    /// Bytes of a device for moving rows.
    fn moving(&self, groups: &[GroupPlan]) -> u64 {
        let lanes = groups.iter().zip(&self.piece_rows);
        let lanes = lanes.map(|(group, rows)| group.spec.row_lanes() * rows).max().unwrap_or(0);
        let list = self.piece_rows.iter().max().copied().unwrap_or(0);
        let pieces = 2
            * PIECES as u64
            * [lanes, list]
                .map(|words| Device::bytes_counted(4 * words as u64))
                .iter()
                .sum::<u64>();
        let tables = size_of::<UpdateTable>() * self.rows_max.len();
        let step = [4 * self.words(), 4 * self.lanes_max(), tables];
        let step: u64 = step.iter().map(|bytes| Device::bytes_counted(*bytes as u64)).sum();
        let keys = match self.lookup {
            Lookup::Slots => 0,
            Lookup::Table => key_table::keys_bytes(self.rows_of_step(), self.list_words()),
        };
        pieces + step + keys + self.pooling.as_ref().map_or(0, PoolSizes::moving_bytes)
    }

    /// Sets the `slots` of each table group of `tiers` on each device, and the rows of a piece,
    /// regardless of memory.
    ///
    /// # Panics
    /// If the slots of all devices exceed half of the host's.
    pub fn resize(&mut self, tiers: &TierPlan, slots: &[usize], piece_rows: usize) {
        assert_eq!(slots.len(), tiers.groups.len(), "slots of each group");
        self.piece_rows.fill(piece_rows);
        self.moving_bytes = self.moving(&tiers.groups);
        self.rows_bytes = 0;
        for (number, (group, slots)) in tiers.groups.iter().zip(slots).enumerate() {
            let most = group.slots / 2 / self.devices.max(1);
            assert!((1..=most).contains(slots), "{slots} slots on devices over {}", group.slots);
            self.slots[number] = *slots;
            self.rows_bytes += rows_bytes(group, *slots);
        }
        self.tables_bytes = self.tables();
    }

    /// Bytes of a device for hash tables.
    fn tables(&self) -> u64 {
        match self.lookup {
            Lookup::Slots => 0,
            Lookup::Table => key_table::tables_bytes(&self.slots),
        }
    }

    /// Bytes of a device per slot of `group`, and in addition to its slots, including padding to 16
    /// bytes.
    fn slot_bytes(&self, group: &GroupPlan) -> (u128, u128) {
        let (slot, beside) = match self.lookup {
            Lookup::Slots => (0, 0),
            Lookup::Table => key_table::slot_bytes(),
        };
        ((group.spec.row_bytes() + slot) as u128, 16 + beside as u128)
    }

    fn share_out(&mut self, groups: &[GroupPlan], hbm: ByteCount) -> Result<()> {
        let beside = self.moving_bytes + self.pooling_bytes();
        let left = u128::from(hbm.0.saturating_sub(beside));
        let touched =
            |plan: &Self, group: &GroupPlan| u128::from(group.ids_max) * plan.slot_bytes(group).0;
        let all = groups.iter().map(|group| touched(self, group)).sum::<u128>().max(1);
        for group in groups {
            let ((bytes, beside), touched) = (self.slot_bytes(group), touched(self, group));
            let fits = ((left * touched / all).saturating_sub(beside) / bytes) as usize;
            // Rows on devices keep their slots on the host: use at most half of those.
            let most = group.slots / 2 / self.devices.max(1);
            let slots = fits.min(most);
            if slots == 0 {
                let least = ((bytes + beside) * all).div_ceil(touched.max(1));
                return Err(self.holds_no_row(group, hbm, fits, least));
            }
            self.slots.push(slots);
            self.rows_bytes += rows_bytes(group, slots);
        }
        self.tables_bytes = self.tables();
        Ok(())
    }

    /// Error for a group without slots: either `hbm` holds too few rows of `group` (`least` bytes
    /// suffice in addition to moving rows), or its host slots are too few.
    fn holds_no_row(&self, group: &GroupPlan, hbm: ByteCount, fits: usize, least: u128) -> Error {
        let (tables, devices) = (group.names.clone(), self.devices);
        if fits > 0 {
            return Error::Settings(format!(
                "tiers.dram has {} slots for rows of table '{tables}', and at most half of them \
                 are for rows on devices, too few for {devices} devices: raise tiers.dram, or \
                 choose fewer devices",
                group.slots
            ));
        }
        let moving = self.moving_bytes + self.pooling_bytes();
        let least = u64::try_from(least).unwrap_or(u64::MAX).saturating_add(moving);
        Error::NoRowOnDevice { hbm, tables, moving: ByteCount(moving), least }
    }

    /// Bytes of each device's pool.
    pub fn device_bytes(&self) -> u64 {
        let rows = Device::bytes_counted(self.rows_bytes) + self.tables_bytes;
        rows + self.moving_bytes + self.pooling_bytes()
    }

    /// Bytes of each device for weights and gradients from other devices.
    pub fn pooling_bytes(&self) -> u64 {
        self.pooling.as_ref().map_or(0, PoolSizes::device_bytes)
    }

    /// Number of words of all lists of a mini-batch.
    pub(crate) fn words(&self) -> usize {
        self.list_words() + self.pooling.as_ref().map_or(0, |sizes| sizes.words)
    }

    /// Maximum distinct rows of a mini-batch, over all tables.
    pub(crate) fn rows_of_step(&self) -> usize {
        self.rows_max.iter().sum()
    }

    /// Number of words of the lists of a step.
    pub(crate) fn list_words(&self) -> usize {
        // Rounding words of a table begin at an even word.
        LIST_WORDS * self.rows_of_step() + self.rows_max.len()
    }

    /// Number of lanes of weights or gradients of a step.
    pub(crate) fn lanes_max(&self) -> usize {
        self.rows_max.iter().zip(&self.visit_lanes).map(|(rows, lanes)| rows * lanes).sum()
    }

    /// Adds the host's memory for rows on devices.
    pub fn add_host(&self, tiers: &TierPlan, load: &Load, budget: &mut Budget) {
        let devices = self.devices as u64;
        let why = format!("{devices} devices");
        budget.add("copies to devices", self.moving_bytes * devices, why.clone());
        let visits = self.rows_max.iter().zip(&self.visit_lanes);
        let visits = visits.map(|(rows, lanes)| {
            (rows * (lanes * size_of::<f32>() + size_of::<SlotIndex>())) as u64
        });
        budget.add("rows that visit", visits.sum(), "rows of a mini-batch");
        let rows = self.rows_of_step();
        if self.by_use.contains(&true) {
            let bytes: u64 = self.slots.iter().map(|slots| WarmUp::bytes_max(*slots)).sum();
            budget.add("keys of a warm-up", bytes * devices, why.clone());
        }
        if let Some(sizes) = &self.pooling {
            budget.add("lists for devices", sizes.host_bytes(rows), "rows of a mini-batch");
        }
        let ahead = tiers.horizon() as u64 + load.lookahead + 2;
        let lists = OnDevice::bytes_max(rows as u64) * ahead;
        let planners = self.slots.iter().zip(&tiers.groups).map(|(slots, _)| {
            metadata_bytes(tiers.policy(), *slots as u64, tiers.horizon() as u64 + 2)
        });
        budget.add("planning for devices", planners.sum::<u64>() * devices + lists, why.clone());
        if self.lookup == Lookup::Table {
            let slots: usize = self.slots.iter().sum();
            // A lifted row is pinned, so no more are in flight than there are slots.
            let changed = (rows as u64 * ahead).min(slots as u64 * devices);
            let noted = key_table::noted_bytes(slots, self.list_words()) * devices;
            budget.add("keys on devices", noted + TableChanges::bytes_max(changed), why);
        }
    }
}
