//! Arrays of Python, read and written where they are.
//!
//! - **Invariants.** A buffer keeps its array alive and its memory in place as long as it exists,
//!   also while other Python threads run. Callers in Python pass arrays that nobody else changes
//!   during the call, as for every function that releases the GIL.

#![expect(unsafe_code, reason = "memory of Python's arrays is lent as slices")]

use pyo3::buffer::{Element, PyBuffer};
use pyo3::exceptions::PyValueError;
use pyo3::{Bound, PyAny, PyResult};

/// An array with contiguous elements of one type.
pub(crate) struct Array<T>(PyBuffer<T>);

impl<T: Element> Array<T> {
    /// The buffer of `object`, which messages call `name`.
    ///
    /// # Errors
    /// If it has no buffer, elements of another type, or gaps.
    pub(crate) fn of(object: &Bound<'_, PyAny>, name: &str) -> PyResult<Self> {
        let wrong = |why: String| PyValueError::new_err(format!("{name}: {why}"));
        let buffer = PyBuffer::<T>::get(object).map_err(|error| wrong(error.to_string()))?;
        if buffer.as_slice_ptr().is_none() {
            return Err(wrong("the array is not contiguous".to_owned()));
        }
        Ok(Self(buffer))
    }

    /// The elements.
    pub(crate) fn elements(&self) -> &[T] {
        match self.0.as_slice_ptr() {
            // SAFETY: the buffer has these elements, keeps them in place while it is borrowed, and
            // nobody changes them meanwhile (see the module).
            Some(elements) => unsafe { elements.as_ref() },
            None => &[],
        }
    }
}

/// A writable array.
pub(crate) struct ArrayMut<T>(PyBuffer<T>);

impl<T: Element> ArrayMut<T> {
    /// The buffer of `object`, which messages call `name`.
    ///
    /// # Errors
    /// Errors of [`Array::of`]; an array that is read-only.
    pub(crate) fn of(object: &Bound<'_, PyAny>, name: &str) -> PyResult<Self> {
        let Array(buffer) = Array::of(object, name)?;
        if buffer.readonly() {
            return Err(PyValueError::new_err(format!("{name}: the array is read-only")));
        }
        Ok(Self(buffer))
    }

    /// The elements.
    pub(crate) fn elements(&mut self) -> &mut [T] {
        match self.0.as_slice_ptr() {
            // SAFETY: as in `Array::elements`; the buffer may be written and is mutably borrowed,
            // and nobody reads the array meanwhile (see the module).
            Some(mut elements) => unsafe { elements.as_mut() },
            None => &mut [],
        }
    }
}
