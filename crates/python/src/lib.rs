//! `stepwell._stepwell`: the engine's sessions, and the program, for Python. `python/stepwell` has
//! the classes that users see.
//!
//! - **How.** `Engine` is a session behind a lock, which no thread waits for while it holds the
//!   GIL. Arrays are read and written where they are (`arrays`).
//! - **Failure.** Invalid input is a `ValueError` and a disk's refusal to save an `OSError`: both
//!   change nothing. An error that ends the session is a `stepwell.Error`.
//! - **Bounds.** A [`Session`](stepwell_engine::Session)'s bounds, plus a thread pool that pools
//!   and updates rows.

#![deny(unsafe_code)]

mod arrays;
mod engine;
mod errors;
mod ids;
mod pushing;
mod ranks;
mod specs;
mod tiers;

use std::ffi::OsString;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use stepwell_base::ByteCount;

use self::engine::{Engine, Saved};

pyo3::create_exception!(
    stepwell,
    Error,
    pyo3::exceptions::PyRuntimeError,
    "An error of a disk or of the machine, after which the embeddings can't be used."
);

/// Runs the program `stepwell` with a command line, which begins with the program's name; returns
/// the exit status. May end the process.
#[pyfunction]
fn main(py: Python<'_>, args: Vec<OsString>) -> u8 {
    py.detach(|| stepwell_program::main(args))
}

/// The number of bytes in a text such as "8GiB".
#[pyfunction]
fn byte_count(text: &str) -> PyResult<u64> {
    let bytes = text.parse::<ByteCount>();
    bytes.map(|bytes| bytes.0).map_err(|error| PyValueError::new_err(error.to_string()))
}

#[pymodule]
fn _stepwell(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("Error", module.py().get_type::<Error>())?;
    module.add_function(wrap_pyfunction!(main, module)?)?;
    module.add_function(wrap_pyfunction!(byte_count, module)?)?;
    module.add_class::<Saved>()?;
    ranks::add_to(module)?;
    module.add_class::<Engine>()
}
