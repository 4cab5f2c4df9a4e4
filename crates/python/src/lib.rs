//! `stepwell._stepwell`: the engine's sessions for Python. `python/stepwell` has the classes that
//! users see.
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
mod specs;

use pyo3::prelude::*;

use self::engine::{Engine, Saved};

pyo3::create_exception!(
    stepwell,
    Error,
    pyo3::exceptions::PyRuntimeError,
    "An error of a disk or of the machine, after which the embeddings can't be used."
);

#[pymodule]
fn _stepwell(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("Error", module.py().get_type::<Error>())?;
    module.add_class::<Saved>()?;
    module.add_class::<Engine>()
}
