//! The life of a row: when it starts to exist and when it ceases.
//!
//! If a table has a [`Life`], its rows have three more lanes, which stay with them in every tier
//! and in checkpoints:
//!
//! ```text
//! [ weights ][ optimizer state ][ used u32 ][ examples u32 ][ importance f32 ]
//! ```
//!
//! *used* is the last step that trained the row, counted from 1; zero means that the row was never
//! trained, so it doesn't exist. A row unused for `expire_after` steps no longer exists: the next
//! read starts from its initial value. Only the row and the step decide this, in every tier, so the
//! tier doesn't affect it; the store drops such rows during merges only to save space.
//!
//! - **Bounds.** Steps up to [`History::STEPS_MAX`], as lanes can't count further. Callers stop
//!   training before it ([`TableSpec::steps_max`](crate::TableSpec::steps_max)).

/// Rules for the life of a table's rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Life {
    /// When a key without a row gets one.
    pub admission: Admission,
    /// Unused steps after which a row is removed; 0 for never.
    pub expire_after: u64,
}

/// When a key without a row gets one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Admission {
    /// When it is first trained.
    AtOnce,
    /// After this many occurrences, at most 255, counted by a sketch that may overestimate.
    After(u8),
    /// With this probability, drawn in each mini-batch that has the key.
    Chance(f64),
}

/// Use of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct History {
    /// The last step that trained the row, from 1; 0 for none.
    pub used: u32,
    /// Number of examples that trained the row.
    pub examples: u32,
    /// Decaying measure of use, in which clicks count more.
    pub importance: f32,
}

impl History {
    /// Number of lanes of a history.
    pub const LANES: usize = 3;
    /// The last step that a history can record.
    pub const STEPS_MAX: u64 = u32::MAX as u64;

    /// Reads a history from the first of `lanes`.
    pub fn read(lanes: &[f32]) -> Self {
        let [used, examples, importance] = [lanes[0], lanes[1], lanes[2]];
        Self { used: used.to_bits(), examples: examples.to_bits(), importance }
    }

    /// Writes a history to the first of `lanes` and leaves the others unchanged.
    pub fn write(&self, lanes: &mut [f32]) {
        let used = f32::from_bits(self.used);
        let own = &mut lanes[..Self::LANES];
        own.copy_from_slice(&[used, f32::from_bits(self.examples), self.importance]);
    }
}

impl Life {
    /// Whether a row with `history` exists after `steps` training steps.
    #[inline]
    pub fn exists(&self, history: History, steps: u64) -> bool {
        let used = u64::from(history.used);
        used > 0 && (self.expire_after == 0 || steps.saturating_sub(used) < self.expire_after)
    }

    /// The earliest step of last use with which a row still exists after `steps` steps.
    pub fn first_kept(&self, steps: u64) -> u32 {
        match self.expire_after {
            0 => 0,
            after => (steps + 1).saturating_sub(after).min(History::STEPS_MAX) as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_exists_from_its_first_use_until_it_expires() {
        let life = Life { admission: Admission::AtOnce, expire_after: 2 };
        let of = |used| History { used, ..History::default() };
        assert!(!life.exists(of(0), 0) && !life.exists(of(0), 9));
        assert!(life.exists(of(5), 5) && life.exists(of(5), 6));
        assert!(!life.exists(of(5), 7));
        let forever = Life { expire_after: 0, ..life };
        assert!(forever.exists(of(1), u64::from(u32::MAX)) && !forever.exists(of(0), 1));
    }

    #[test]
    fn the_store_drops_exactly_what_does_not_exist() {
        for expire_after in [0, 1, 2, 7] {
            let life = Life { admission: Admission::AtOnce, expire_after };
            for steps in 0..20u64 {
                for used in 1..=steps as u32 {
                    let exists = life.exists(History { used, ..History::default() }, steps);
                    assert_eq!(exists, used >= life.first_kept(steps), "{expire_after} {steps}");
                }
            }
        }
    }

    #[test]
    fn what_does_not_exist_is_right_up_to_the_last_step_and_never_wraps() {
        let life = Life { admission: Admission::AtOnce, expire_after: 3 };
        let last = History::STEPS_MAX;
        assert_eq!(life.first_kept(last), u32::MAX - 2);
        assert_eq!(life.first_kept(last + 2), u32::MAX);
        assert_eq!(life.first_kept(last + 7), u32::MAX);
        assert!(life.exists(History { used: u32::MAX, ..History::default() }, last));
    }

    #[test]
    fn lanes_keep_every_bit() {
        for used in [0, 1, 0x7F80_0001, u32::MAX] {
            let history = History { used, examples: !used, importance: 0.5 };
            let mut lanes = [0.0; History::LANES];
            history.write(&mut lanes);
            assert_eq!(History::read(&lanes), history);
        }
    }
}
