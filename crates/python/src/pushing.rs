//! Access to the session, and steps that end in the background.

use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use stepwell_engine::{Session, Turn};

use crate::arrays::Array;
use crate::errors::{failed, wrong};

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The current mini-batch.
pub(crate) fn current(session: &mut Session) -> PyResult<Turn<'_>> {
    let none = "no mini-batch is current: feed one, and ask for the next";
    session.turn().map_err(failed)?.ok_or_else(|| PyRuntimeError::new_err(none))
}

/// Calls `work` with the session, unless it is closed.
pub(crate) fn with_session<T>(
    session: &Mutex<Option<Session>>,
    work: impl FnOnce(&mut Session) -> PyResult<T>,
) -> PyResult<T> {
    let mut session = lock(session);
    let Some(session) = &mut *session else {
        return Err(PyRuntimeError::new_err("the embeddings are closed"));
    };
    match work(session) {
        Err(error) if session.has_ended() => Err(crate::Error::new_err(error.to_string())),
        done => done,
    }
}

/// Gradients of a mini-batch's embeddings.
pub(crate) struct Gradients {
    /// Gradient of the pooled embeddings; `None` for zeros. // (examples, width)
    pub(crate) d_x: Option<Array<f32>>,
    /// Gradients of distinct rows, by table. // (rows, dim)
    pub(crate) d_rows: Vec<(usize, Array<f32>)>,
}

impl Gradients {
    /// Ends the current step of `session` by these gradients.
    pub(crate) fn push(&self, session: &mut Session, width: usize, dims: &[usize]) -> PyResult<()> {
        let turn = current(session)?;
        if !turn.trains() {
            return Err(wrong("the mini-batch was fed for an evaluation".to_owned()));
        }
        let lanes = turn.examples() * width;
        let zeros = vec![0.0; if self.d_x.is_none() { lanes } else { 0 }];
        let d_x = self.d_x.as_ref().map_or(&zeros[..], Array::elements);
        if d_x.len() != lanes {
            let given = d_x.len();
            return Err(wrong(format!("the gradient has {given} elements, not {lanes}")));
        }
        for (table, rows) in &self.d_rows {
            let wanted = turn.keys(*table).len() * dims[*table];
            let given = rows.elements().len();
            if given != wanted {
                let of = format!("the gradient of the rows of table {table}");
                return Err(wrong(format!("{of} has {given} elements, not {wanted}")));
            }
        }
        let d_rows = self.d_rows.iter().map(|(table, rows)| (*table, rows.elements()));
        turn.push_all(d_x, &[], &d_rows.collect::<Vec<_>>()).map_err(failed)
    }
}

/// A step that is ending on the pool's threads.
pub(crate) struct Pushing {
    pub(crate) done: Receiver<PyResult<()>>,
    /// Stays until the step has ended; only a thread with the GIL may drop it.
    pub(crate) _gradients: Arc<Gradients>,
}

impl Pushing {
    /// Waits for the end of the step. Doesn't need the GIL.
    pub(crate) fn outcome(&self) -> PyResult<()> {
        let panicked = || crate::Error::new_err("a thread that updates rows panicked");
        self.done.recv().unwrap_or_else(|_| Err(panicked()))
    }
}
