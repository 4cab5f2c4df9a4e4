//! Errors of the engine as Python sees them.

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use stepwell_engine::Error;

/// Names of settings and flags of the program, and their counterparts in Python.
const NAMES: [(&str, &str); 6] = [
    (
        "set them aside with --force, continue from a checkpoint with --resume, or choose",
        "delete it, or choose",
    ),
    ("name a directory that `--checkpoint` wrote", "name a directory that `save` wrote"),
    ("tiers.ssd", "path"),
    ("tiers.dram", "dram"),
    ("tables.NAME.dram", "dram of a Table"),
    ("tiers.index", "index"),
];

/// Text of an error, with the names that Python has.
fn text(error: &Error) -> String {
    NAMES.iter().fold(error.to_string(), |text, (name, here)| text.replace(name, here))
}

/// The Python exception for an error of the engine.
pub(crate) fn failed(error: Error) -> PyErr {
    let said = text(&error);
    match error {
        Error::Ended(_) => crate::Error::new_err(said),
        Error::Refused(_)
        | Error::Settings(_)
        | Error::NoCheckpoint { .. }
        | Error::Checkpoint { .. } => PyValueError::new_err(said),
        _ => PyOSError::new_err(said),
    }
}

/// The Python error for invalid input.
pub(crate) fn wrong(why: String) -> PyErr {
    PyValueError::new_err(why)
}
