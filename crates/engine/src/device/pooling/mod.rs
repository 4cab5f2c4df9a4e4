//! Pools and updates rows in place, for a dense part on the same devices.
//!
//! ```text
//!  stream `step`    slots, bags ─► rows_pool ─► x │ pooled           passed │ rows_update
//!  stream of layers                               └─► forward, backward ─► d_x ┘
//! ```
//!
//! - **Why.** Neither weights nor gradients are transferred, only lists, with four bytes for a row
//!   of 64 bytes. The optimizer runs in the pass that sums gradients.
//! - **How.** A [`PooledAt`] connects a replica of the dense part and the rows on its device. Two
//!   events order them: layers wait until rows are `pooled`, and rows change after layers have
//!   `passed`. The host, which reads the losses, has waited for both before the next mini-batch is
//!   pooled. With one device, rows are pooled from their slots. With several, each owns the rows of
//!   its keys: first all weights of a mini-batch are copied to all devices that pool, and
//!   afterwards the gradients of all examples to all devices.
//! - **Which mini-batches.** Mini-batches with all rows on devices are pooled. Of others, weights
//!   visit the host ([`super::visits`]) instead; the bits are the same.
//! - **Invariants.** Sums have the host's order (I2): bags in example order within a block, blocks
//!   by the one tree, since each owner sees the gradients of all examples. Padding between the
//!   blocks of a device has empty bags, and no bags refer to it.
//! - **Bounds.** [`PoolSizes`]; everything is allocated when the tier is made.

mod exchange;
mod lists;

use std::sync::{Arc, MutexGuard};

use stepwell_base::rules::Rule;
use stepwell_device::Arg;
use stepwell_kernels::named;

use self::lists::Laid;
use super::pool_asked::{PoolAsked, PooledAt};
use super::visits::{LanesRead, Visit};
use crate::Result;
use crate::device_tier::pool_buffers::Pooled;
use crate::device_tier::pool_sizes::PoolSizes;
use crate::device_tier::tier::{DeviceTier, OneDevice};
use crate::device_tier::visitor::Visitor;

impl DeviceTier {
    /// Whether rows may be pooled on the devices.
    pub(crate) fn pools(&self) -> bool {
        self.plan.pooling.is_some()
    }

    /// Pools the rows of a mini-batch on the devices that have its blocks.
    ///
    /// # Errors
    /// If a device fails.
    pub(crate) fn pool(&self, asked: &PoolAsked<'_>) -> Result<()> {
        let visits: Vec<Vec<Visit<'_>>> = (0..self.len())
            .map(|device| {
                let PoolAsked { parts, groups, tables, .. } = *asked;
                self.visits(parts, groups, tables, device, LanesRead::Weights)
            })
            .collect();
        let mut visitors: Vec<_> = self.devices.iter().map(OneDevice::visitor).collect();
        let places = self.places(&visits, asked);
        let laid = Laid::new(asked.blocks, self.pool_sizes().slot_rows);
        for (device, visitor) in visitors.iter_mut().enumerate() {
            self.list_all(visitor, device, &visits, &places, &laid, asked)?;
        }
        if !self.is_alone() {
            self.read_for_others(&visitors, &visits)?;
        }
        for (device, at) in asked.at.iter().enumerate() {
            self.pool_on(&visitors, device, at, &visits, asked)?;
        }
        self.pooled_one();
        for ((one, visitor), visits) in self.devices.iter().zip(&mut visitors).zip(&visits) {
            visitor.check_found(self, one, visits)?;
        }
        Ok(())
    }

    /// Whether all rows are on a single device.
    fn is_alone(&self) -> bool {
        self.len() == 1
    }

    /// Pools the rows of the blocks of device `device` into its buffers `at`.
    fn pool_on(
        &self,
        visitors: &[MutexGuard<'_, Visitor>],
        device: usize,
        at: &PooledAt,
        visits: &[Vec<Visit<'_>>],
        asked: &PoolAsked<'_>,
    ) -> Result<()> {
        let (one, visitor) = (&self.devices[device], &visitors[device]);
        let (room, sizes) = (visitor.pool(), self.pool_sizes());
        let stream = &visitor.stream;
        if !self.is_alone() {
            self.take_from_others(visitors, device, visits)?;
        }
        let rows = match self.is_alone() {
            true => {
                let rows = visits[device].iter().map(|visit| visit.rows_at(one)).collect();
                Arg::rows(&one.rows, rows)
            }
            false => Arg::all(&room.rows),
        };
        let examples = asked.blocks.part(device, sizes.devices).count() * sizes.slot_rows;
        let (columns, tables) = (asked.columns.count, asked.tables.len());
        let args = vec![
            rows,
            Arg::first(&visitor.lists, room.words),
            Arg::first(&room.pools, tables),
            Arg::u32(tables as u32),
            Arg::all(&room.columns_of),
            Arg::u32(columns as u32),
            Arg::u32(examples as u32),
            Arg::first(&at.x, examples * at.columns),
            Arg::u32(at.columns as u32),
            Arg::first(&at.first_order, examples),
        ];
        let items = examples * (columns.div_ceil(4) + 1);
        stream.launch(named("rows_pool"), items, args)?;
        if self.rules.hold(Rule::WaitForPooled) {
            stream.record(&at.pooled)?;
        }
        Ok(())
    }

    /// Updates the rows of mini-batch `number` by the gradients in all devices' buffers `at`.
    ///
    /// # Errors
    /// If a device fails.
    pub(crate) fn update(&self, at: &[Arc<PooledAt>], number: u32) -> Result<()> {
        for one in &self.devices {
            let mut visitor = one.visitor();
            let Some(pooled) = visitor.pool_mut().pooled.take() else {
                panic!("mini-batch {number} was not pooled");
            };
            assert_eq!(pooled.number, number, "only the last pooled mini-batch is updated");
            if self.rules.hold(Rule::WaitForPassed) {
                for at in at {
                    visitor.stream.wait(&at.passed)?;
                }
            }
            if !self.is_alone() {
                self.gather_gradients(&visitor, at)?;
            }
            self.update_on(one, &visitor, &at[0], &pooled)?;
            visitor.stream.record(&visitor.sent)?;
            one.step_is_over(number, &visitor.stream)?;
        }
        Ok(())
    }

    fn update_on(
        &self,
        one: &OneDevice,
        visitor: &Visitor,
        at: &PooledAt,
        pooled: &Pooled,
    ) -> Result<()> {
        let (room, columns) = (visitor.pool(), self.pool_sizes().columns());
        let (d_x, d_first_order) = match self.is_alone() {
            true => (&at.d_x, &at.d_first_order),
            false => (&room.d_x, &room.d_first_order),
        };
        let Pooled { tables, rows, examples, .. } = pooled;
        let gradients = || {
            vec![
                Arg::first(d_x, examples * columns),
                Arg::u32(columns as u32),
                Arg::first(d_first_order, *examples),
                Arg::u32(*examples as u32),
            ]
        };
        visitor.update(one, *tables, &|| rows.clone(), "rows_update", &gradients)
    }

    /// Whether updates were queued for all rows that devices pooled for training.
    pub(crate) fn are_updated(&self) -> bool {
        self.devices.iter().all(|one| one.visitor().pool().pooled.is_none())
    }

    fn pool_sizes(&self) -> &PoolSizes {
        let Some(sizes) = &self.plan.pooling else { panic!("these devices do not pool") };
        sizes
    }
}
