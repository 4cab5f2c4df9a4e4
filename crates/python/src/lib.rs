//! `stepwell._stepwell`: the engine's sessions for Python. `python/stepwell` has the classes that
//! users see.
//!
//! - **How.** [`Engine`] is a session behind a lock, which is never taken while the interpreter's is
//!   held. Arrays are read and written where they are ([`arrays`]).
//! - **Failure.** Invalid input is a `ValueError`; what ends a session is a `stepwell.Error`.
//! - **Bounds.** Those of a [`Session`](stepwell_engine::Session), and a pool of threads that update
//!   rows.

#![deny(unsafe_code)]

mod arrays;
mod engine;
mod specs;

use pyo3::prelude::*;

use self::engine::Engine;

pyo3::create_exception!(
    stepwell,
    Error,
    pyo3::exceptions::PyRuntimeError,
    "An error of a disk or of the machine, after which the embeddings can't be used."
);

#[pymodule]
fn _stepwell(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("Error", module.py().get_type::<Error>())?;
    module.add_class::<Engine>()
}
