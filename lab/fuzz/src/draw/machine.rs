//! Random settings that must not affect the bits of the model: memory, disk, threads, timing.

use crate::dice::Dice;

/// All eviction policies.
pub(crate) const POLICIES: [&str; 3] = ["s3-fifo", "lru-lfu", "sven"];
/// Engines for reads and writes; `None` leaves the choice to the program.
const ENGINES: [Option<&str>; 4] = [None, None, Some("uring"), Some("pool")];

/// Memory for rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Memory {
    /// The program's stated minimum, increased on request.
    Barely,
    /// This factor of what any mini-batch of that size needs.
    Tight(f64),
    /// More than all rows take.
    Plenty,
}

/// Memory for the index of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Index {
    /// The program's stated minimum, increased on request.
    Barely,
    /// More than all rows need.
    Plenty,
}

/// Memory for rows on each emulated device, relative to the program's stated minimum. Small
/// increments already give more slots than any mini-batch needs.
const HBM: [f64; 5] = [1.0, 1.01, 1.1, 1.5, 8.0];

/// Settings of one process, except for data and model.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Machine {
    /// By key.
    pub(crate) settings: Vec<(&'static str, String)>,
    pub(crate) memory: Memory,
    pub(crate) index: Index,
    /// If there are emulated devices, the memory of each relative to the stated minimum.
    pub(crate) hbm: Option<f64>,
    /// `STEPWELL_IO_ENGINE`.
    pub(crate) engine: Option<&'static str>,
    /// Whether rows are in a named directory, which all processes of a run share, or in a temporary
    /// one.
    pub(crate) rows_named: bool,
}

impl Machine {
    /// Everything in memory, one thing at a time.
    pub(crate) fn plain() -> Self {
        let settings = [
            ("threads", "1"),
            ("pipeline.lookahead", "0"),
            ("tiers.segment", "1MiB"),
            ("tiers.page_cache", "0"),
        ];
        Self {
            settings: settings.map(|(key, value)| (key, value.to_owned())).to_vec(),
            memory: Memory::Plenty,
            index: Index::Plenty,
            hbm: None,
            engine: None,
            rows_named: false,
        }
    }

    /// Draws a machine for mini-batches of `mini_batch` examples.
    pub(crate) fn draw(dice: &mut Dice, mini_batch: u64) -> Self {
        let lookahead = dice.pick(&[0, 1, 1, 2, 2, 3, 5, 9]);
        let mut settings = vec![
            ("threads", dice.pick(&["1", "2", "3", "4", "9"]).to_owned()),
            ("pipeline.lookahead", lookahead.to_string()),
            ("tiers.policy", dice.pick(&POLICIES).to_owned()),
            (
                "tiers.segment",
                dice.pick(&["16KiB", "20000", "64KiB", "64KiB", "256KiB", "1MiB"]).into(),
            ),
            ("tiers.harvest", dice.pick(&["0", "4KiB", "1MiB", "32MiB"]).to_owned()),
            ("tiers.read_unit", dice.pick(&["0", "8KiB", "10000", "128KiB"]).to_owned()),
            ("tiers.page_cache", dice.pick(&["0", "0", "200KiB", "4GiB"]).to_owned()),
        ];
        if dice.chance(60) {
            settings
                .push(("pipeline.horizon", (lookahead + dice.pick(&[0, 1, 4, 20])).to_string()));
        }
        if dice.chance(60) {
            settings.push(("data.batch", (mini_batch * dice.within(1, 9)).to_string()));
        }
        if dice.chance(60) {
            settings.push(("tiers.space", dice.pick(&["1.1", "1.2", "1.9", "2"]).to_owned()));
        }
        let memory = match dice.below(10) {
            0..4 => Memory::Barely,
            4..9 => Memory::Tight(1.0 + dice.part() * dice.part()),
            _ => Memory::Plenty,
        };
        let index = if dice.chance(25) { Index::Barely } else { Index::Plenty };
        let (engine, rows_named) = (dice.pick(&ENGINES), dice.chance(40));
        // Drawn last, so that the rest of a seed doesn't depend on it.
        let hbm = dice.chance(35).then(|| dice.pick(&HBM));
        if hbm.is_some() {
            let devices = dice.pick(&["emulated:1", "emulated:1", "emulated:2", "emulated:3"]);
            settings.push(("device", devices.to_owned()));
            settings.push(("tiers.lookup", dice.pick(&["slots", "table"]).to_owned()));
            settings.push(("train.dense", dice.pick(&["host", "device"]).to_owned()));
        }
        Self { settings, memory, index, hbm, engine, rows_named }
    }

    /// Takes the devices away.
    pub(super) fn take_devices(&mut self) {
        let of_devices = ["device", "tiers.lookup", "train.dense"];
        self.settings.retain(|(key, _)| !of_devices.contains(key));
        self.hbm = None;
    }
}
