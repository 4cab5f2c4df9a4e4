//! Launches on a device: arguments are copied up, and outputs down.

#![expect(clippy::unwrap_used, reason = "tests: a failure is a panic")]

use std::sync::OnceLock;

use bytemuck::Pod;
use stepwell_device::emulated::{Machine, Settings};
use stepwell_device::{Arg as Given, Buffer, Device, Stream};
use stepwell_kernels::Kernel;
use stepwell_kernels::host::Schedule;

use super::support::Arg;

/// Launches `kernel` over `items` items; the device determines the order.
pub(super) fn launch(kernel: &'static Kernel, items: u64, _: Schedule, args: &mut [Arg<'_>]) {
    let device = device();
    let stream = device.stream("a twin").unwrap();
    let there: Vec<There> = args.iter().map(|arg| There::of(arg, device, &stream)).collect();
    stream.launch(kernel, items as usize, there.iter().map(There::given).collect()).unwrap();
    for (arg, there) in args.iter_mut().zip(&there) {
        there.bring_down(arg, device, &stream);
    }
}

/// The first NVIDIA device, or an emulated one.
fn device() -> &'static Device {
    static DEVICE: OnceLock<Device> = OnceLock::new();
    DEVICE.get_or_init(|| nvidia().unwrap_or_else(emulated))
}

fn emulated() -> Device {
    Machine::new(Settings { devices: 1, ..Settings::default() }).devices()[0].clone()
}

#[cfg(feature = "cuda")]
fn nvidia() -> Option<Device> {
    use stepwell_device::cuda::{self, Settings};

    let settings = Settings { memory_bytes: Some(4 << 30), ..Settings::default() };
    match cuda::find(&settings) {
        Ok(devices) => devices.into_iter().next(),
        Err(lacks) => {
            stepwell_skip::skipped(lacks);
            None
        }
    }
}

#[cfg(not(feature = "cuda"))]
fn nvidia() -> Option<Device> {
    None
}

/// An argument on the device.
enum There {
    F32s(Buffer<f32>),
    F64s(Buffer<f64>),
    U32s(Buffer<u32>),
    U64s(Buffer<u64>),
    Pool(Buffer<stepwell_kernels::PoolTable>),
    Update(Buffer<stepwell_kernels::UpdateTable>),
    U32(u32),
    U64(u64),
    F32(f32),
    F64(f64),
}

impl There {
    fn of(arg: &Arg<'_>, device: &Device, stream: &Stream) -> Self {
        match arg {
            Arg::F(of) => Self::F32s(up(of, device, stream)),
            Arg::FMut(of) => Self::F32s(up(of, device, stream)),
            Arg::D(of) => Self::F64s(up(of, device, stream)),
            Arg::DMut(of) => Self::F64s(up(of, device, stream)),
            Arg::W(of) => Self::U32s(up(of, device, stream)),
            Arg::WMut(of) => Self::U32s(up(of, device, stream)),
            Arg::L(of) => Self::U64s(up(of, device, stream)),
            Arg::LMut(of) => Self::U64s(up(of, device, stream)),
            Arg::Pool(of) => Self::Pool(up(of, device, stream)),
            Arg::Update(of) => Self::Update(up(of, device, stream)),
            Arg::U32(value) => Self::U32(*value),
            Arg::U64(value) => Self::U64(*value),
            Arg::F32(value) => Self::F32(*value),
            Arg::F64(value) => Self::F64(*value),
        }
    }

    fn given(&self) -> Given<'_> {
        match self {
            Self::F32s(of) => Given::all(of),
            Self::F64s(of) => Given::all(of),
            Self::U32s(of) => Given::all(of),
            Self::U64s(of) => Given::all(of),
            Self::Pool(of) => Given::all(of),
            Self::Update(of) => Given::all(of),
            Self::U32(value) => Given::u32(*value),
            Self::U64(value) => Given::u64(*value),
            Self::F32(value) => Given::f32(*value),
            Self::F64(value) => Given::f64(*value),
        }
    }

    fn bring_down(&self, arg: &mut Arg<'_>, device: &Device, stream: &Stream) {
        match (self, arg) {
            (Self::F32s(of), Arg::FMut(to)) => down(of, to, device, stream),
            (Self::F64s(of), Arg::DMut(to)) => down(of, to, device, stream),
            (Self::U32s(of), Arg::WMut(to)) => down(of, to, device, stream),
            (Self::U64s(of), Arg::LMut(to)) => down(of, to, device, stream),
            _ => {}
        }
    }
}

/// `values` in a buffer of their size, or of one element if empty.
fn up<T: Pod>(values: &[T], device: &Device, stream: &Stream) -> Buffer<T> {
    let buffer = device.buffer(values.len().max(1), "an argument").unwrap();
    if !values.is_empty() {
        let mut staging = device.pinned(values.len(), "an argument").unwrap();
        staging.write(values.len()).unwrap().copy_from_slice(values);
        stream.up(&staging, 0..values.len(), &buffer, 0).unwrap();
    }
    buffer
}

fn down<T: Pod>(buffer: &Buffer<T>, values: &mut [T], device: &Device, stream: &Stream) {
    if values.is_empty() {
        return;
    }
    let mut staging = device.pinned(values.len(), "a result").unwrap();
    stream.down(buffer, 0..values.len(), &staging, 0).unwrap();
    stream.finish().unwrap();
    values.copy_from_slice(staging.read(values.len()).unwrap());
}
