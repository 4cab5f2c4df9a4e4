//! Drawn settings that must not reach the bits of the model: memory, disk, threads, timing.

use crate::dice::Dice;

/// Every policy of eviction.
pub(crate) const POLICIES: [&str; 3] = ["s3-fifo", "lru-lfu", "sven"];
/// What performs reads and writes; none for what the program chooses.
const ENGINES: [Option<&str>; 4] = [None, None, Some("uring"), Some("pool")];

/// How much memory a run gets for rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Memory {
    /// What the program says it needs at least, raised as it asks.
    Barely,
    /// Times what any mini-batch of its size needs.
    Tight(f64),
    /// More than all rows take.
    Plenty,
}

/// How much memory the index of the store gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Index {
    /// What the program says it needs at least, raised as it asks.
    Barely,
    /// More than all rows need.
    Plenty,
}

/// How much of each emulated device rows get, over what the program says it needs at least; small
/// parts of it are more slots than any mini-batch asks for.
const HBM: [f64; 5] = [1.0, 1.01, 1.1, 1.5, 8.0];

/// The settings of one process, data and model apart.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Machine {
    /// By key.
    pub(crate) settings: Vec<(&'static str, String)>,
    pub(crate) memory: Memory,
    pub(crate) index: Index,
    /// Where there are emulated devices, the bytes of each over what the program needs at least.
    pub(crate) hbm: Option<f64>,
    /// `STEPWELL_IO_ENGINE`.
    pub(crate) engine: Option<&'static str>,
    /// Whether rows lie in a named directory, which the lives of a run share, or a temporary one.
    pub(crate) rows_named: bool,
}

impl Machine {
    /// All in memory, one thing at a time.
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
        // Drawn last, so that all else of a seed is what it was.
        let hbm = dice.chance(35).then(|| dice.pick(&HBM));
        if hbm.is_some() {
            let devices = dice.pick(&["emulated:1", "emulated:1", "emulated:2", "emulated:3"]);
            settings.push(("device", devices.to_owned()));
            settings.push(("tiers.lookup", dice.pick(&["slots", "table"]).to_owned()));
            settings.push(("train.dense", dice.pick(&["host", "device"]).to_owned()));
        }
        Self { settings, memory, index, hbm, engine, rows_named }
    }
}
