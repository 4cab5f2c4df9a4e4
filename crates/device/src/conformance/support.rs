//! Values that the suite writes to devices and reads back.

use bytemuck::Pod;
use stepwell_base::random;

use crate::device::Device;
use crate::memory::Buffer;
use crate::stream::Stream;

/// Distinctive bytes.
pub(super) fn drawn(len: usize, seed: u64) -> Vec<u8> {
    (0..len as u64).map(|at| (random::finalize(at ^ seed << 32) >> 24) as u8).collect()
}

/// Copies `values` into a new buffer, and waits for it.
pub(super) fn filled<T: Pod>(device: &Device, stream: &Stream, values: &[T]) -> Buffer<T> {
    let buffer = device.buffer(values.len(), "a buffer of the suite").unwrap();
    let mut staging = device.pinned(values.len(), "values of the suite").unwrap();
    staging.write(values.len()).unwrap().copy_from_slice(values);
    stream.up(&staging, 0..values.len(), &buffer, 0).unwrap();
    stream.finish().unwrap();
    buffer
}

/// Contents of a buffer after all operations of `stream`.
pub(super) fn contents<T: Pod>(device: &Device, stream: &Stream, buffer: &Buffer<T>) -> Vec<T> {
    let mut staging = device.pinned(buffer.len(), "results of the suite").unwrap();
    stream.down(buffer, 0..buffer.len(), &staging, 0).unwrap();
    stream.finish().unwrap();
    staging.read(buffer.len()).unwrap().to_vec()
}
