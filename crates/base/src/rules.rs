//! The rules that keep rows right, each of which a test can switch off.
//!
//! - **Why.** A test that has never failed shows little. For each hazard there is a test that runs
//!   the pipeline without the rule that excludes it, and must see a wrong row, a dead pipeline or a
//!   broken invariant. In production all rules hold; where one is asked for, that is one test of a
//!   bit for each batch, never for each row. What breaks a rule lies in the simulation, or in a
//!   part of its own that only tests put in the place of the right one.

/// A rule, and the hazard that it excludes (numbered as in `docs/internals/invariants.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Rule {
    /// H1: a missing row is looked for among those on their way down, then in the store.
    Forward,
    /// H2: the rows of a planned mini-batch are pinned until it retires.
    Pin,
    /// H3: a slot is filled after the row that leaves it was copied.
    CopyBeforeFill,
    /// H4: a row's value is read when its step is computed, not when it was planned.
    ReadLate,
    /// H5: a row that a step updates is sent for the next step after that.
    UpdateBeforeSend,
    /// H6: rows are written in the order in which they left.
    WriteInOrder,
    /// H7: a row begins as a function of (seed, table, key).
    BeginByKey,
    /// H8: a policy hears of a use at retire, once per mini-batch and key.
    TouchAtRetire,
    /// H9: nothing is in flight when the model is written to a checkpoint.
    DrainBeforeCheckpoint,
    /// H10: mini-batches that only evaluate give their pins back too.
    RetireEvaluated,
    /// H11: a row stays visible on its way down until the store has it.
    PutBeforeForget,
    /// H12: a batch that does not fit is cut between its mini-batches.
    CutBatch,
    /// H13: keys are salted by table.
    SaltKeys,
    /// H14: a row that exists never leaves memory where its table stays there whole.
    KeepWhole,
    /// H15: a row that came up beside others is forgotten once a newer one is on its way down.
    ForgetHarvested,
    /// H16: a row that was lent is taken back before anybody reads it again.
    TakeBack,
    /// H17: the rows of a planned mini-batch are pinned on their device until it retires.
    PinOnDevice,
    /// H18: a row that is on a device keeps its slot on the host.
    PinBelow,
    /// H19: a row is lowered after the last step that changes it.
    StepBeforeLower,
    /// H20: a slot on a device is filled after the last step that uses it.
    StepBeforeLift,
    /// H21: a step begins after its rows are on their devices.
    WaitForLifted,
    /// H22: a row that was lowered is read on the host once it has arrived.
    WaitForLowered,
    /// H23: layers read pooled rows once they are pooled.
    WaitForPooled,
    /// H24: a device takes the weights of another's rows once they were read there.
    WaitForOthers,
    /// H25: rows that a warm-up left on the host go up once the steps that have them there are
    /// over.
    WaitForBelow,
    /// H26: rows are updated by gradients once these are there.
    WaitForPassed,
    /// H27: out of step, a rank is answered once all steps but the last few are in the rows.
    HoldBackReads,
    /// H28: out of step, ranks that are asked to stop end after a step beyond which none has gone.
    EndTogether,
    /// H29: out of step, the model is looked at once all gradients are in it.
    SettleAtMarks,
}

impl Rule {
    /// All of them.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_hold_but_the_one_that_is_off() {
        for rule in Rule::ALL {
            assert!(Rules::default().hold(rule));
            let off: Vec<Rule> =
                Rule::ALL.into_iter().filter(|other| !Rules::without(rule).hold(*other)).collect();
            assert_eq!(off, [rule]);
        }
    }
}
