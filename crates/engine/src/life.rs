//! When a row comes to exist, and when it ceases to.
//!
//! A table with a life keeps three more lanes in each of its rows, which travel with it through
//! every tier and into checkpoints:
//!
//! ```text
//! [ weights ][ optimizer state ][ used u32 ][ examples u32 ][ importance f32 ]
//! ```
//!
//! *used* is the step that last trained the row, counted from 1; zero says that the row was never
//! trained, so it does not exist. A row that was not used for `expire_after` steps does not exist
//! any longer: whoever reads it next begins with its initial value. That is decided from the row
//! and the step alone, wherever the row lies, so no tier shows in it; that the store drops such
//! rows when it merges segments only saves space.
//!
//! - **Bounds.** Steps up to [`History::STEPS_MAX`]: a later one would be another one's number.
//!   Whoever trains ends before it ([`TableSpec::steps_max`](crate::TableSpec::steps_max)).

/// The rules of a table's rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Life {
    /// When a key that has no row gets one.
    pub admission: Admission,
    /// Steps without use after which a row is removed; 0 for never.
    pub expire_after: u64,
}

/// When a key that has no row gets one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Admission {
    /// When it is first trained on.
    AtOnce,
    /// Once so many occurrences were seen, at most 255, by a sketch that may count too many.
    After(u8),
    /// With this probability, anew in each mini-batch that has the key.
    Chance(f64),
}

/// What a row says of its life.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct History {
    /// The step that last trained it, from 1; 0 for none.
    pub used: u32,
    /// Examples that it was trained on.
    pub examples: u32,
    /// How much it was used, fading with time, clicks counting more.
    pub importance: f32,
}

impl History {
    /// Lanes of a history.
    pub const LANES: usize = 3;
    /// The last step that it can name.
    pub const STEPS_MAX: u64 = u32::MAX as u64;

    /// Reads the lanes of a row's history; behind it may be others.
    pub fn read(lanes: &[f32]) -> Self {
        let [used, examples, importance] = [lanes[0], lanes[1], lanes[2]];
        Self { used: used.to_bits(), examples: examples.to_bits(), importance }
    }

    /// Writes the lanes of a row's history, and leaves those behind it.
    pub fn write(&self, lanes: &mut [f32]) {
        let used = f32::from_bits(self.used);
        let own = &mut lanes[..Self::LANES];
        own.copy_from_slice(&[used, f32::from_bits(self.examples), self.importance]);
    }
}

impl Life {
    /// Whether a row with `history` exists after `steps` steps of the model.
    #[inline]
    pub fn exists(&self, history: History, steps: u64) -> bool {
        let used = u64::from(history.used);
        used > 0 && (self.expire_after == 0 || steps.saturating_sub(used) < self.expire_after)
    }

    /// The first step of use whose rows still exist after `steps` steps.
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
