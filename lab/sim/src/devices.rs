//! Emulated devices of a simulated run. Their streams advance when they are polled, by a random
//! amount.

use std::sync::Arc;

use stepwell_device::{Choice, Device, Offer, Wanted, emulated};
use stepwell_engine::Lookup;
use stepwell_settings::{DensePlace, EMBEDDING, PlaceKind, TableConfig};
use stepwell_train::{Devices, HostProducts};

use crate::dice::Dice;
use crate::oracle::Oracle;
use crate::shape::Shape;

/// Kernels that move rows, and one that changes them.
const KERNELS: [&str; 4] = ["rows_up", "rows_down", "rows_read", "rows_step"];
/// A kernel that reads rows, and the one that finds rows in tables, which fails in its place.
const OF_TABLES: (&str, &str) = ("rows_read", "table_get");
/// Most launches or operations before the failing one.
const BEFORE_MAX: u64 = 60;

/// Fault of the first device of a run.
#[derive(Clone, Copy, Debug)]
pub enum DeviceFault {
    /// A launch of a kernel fails.
    Launch {
        /// Name of the kernel.
        kernel: &'static str,
        /// Number of successful launches of it before.
        after: u64,
    },
    /// The device is lost before its first operation.
    Lost,
}

impl DeviceFault {
    /// Draws a fault for a device that finds rows with `lookup`.
    pub fn draw(dice: &mut Dice, lookup: Lookup) -> Self {
        if dice.once_in(8) {
            return Self::Lost;
        }
        let (drawn, after) = (dice.pick(&KERNELS), dice.below(BEFORE_MAX));
        let finds = lookup == Lookup::Table && drawn == OF_TABLES.0;
        Self::Launch { kernel: if finds { OF_TABLES.1 } else { drawn }, after }
    }
}

/// Devices whose streams have no threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stepped {
    /// Seed of the order of their work.
    pub(crate) seed: u64,
    /// Fault of the first device.
    pub(crate) fault: Option<DeviceFault>,
}

impl Devices for Stepped {
    fn open(&self, offer: &Offer, wanted: Wanted) -> Result<Vec<Device>, String> {
        let machine = emulated::Machine::new(emulated::Settings {
            devices: offer.len(),
            memory_bytes: wanted.memory_bytes,
            pinned_bytes: wanted.pinned_bytes,
            seed: self.seed,
            time: emulated::Time::Stepped,
            products: Arc::new(HostProducts::default()),
            ..emulated::Settings::default()
        });
        match self.fault {
            Some(DeviceFault::Launch { kernel, after }) => machine.fail_launch(0, kernel, after),
            Some(DeviceFault::Lost) => machine.lose(0),
            None => {}
        }
        Ok(machine.devices().to_vec())
    }
}

impl Shape {
    /// Adds devices above memory, with one slot up to half of the slots below, which are increased
    /// if necessary. Returns false if rows that stay in memory leave no space for devices.
    pub fn put_devices(&mut self, dice: &mut Dice, oracle: &Oracle) -> bool {
        let devices = dice.pick(&[1, 1, 2, 3]);
        let mut of_hosts = Vec::new();
        for (room, slots) in oracle.rooms.iter().zip(&self.slots) {
            let least = 2 * devices * room.rows_of_mini_batch;
            if room.whole.is_some_and(|whole| whole < least) {
                return false;
            }
            of_hosts.push(room.whole.unwrap_or_else(|| (*slots).max(least)));
        }
        let slots = oracle.rooms.iter().zip(&of_hosts).map(|(room, slots)| {
            let (all, most) = (room.rows_of_mini_batch, slots / 2 / devices);
            let slots = match dice.below(5) {
                0 | 1 => all,
                2 => most,
                3 => 1 + dice.below(all),
                _ => all + dice.below(most - all + 1),
            };
            slots as usize
        });
        self.sizes.device_slots = slots.collect();
        self.config.device = Choice::Emulated(devices as usize);
        self.give(of_hosts, oracle);
        if dice.once_in(3) {
            self.config.train.dense = DensePlace::Device;
        }
        true
    }

    /// Restricts some tables to their most used rows on devices. Uses separate dice.
    pub fn warm_up(&mut self, dice: &mut Dice) {
        if self.config.device == Choice::Host || !dice.once_in(3) {
            return;
        }
        if self.config.tables.is_empty() {
            self.config.tables.push(TableConfig::named(EMBEDDING));
        }
        let tiers = self.config.tables.iter_mut().filter(|of| of.place == PlaceKind::Tiers);
        tiers.filter(|_| !dice.once_in(3)).for_each(|table| table.place = PlaceKind::Device);
        self.config.tiers.warm_up = 1 + dice.below(12) as usize;
    }

    /// Draws how devices find rows. Uses separate dice.
    pub fn find_rows(&mut self, dice: &mut Dice) {
        self.config.tiers.lookup = dice.pick(&Lookup::ALL);
    }
}
