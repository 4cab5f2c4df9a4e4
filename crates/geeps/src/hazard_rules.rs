//! The rules that keep reads correct, each of which a test can switch off.
//!
//! - **Why.** A test that has never failed shows little: without a rule, the tests of this crate
//!   must find a wrong bit, a read that is too old, or an unordered access.

/// A rule, and the hazard that it excludes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Rule {
    /// A read waits until the cache is fresh enough. Else: it is older than its bound.
    AgeAtRead,
    /// If updates are applied by clock, a shard waits for the updates of all workers. Else: some
    /// are read early, in the clock that makes them.
    WaitForAllWorkers,
    /// A shard applies the updates of a clock in order of ranks. Else: sums follow the order of
    /// messages.
    ApplyInOrderOfRanks,
    /// Memory used by an operation of a stream is reused after that operation's event. Else: it is
    /// overwritten while it is copied.
    EventBeforeReuse,
    /// Local data is fetched after it was saved. Else: its previous values are read.
    SaveBeforeFetch,
    /// Data read ahead is discarded if the clock differs from the clock of its read. Else: an
    /// application that clocks differently than recorded reads data that is too old.
    ClockOfForeseen,
    /// A clock commits the updates before it. Else: some belong to the next one.
    UpdatesBeforeClock,
}

impl Rule {
    /// All rules.
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

/// Rules in force: all of them, unless a test switched one off.
pub type Rules = stepwell_base::rules::Switches<Rule>;
