//! The rules that keep rows correct; tests can switch off each of them.
//!
//! - **Why.** A test that has never failed proves little. For each hazard, a test runs the pipeline
//!   without the rule that excludes it, and must see a wrong row, a stuck pipeline or a broken
//!   invariant. In production all rules hold: the switches are compiled only with the feature
//!   `switches`, which tests turn on. Code that breaks a rule is in the simulation, or in a
//!   separate part that only tests substitute.

/// A rule, and the hazard that it excludes (numbered as in `docs/internals/invariants.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Rule {
    /// H1: a missing row is looked up first in staging, then in the store.
    Forward,
    /// H2: the rows of a planned mini-batch are pinned until it retires.
    Pin,
    /// H3: a slot is filled after its victim was copied.
    CopyBeforeFill,
    /// H4: a row's value is read when its step is computed, not when it is planned.
    ReadLate,
    /// H5: a row that a step updates is sent for the next step only after the update.
    UpdateBeforeSend,
    /// H6: rows are written in the order in which they left memory.
    WriteInOrder,
    /// H7: a row is initialized as a function of (seed, table, key).
    BeginByKey,
    /// H8: uses are reported to a policy at retire, once per mini-batch and key.
    TouchAtRetire,
    /// H9: nothing is in flight when a checkpoint is written.
    DrainBeforeCheckpoint,
    /// H10: mini-batches that only evaluate release their pins, too.
    RetireEvaluated,
    /// H11: a staged row stays visible until the store has it.
    PutBeforeForget,
    /// H12: a batch that doesn't fit is split between its mini-batches.
    CutBatch,
    /// H13: keys are salted by table.
    SaltKeys,
    /// H14: existing rows of a whole table never leave memory.
    KeepWhole,
    /// H15: a harvested row is forgotten once a newer version is staged.
    ForgetHarvested,
    /// H16: a lent row is taken back before it is read again.
    TakeBack,
    /// H17: the rows of a planned mini-batch are pinned on their device until it retires.
    PinOnDevice,
    /// H18: a row on a device keeps its slot on the host.
    PinBelow,
    /// H19: a row is lowered after the last step that changes it.
    StepBeforeLower,
    /// H20: a slot on a device is filled after the last step that uses it.
    StepBeforeLift,
    /// H21: a step begins after its rows are on their devices.
    WaitForLifted,
    /// H22: a lowered row is read on the host after it has arrived.
    WaitForLowered,
    /// H23: layers read pooled rows after they are pooled.
    WaitForPooled,
    /// H24: a device copies the weights of another's rows after they were read there.
    WaitForOthers,
    /// H25: rows that a warm-up left on the host are lifted after the steps that use them there.
    WaitForBelow,
    /// H26: rows are updated by gradients after these are computed.
    WaitForPassed,
    /// H27: out of step, a rank is answered after all steps but the last few are applied to the
    /// rows.
    HoldBackReads,
    /// H28: out of step, ranks asked to stop end after a step that none has passed.
    EndTogether,
    /// H29: out of step, the model is read after all gradients are applied to it.
    SettleAtMarks,
}

impl Rule {
    /// All rules.
    pub const ALL: [Self; 29] = [
        Self::Forward,
        Self::Pin,
        Self::CopyBeforeFill,
        Self::ReadLate,
        Self::UpdateBeforeSend,
        Self::WriteInOrder,
        Self::BeginByKey,
        Self::TouchAtRetire,
        Self::DrainBeforeCheckpoint,
        Self::RetireEvaluated,
        Self::PutBeforeForget,
        Self::CutBatch,
        Self::SaltKeys,
        Self::KeepWhole,
        Self::ForgetHarvested,
        Self::TakeBack,
        Self::PinOnDevice,
        Self::PinBelow,
        Self::StepBeforeLower,
        Self::StepBeforeLift,
        Self::WaitForLifted,
        Self::WaitForLowered,
        Self::WaitForPooled,
        Self::WaitForOthers,
        Self::WaitForBelow,
        Self::WaitForPassed,
        Self::HoldBackReads,
        Self::EndTogether,
        Self::SettleAtMarks,
    ];
}

/// Rules in force: all of them, unless a test switched one off.
pub type Rules = Switches<Rule>;

/// Says which of a crate's rules `R` hold. Only tests turn on the feature `switches`; without it,
/// every rule holds and [`Switches::hold`] compiles to `true`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switches<R> {
    #[cfg(feature = "switches")]
    off: Option<R>,
    #[cfg(not(feature = "switches"))]
    rules: std::marker::PhantomData<R>,
}

/// All rules.
impl<R> Default for Switches<R> {
    fn default() -> Self {
        Self {
            #[cfg(feature = "switches")]
            off: None,
            #[cfg(not(feature = "switches"))]
            rules: std::marker::PhantomData,
        }
    }
}

impl<R: Copy + PartialEq> Switches<R> {
    /// All rules but one.
    #[cfg(feature = "switches")]
    pub fn without(rule: R) -> Self {
        Self { off: Some(rule) }
    }

    /// Whether `rule` holds.
    #[inline]
    pub fn hold(self, rule: R) -> bool {
        #[cfg(feature = "switches")]
        let holds = self.off != Some(rule);
        #[cfg(not(feature = "switches"))]
        let holds = {
            let _ = rule;
            true
        };
        holds
    }

    /// The rules of a part that has its own name for `rule`: all, except `own` if `rule` is off.
    pub fn renamed(self, rule: R, own: R) -> Self {
        #[cfg(feature = "switches")]
        if !self.hold(rule) {
            return Self::without(own);
        }
        let _ = (rule, own);
        Self::default()
    }
}

#[cfg(all(test, feature = "switches"))]
mod tests {
    use super::*;

    #[test]
    fn all_hold_but_the_one_that_is_off() {
        for rule in Rule::ALL {
            assert!(Rules::default().hold(rule));
            let off: Vec<Rule> =
                Rule::ALL.into_iter().filter(|other| !Rules::without(rule).hold(*other)).collect();
            assert_eq!(off, [rule]);
            let renamed = Rules::without(rule).renamed(rule, Rule::Pin);
            assert_eq!(renamed, Rules::without(Rule::Pin));
            assert_eq!(Rules::default().renamed(rule, Rule::Pin), Rules::default());
        }
    }
}
