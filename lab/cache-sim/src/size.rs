//! Size of a slab: a share of the trace's distinct keys, or a number of slots.

use std::fmt::{Display, Formatter};
use std::str::FromStr;

/// A size as given by a user.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Size {
    /// A share of the distinct keys: a number with a decimal point, above 0 and at most 1.
    Part(f64),
    /// A number of slots: an integer.
    Slots(u32),
}

impl Size {
    /// Number of slots for a trace of `keys` distinct keys; at least one.
    pub(super) fn slots(self, keys: usize) -> usize {
        match self {
            Self::Part(part) => ((keys as f64 * part) as usize).max(1),
            Self::Slots(slots) => slots as usize,
        }
    }
}

impl Display for Size {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Part(part) if part.fract() == 0.0 => write!(f, "{part:.1}"),
            Self::Part(part) => write!(f, "{part}"),
            Self::Slots(slots) => write!(f, "{slots}"),
        }
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = "give a fraction of the keys, above 0 and at most 1.0, or a number of slots";
        if text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty() {
            return match text.parse::<u32>() {
                Ok(slots @ 1..=0x7FFF_FFFF) => Ok(Self::Slots(slots)),
                Ok(0) => Err(format!("size 0 is not valid: {wanted}")),
                _ => Err(format!("size {text} is too large: give at most 2^31 - 1 slots")),
            };
        }
        match text.parse::<f64>() {
            Ok(part) if part > 0.0 && part <= 1.0 => Ok(Self::Part(part)),
            Ok(_) => Err(format!("size {text} is not above 0 and at most 1: {wanted}")),
            Err(_) => Err(format!("size '{text}' is not a number: {wanted}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_make_parts() {
        assert_eq!("0.01".parse(), Ok(Size::Part(0.01)));
        assert_eq!("1.0".parse(), Ok(Size::Part(1.0)));
        assert_eq!("1".parse(), Ok(Size::Slots(1)));
        for wrong in ["0", "0.0", "-0.5", "1.5", "nan", "inf", "x", "", "5000000000", "-3"] {
            assert!(wrong.parse::<Size>().is_err(), "{wrong}");
        }
        for size in ["0.01", "1.0", "200"] {
            assert_eq!(size.parse::<Size>().unwrap().to_string(), size);
        }
        assert_eq!(Size::Part(0.001).slots(20), 1);
        assert_eq!(Size::Part(1.0).slots(20), 20);
    }
}
