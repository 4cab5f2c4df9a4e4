//! Arguments of kernels.

use std::ops::Range;
use std::sync::Arc;

use bytemuck::Pod;
use stepwell_kernels::{Access as Use, Param};

use crate::access::{Access, Mode, RowsAt, Touched};
use crate::driver::{Keeps, Value};
use crate::memory::{Buffer, Region};

/// An argument of a kernel.
#[derive(Debug)]
pub struct Arg<'a>(Kind<'a>);

#[derive(Debug)]
enum Kind<'a> {
    Memory { region: &'a Arc<Region>, element_bytes: usize, offset: usize, touched: Touched },
    Number(Value),
}

impl<'a> Arg<'a> {
    /// A buffer; the kernel may touch any of its elements.
    pub fn all<T: Pod>(buffer: &'a Buffer<T>) -> Self {
        Self::touching(buffer, Touched::All)
    }

    /// A buffer; the kernel touches at most its first `len` elements.
    pub fn first<T: Pod>(buffer: &'a Buffer<T>, len: usize) -> Self {
        Self::touching(buffer, Touched::Bytes(buffer.bytes(0..len)))
    }

    /// Elements `range` of a buffer: the kernel's pointer is to the first of them, and it touches
    /// no others.
    pub fn part<T: Pod>(buffer: &'a Buffer<T>, range: Range<usize>) -> Self {
        let bytes = buffer.bytes(range);
        let (region, element_bytes, offset) = (&buffer.region, size_of::<T>(), bytes.start);
        let touched = Touched::Bytes(bytes);
        Self(Kind::Memory { region, element_bytes, offset, touched })
    }

    /// A buffer; the kernel touches only these `rows`.
    pub fn rows<T: Pod>(buffer: &'a Buffer<T>, rows: Vec<RowsAt>) -> Self {
        Self::touching(buffer, Touched::Rows(rows))
    }

    fn touching<T: Pod>(buffer: &'a Buffer<T>, touched: Touched) -> Self {
        let (region, element_bytes, offset) = (&buffer.region, size_of::<T>(), 0);
        Self(Kind::Memory { region, element_bytes, offset, touched })
    }

    /// A number.
    pub fn u32(value: u32) -> Self {
        Self(Kind::Number(Value::U32(value)))
    }

    /// A number.
    pub fn u64(value: u64) -> Self {
        Self(Kind::Number(Value::U64(value)))
    }

    /// A number.
    pub fn f32(value: f32) -> Self {
        Self(Kind::Number(Value::F32(value)))
    }

    /// A number.
    pub fn f64(value: f64) -> Self {
        Self(Kind::Number(Value::F64(value)))
    }

    /// The value of `param`; adds the access to `accesses` and what must stay alive to `keeps`.
    ///
    /// # Panics
    /// If it doesn't have the parameter's type.
    pub(crate) fn bind(
        self,
        kernel: &str,
        param: &Param,
        accesses: &mut Vec<Access>,
        keeps: &mut Keeps,
    ) -> Value {
        let fault = || -> ! { panic!("kernel {kernel}: {} has another type", param.name) };
        match (self.0, param.access) {
            (Kind::Number(value), Use::Value) => {
                let bytes = match value {
                    Value::U32(_) | Value::I32(_) | Value::F32(_) => 4,
                    _ => 8,
                };
                if bytes != param.element_bytes { fault() } else { value }
            }
            (Kind::Memory { region, element_bytes, offset, touched }, of_param) => {
                let mode = match of_param {
                    Use::Value => fault(),
                    Use::In => Mode::Read,
                    Use::Out | Use::InOut => Mode::Write,
                    Use::Atomic => Mode::Atomic,
                };
                if element_bytes != param.element_bytes {
                    fault();
                }
                accesses.push(region.access(mode, touched));
                keeps.push(Arc::clone(region) as _);
                Value::Address(region.address + offset as u64)
            }
            _ => fault(),
        }
    }
}
