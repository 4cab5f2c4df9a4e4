//! The rules that keep what is read right, each of which a test can switch off.
//!
//! - **Why.** A test that has never failed shows little: without a rule the tests of this crate
//!   must find a wrong bit, a read that is too old, or an access that nothing puts in order.

/// A rule, and the hazard that it excludes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Rule {
    /// A read waits until the cache is as fresh as it wants. Else: it is older than its bound.
    AgeAtRead,
    /// Where updates go by clock, a shard waits for those of all workers. Else: some are read
    /// before, in the clock that makes them.
    WaitForAllWorkers,
    /// It then applies them in order of ranks. Else: sums have the order in which messages come.
    ApplyInOrderOfRanks,
    /// Memory that was used by an operation of a stream is used again after the event of that.
    /// Else: it is overwritten while it is copied.
    EventBeforeReuse,
    /// Local data is fetched after it was saved. Else: what was there before is read.
    SaveBeforeFetch,
    /// What was read ahead for another clock than the one of its read is thrown away. Else: an
    /// application that clocks otherwise than it said reads what is too old.
    ClockOfForeseen,
    /// A clock commits the updates that came before it. Else: some belong to the next one.
    UpdatesBeforeClock,
}

impl Rule {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::AgeAtRead,
        Self::WaitForAllWorkers,
        Self::ApplyInOrderOfRanks,
        Self::EventBeforeReuse,
        Self::SaveBeforeFetch,
        Self::ClockOfForeseen,
        Self::UpdatesBeforeClock,
    ];
}

/// The rules that hold: all of them, but for the one that a test switched off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    off: Option<Rule>,
}

impl Rules {
    /// All rules but one.
    pub fn without(rule: Rule) -> Self {
        Self { off: Some(rule) }
    }

    /// Whether `rule` holds.
    #[inline]
    pub fn hold(self, rule: Rule) -> bool {
        self.off != Some(rule)
    }
}
