//! Finds the least resources with which a machine works, by asking the program.
//!
//! - **How.** A run with too little memory reports how much it needs. It is restarted with that,
//!   until it reports no more. The next machine of the case starts with the result.
//! - **Failure.** An error that asks for no more than was given, or that no documented rule for
//!   machines explains, is a finding: the reference ran with the same data and model.

use crate::draw::{Index, Machine, Memory};
use crate::fault::{Fault, Result, found};

/// Initial values for a machine without any information.
const DRAM_START: u64 = 4096;
const INDEX_START: u64 = 4096;
const HBM_START: u64 = 1;

/// Rules that more memory can't satisfy.
const RULES: [&str; 3] = ["this machine has", "tiers.segment", "or choose fewer devices"];

/// Known needs of a case's machines, in bytes of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Least {
    /// For the mini-batches seen so far.
    needed: u64,
    /// For any mini-batch of that size.
    most: u64,
}

/// Resources of one machine.
#[derive(Clone, Debug)]
pub(crate) struct Mend {
    memory: Memory,
    index: Index,
    engine: Option<&'static str>,
    least: Least,
    dram_bytes: u64,
    index_bytes: u64,
    /// Memory of each device, and its factor over the needed memory.
    hbm: Option<(u64, f64)>,
    /// Whether a machine without devices may have those of a checkpoint, and their memory.
    inherits_devices: bool,
    /// `tiers.space`, if it must differ from the drawn value.
    space: Option<String>,
}

impl Mend {
    pub(crate) fn new(machine: &Machine, least: Least) -> Self {
        let mut mend = Self {
            memory: machine.memory,
            index: machine.index,
            engine: machine.engine,
            least,
            dram_bytes: 0,
            index_bytes: INDEX_START,
            hbm: machine.hbm.map(|times| (HBM_START, times)),
            inherits_devices: false,
            space: None,
        };
        mend.dram_bytes = mend.wanted().max(DRAM_START);
        mend
    }

    /// The machine of a day's run, which takes settings that it isn't given from the checkpoint.
    pub(crate) fn of_day(machine: &Machine, least: Least) -> Self {
        Self { inherits_devices: true, ..Self::new(machine, least) }
    }

    /// `tiers.dram`; `plenty` if memory isn't limited.
    pub(crate) fn dram(&self, plenty: &str) -> String {
        match self.memory {
            Memory::Plenty => plenty.to_owned(),
            Memory::Barely | Memory::Tight(_) => self.dram_bytes.to_string(),
        }
    }

    /// `tiers.index`; `plenty` if it isn't limited.
    pub(crate) fn index(&self, plenty: &str) -> String {
        match self.index {
            Index::Plenty => plenty.to_owned(),
            Index::Barely => self.index_bytes.to_string(),
        }
    }

    /// `tiers.hbm`, if there are devices.
    pub(crate) fn hbm(&self) -> Option<(&'static str, String)> {
        let (bytes, times) = self.hbm?;
        Some(("tiers.hbm", ((bytes as f64 * times) as u64).to_string()))
    }

    pub(crate) fn engine(&self) -> Option<&'static str> {
        self.engine
    }

    /// The setting that replaces a drawn one.
    pub(crate) fn space(&self) -> Option<(&'static str, String)> {
        Some(("tiers.space", self.space.clone()?))
    }

    /// The known needs so far.
    pub(crate) fn least(&self) -> Least {
        self.least
    }

    /// Memory for this machine, given the known needs.
    fn wanted(&self) -> u64 {
        match self.memory {
            Memory::Tight(times) => (self.least.most as f64 * times) as u64,
            Memory::Barely | Memory::Plenty => self.least.needed,
        }
    }

    /// Provides what an error asks for.
    ///
    /// # Errors
    /// [`Fault::Refused`] if a rule for machines has no such fix; a finding if no rule explains the
    /// error.
    pub(crate) fn follow(&mut self, why: &str) -> Result<()> {
        let after = |words: &str| number(why.split(words).nth(1)?);
        let before = |words: &str| number(why.split(words).next()?.rsplit(' ').next()?);
        if let Some(needed) = after("(this one needs at least ") {
            self.least.needed = needed;
            self.least.most = after("raise tiers.dram to ").unwrap_or(needed).max(needed);
            let wanted = self.wanted().max(needed);
            return raise(&mut self.dram_bytes, wanted, why);
        }
        if why.contains("cannot hold even one row") {
            let least = before(" bytes or more").unwrap_or(0);
            return raise(&mut self.dram_bytes, least, why);
        }
        // It doesn't say how much is enough.
        if why.contains("are for rows on devices, too few for") && self.memory != Memory::Plenty {
            self.dram_bytes *= 2;
            return Ok(());
        }
        let index =
            after("(tiers.index) is too small: give at least ").or(after("raise tiers.index to "));
        if let Some(bytes) = index {
            self.index = Index::Barely;
            return raise(&mut self.index_bytes, bytes, why);
        }
        if let Some(bytes) = after(" for moving rows: give ") {
            if self.inherits_devices {
                self.hbm.get_or_insert((0, 1.0));
            }
            if let Some((given, _)) = &mut self.hbm {
                return raise(given, bytes, why);
            }
        }
        if let Some(space) = why.split("raise tiers.segment, or tiers.space to ").nth(1) {
            let before = self.space.replace(space.trim().to_owned());
            let times = |space: &str| space.trim().parse::<f64>().ok();
            // Each store of a run may ask for more than the one before.
            return match before {
                Some(before) if times(&before) >= times(space) => {
                    Err(found(format!("had {before}, but was refused: {why}")))
                }
                _ => Ok(()),
            };
        }
        if why.contains("STEPWELL_IO_ENGINE") && self.engine.take().is_some() {
            return Ok(());
        }
        if RULES.iter().any(|rule| why.contains(rule)) {
            return Err(Fault::Refused(why.to_owned()));
        }
        Err(found(format!("refused although the reference was not: {why}")))
    }
}

fn raise(bytes: &mut u64, to: u64, why: &str) -> Result<()> {
    if to <= *bytes {
        return Err(found(format!("had {bytes} bytes, but was refused: {why}")));
    }
    *bytes = to;
    Ok(())
}

/// The number at the start of a text.
fn number(text: &str) -> Option<u64> {
    let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKS: &str = "a mini-batch of 64 examples needs 803 distinct rows of table 'embedding', \
                        but tiers.dram holds 227 (66 bytes a row with its metadata): raise \
                        tiers.dram to 109224 bytes, enough for as many ids that all differ (this \
                        one needs at least 53616; longer lists need more), or lower \
                        data.mini_batch";

    fn mend(memory: Memory) -> Mend {
        Mend::new(&Machine { memory, index: Index::Barely, ..Machine::plain() }, Least::default())
    }

    #[test]
    fn machines_get_what_they_ask_for() {
        let mut barely = mend(Memory::Barely);
        assert_eq!((barely.dram("x"), barely.index("x")), ("4096".into(), "4096".into()));
        let row = "tiers.dram = 4.0 KiB cannot hold even one row of table 'embedding': raise it to \
                   5000 bytes or more";
        barely.follow(row).unwrap();
        assert_eq!(barely.dram("x"), "5000");
        barely.follow(ASKS).unwrap();
        assert_eq!(barely.dram("x"), "53616");
        assert!(matches!(barely.follow(ASKS), Err(Fault::Found(_))), "it has that already");
        let mut tight = mend(Memory::Tight(1.5));
        tight.follow(ASKS).unwrap();
        assert_eq!(tight.dram("x"), "163836");
        assert_eq!(mend(Memory::Plenty).dram("x"), "x");
        let next =
            Mend::new(&Machine { memory: Memory::Barely, ..Machine::plain() }, tight.least());
        assert_eq!((next.dram("x"), next.index("x")), ("53616".into(), "x".into()));
    }

    #[test]
    fn an_index_grows_as_it_asks() {
        let mut mend = mend(Memory::Plenty);
        mend.follow("an index of 4096 bytes (tiers.index) is too small: give at least 65536, and")
            .unwrap();
        assert_eq!(mend.index("x"), "65536");
        mend.follow(
            "tiers.index = 64.0 KiB is too small for a checkpoint of table 'embedding': 9 \
                     rows in memory take up to 1.0 MiB; raise tiers.index to 1048576 or more",
        )
        .unwrap();
        assert_eq!(mend.index("x"), "1048576");
    }

    #[test]
    fn devices_get_what_they_ask_for() {
        let machine = Machine { hbm: Some(2.0), ..Machine::plain() };
        let mut mend = Mend::new(&machine, Least::default());
        assert_eq!(mend.hbm(), Some(("tiers.hbm", "2".to_owned())));
        let why = "tiers.hbm = 2 bytes holds no row of table 'embedding' besides 9.0 KiB for \
                   moving rows: give 9300 or more, or lower data.mini_batch";
        mend.follow(why).unwrap();
        assert_eq!(mend.hbm(), Some(("tiers.hbm", "18600".to_owned())));
        let mut inherits = Mend::of_day(&Machine::plain(), Least::default());
        inherits.follow(why).unwrap();
        assert_eq!(inherits.hbm(), Some(("tiers.hbm", "9300".to_owned())));
        let mut has_none = Mend::new(&Machine::plain(), Least::default());
        assert!(matches!(has_none.follow(why), Err(Fault::Found(_))), "it has no device");
        assert!(matches!(mend.follow(why), Err(Fault::Found(_))), "it has that already");
    }

    #[test]
    fn space_is_given_once() {
        let mut mend = mend(Memory::Plenty);
        let why = "space of 1.1 times the live rows (tiers.space) cannot be kept: rows of 8 bytes \
                   take 1.31: raise tiers.segment, or tiers.space to 1.31";
        assert_eq!(mend.space(), None);
        mend.follow(why).unwrap();
        assert_eq!(mend.space(), Some(("tiers.space", "1.31".to_owned())));
        assert!(matches!(mend.follow(why), Err(Fault::Found(_))));
    }

    #[test]
    fn other_refusals_are_told_apart() {
        let mut engine = mend(Memory::Plenty);
        engine.engine = Some("uring");
        let why = "STEPWELL_IO_ENGINE=uring: this system admits no rings";
        engine.follow(why).unwrap();
        assert_eq!(engine.engine(), None);
        assert!(matches!(engine.follow(why), Err(Fault::Found(_))));
        let refused = engine.follow("segments of 7 bytes (tiers.segment) are too large");
        assert!(matches!(refused, Err(Fault::Refused(_))));
        let fault = engine.follow("checkpoint saved: dense.bin is damaged").unwrap_err();
        assert!(matches!(fault, Fault::Found(_)), "{fault:?}");
    }
}
