//! What people give a setting.

use std::fmt::{self, Display};

/// What a setting is given: a text, or a list where it comes as one.
#[derive(Clone, Copy, Debug)]
pub enum Given<'a> {
    /// From a flag, or one value of a file; of a list its parts with commas between them.
    Text(&'a str),
    /// From a file.
    List(&'a [String]),
}

impl Given<'_> {
    /// One value.
    pub(crate) fn text(&self) -> Result<&str, String> {
        match self {
            Self::Text(text) => Ok(text),
            Self::List(_) => Err("give one value, not a list".to_owned()),
        }
    }

    /// Several values.
    pub(crate) fn list(&self) -> Vec<String> {
        match self {
            Self::Text(text) => {
                let parts = text.split(',').map(str::trim);
                parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
            }
            Self::List(parts) => parts.to_vec(),
        }
    }
}

impl Display for Given<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::List(parts) => write!(f, "[{}]", parts.join(", ")),
        }
    }
}
