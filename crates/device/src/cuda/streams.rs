//! Calls of the driver's library for streams, events and operations.

#![expect(unsafe_code, reason = "functions of a foreign library are called")]

use std::ffi::c_void;

use cudarc::driver::sys::{
    self, CUevent_flags_enum as EventFlags, CUfunction_attribute_enum as Attribute, CUresult,
    CUstream_flags_enum as StreamFlags,
};

use super::calls::{CUevent, CUstream, Called, Context, Event, Function, Handle, Stream, check};

/// Bytes of shared memory that a launch may use without raising the function's limit.
const SHARED_BYTES: u32 = 48 << 10;

/// Queries of an event, about a microsecond each, before a waiting thread sleeps.
const LOOKS_MAX: usize = 2000;

/// Creates a stream that doesn't implicitly wait for others.
pub(crate) fn stream() -> Called<Stream> {
    let mut stream: CUstream = std::ptr::null_mut();
    let flags = StreamFlags::CU_STREAM_NON_BLOCKING as u32;
    // SAFETY: the target is valid.
    check("cuStreamCreate", unsafe { sys::cuStreamCreate(&raw mut stream, flags) })?;
    Ok(Handle(stream))
}

/// Waits for all operations of a stream.
pub(crate) fn finish(stream: Stream) -> Called<()> {
    // SAFETY: the stream has not ended.
    check("cuStreamSynchronize", unsafe { sys::cuStreamSynchronize(stream.0) })
}

pub(crate) fn end_stream(stream: Stream) {
    // SAFETY: the stream has not ended, and nobody submits to it any more.
    let _ = unsafe { sys::cuStreamDestroy_v2(stream.0) };
}

/// Creates an event without time stamps, on which waiting threads sleep.
pub(crate) fn event() -> Called<Event> {
    let mut event: CUevent = std::ptr::null_mut();
    let flags =
        EventFlags::CU_EVENT_DISABLE_TIMING as u32 | EventFlags::CU_EVENT_BLOCKING_SYNC as u32;
    // SAFETY: the target is valid.
    check("cuEventCreate", unsafe { sys::cuEventCreate(&raw mut event, flags) })?;
    Ok(Handle(event))
}

pub(crate) fn end_event(event: Event) {
    // SAFETY: the event has not ended; streams that wait for it continue to.
    let _ = unsafe { sys::cuEventDestroy_v2(event.0) };
}

pub(crate) fn record(event: Event, stream: Stream) -> Called<()> {
    // SAFETY: neither has ended.
    check("cuEventRecord", unsafe { sys::cuEventRecord(event.0, stream.0) })
}

pub(crate) fn wait_in(stream: Stream, event: Event) -> Called<()> {
    // SAFETY: neither has ended.
    check("cuStreamWaitEvent", unsafe { sys::cuStreamWaitEvent(stream.0, event.0, 0) })
}

pub(crate) fn is_over(event: Event) -> Called<bool> {
    // SAFETY: the event has not ended.
    match unsafe { sys::cuEventQuery(event.0) } {
        CUresult::CUDA_ERROR_NOT_READY => Ok(false),
        code => check("cuEventQuery", code).map(|()| true),
    }
}

/// Waits until an event is over: at first awake, for as long as a training step takes, since a
/// sleeping thread needs a good part of that to wake up; then asleep.
pub(crate) fn wait(event: Event) -> Called<()> {
    for _ in 0..LOOKS_MAX {
        if is_over(event)? {
            return Ok(());
        }
        // Let other threads work first.
        std::thread::yield_now();
    }
    // SAFETY: the event has not ended.
    check("cuEventSynchronize", unsafe { sys::cuEventSynchronize(event.0) })
}

/// Copies from pinned memory to the device.
pub(crate) fn up(from: u64, to: u64, bytes: usize, stream: Stream) -> Called<()> {
    let from = from as usize as *const c_void;
    // SAFETY: ranges were checked, and the operation keeps both regions alive until it is over.
    check("cuMemcpyHtoDAsync", unsafe { sys::cuMemcpyHtoDAsync_v2(to, from, bytes, stream.0) })
}

/// Copies from the device to pinned memory.
pub(crate) fn down(from: u64, to: u64, bytes: usize, stream: Stream) -> Called<()> {
    let to = to as usize as *mut c_void;
    // SAFETY: as for copies up.
    check("cuMemcpyDtoHAsync", unsafe { sys::cuMemcpyDtoHAsync_v2(to, from, bytes, stream.0) })
}

/// Copies within a device.
pub(crate) fn within(from: u64, to: u64, bytes: usize, stream: Stream) -> Called<()> {
    // SAFETY: as for copies up.
    check("cuMemcpyDtoDAsync", unsafe { sys::cuMemcpyDtoDAsync_v2(to, from, bytes, stream.0) })
}

/// Copies from one device to another, directly if they can access each other.
pub(crate) fn across(
    from: u64,
    from_context: Context,
    to: u64,
    to_context: Context,
    bytes: usize,
    stream: Stream,
) -> Called<()> {
    let (from_context, to_context) = (from_context.0, to_context.0);
    // SAFETY: as for copies up; both contexts are retained.
    check("cuMemcpyPeerAsync", unsafe {
        sys::cuMemcpyPeerAsync(to, to_context, from, from_context, bytes, stream.0)
    })
}

pub(crate) fn fill(to: u64, with: u8, bytes: usize, stream: Stream) -> Called<()> {
    // SAFETY: as for copies up.
    check("cuMemsetD8Async", unsafe { sys::cuMemsetD8Async(to, with, bytes, stream.0) })
}

/// Launches a function; `values` are its arguments, each in the first bytes of a word.
pub(crate) fn launch(
    function: Function,
    blocks: u32,
    threads: u32,
    shared_bytes: u32,
    values: &mut [u64],
    stream: Stream,
) -> Called<()> {
    if shared_bytes > SHARED_BYTES {
        let attribute = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the function's module is loaded.
        let code = unsafe { sys::cuFuncSetAttribute(function.0, attribute, shared_bytes as i32) };
        check("cuFuncSetAttribute", code)?;
    }
    let mut places: Vec<*mut c_void> =
        values.iter_mut().map(|value| std::ptr::from_mut(value).cast()).collect();
    let none = std::ptr::null_mut();
    // SAFETY: there is a value of the right size for each parameter, which was checked when the
    // launch was made, and the library copies them before it returns; the operation keeps the
    // memory that they refer to alive.
    let code = unsafe {
        sys::cuLaunchKernel(
            function.0,
            blocks,
            1,
            1,
            threads,
            1,
            1,
            shared_bytes,
            stream.0,
            places.as_mut_ptr(),
            none,
        )
    };
    check("cuLaunchKernel", code)
}
