//! Calls of the driver's library, with results.
//!
//! - **Invariants.** Nothing here is called before [`present`] found the library, as `cudarc`
//!   panics without it. Callers have made the right context current ([`enter`]).

#![expect(unsafe_code, reason = "functions of a foreign library are called")]

use std::ffi::{CStr, c_char, c_int, c_void};

use cudarc::driver::sys::{self, CUdevice_attribute, CUresult};

use super::version::Version;

pub(crate) use sys::{CUcontext, CUevent, CUfunction, CUmodule, CUstream};

/// A failed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) call: &'static str,
    pub(crate) code: CUresult,
}

/// Result of a call.
pub(crate) type Called<T> = Result<T, Fault>;

pub(super) fn check(call: &'static str, code: CUresult) -> Called<()> {
    if code == CUresult::CUDA_SUCCESS { Ok(()) } else { Err(Fault { call, code }) }
}

impl Fault {
    /// Whether the device can't be used any more.
    pub(crate) fn is_final(&self) -> bool {
        use CUresult as Code;
        matches!(
            self.code,
            Code::CUDA_ERROR_DEINITIALIZED
                | Code::CUDA_ERROR_DEVICE_UNAVAILABLE
                | Code::CUDA_ERROR_NO_DEVICE
                | Code::CUDA_ERROR_ECC_UNCORRECTABLE
                | Code::CUDA_ERROR_NVLINK_UNCORRECTABLE
                | Code::CUDA_ERROR_CONTAINED
                | Code::CUDA_ERROR_ILLEGAL_ADDRESS
                | Code::CUDA_ERROR_LAUNCH_TIMEOUT
                | Code::CUDA_ERROR_CONTEXT_IS_DESTROYED
                | Code::CUDA_ERROR_ASSERT
                | Code::CUDA_ERROR_HARDWARE_STACK_ERROR
                | Code::CUDA_ERROR_ILLEGAL_INSTRUCTION
                | Code::CUDA_ERROR_MISALIGNED_ADDRESS
                | Code::CUDA_ERROR_INVALID_ADDRESS_SPACE
                | Code::CUDA_ERROR_INVALID_PC
                | Code::CUDA_ERROR_LAUNCH_FAILED
                | Code::CUDA_ERROR_TENSOR_MEMORY_LEAK
                | Code::CUDA_ERROR_MPS_CLIENT_TERMINATED
                | Code::CUDA_ERROR_EXTERNAL_DEVICE
                | Code::CUDA_ERROR_UNKNOWN
        )
    }

    /// The driver's description and name of the error.
    pub(crate) fn why(&self) -> String {
        type Say = unsafe fn(CUresult, *mut *const c_char) -> CUresult;
        let said = |say: Say| {
            let mut text = std::ptr::null();
            // SAFETY: the target is valid; the library returns no text for unknown codes.
            let code = unsafe { say(self.code, &raw mut text) };
            if code != CUresult::CUDA_SUCCESS || text.is_null() {
                return None;
            }
            // SAFETY: the text belongs to the library and ends with a zero.
            let text = unsafe { CStr::from_ptr(text) };
            Some(text.to_string_lossy().into_owned())
        };
        let name = said(sys::cuGetErrorName).unwrap_or_else(|| format!("code {:?}", self.code));
        match said(sys::cuGetErrorString) {
            Some(words) => format!("{words} ({name})"),
            None => name,
        }
    }
}

/// Initializes the library; devices hidden by `CUDA_VISIBLE_DEVICES` don't exist for it.
pub(crate) fn begin() -> Called<()> {
    // SAFETY: may be called at any time.
    check("cuInit", unsafe { sys::cuInit(0) })
}

/// The value that `call` writes to its target.
fn written<T>(name: &'static str, before: T, call: impl FnOnce(*mut T) -> CUresult) -> Called<T> {
    let mut value = before;
    check(name, call(&raw mut value))?;
    Ok(value)
}

/// Version of CUDA that the driver supports.
pub(crate) fn driver_version() -> Called<Version> {
    // SAFETY: the target is valid.
    let version =
        written("cuDriverGetVersion", 0, |to| unsafe { sys::cuDriverGetVersion(to) })? as u32;
    Ok(Version { major: version / 1000, minor: version % 1000 / 10 })
}

pub(crate) fn device_count() -> Called<usize> {
    // SAFETY: the target is valid.
    let count = written("cuDeviceGetCount", 0, |to| unsafe { sys::cuDeviceGetCount(to) })?;
    Ok(usize::try_from(count).unwrap_or(0))
}

/// The library's handle of device `number`.
pub(crate) fn device(number: usize) -> Called<c_int> {
    // SAFETY: the target is valid.
    written("cuDeviceGet", 0, |to| unsafe { sys::cuDeviceGet(to, number as c_int) })
}

pub(crate) fn device_name(device: c_int) -> Called<String> {
    let mut name: [c_char; 256] = [0; 256];
    // SAFETY: there is room for this many bytes, and the last one stays zero.
    let code = unsafe { sys::cuDeviceGetName(name.as_mut_ptr(), 255, device) };
    check("cuDeviceGetName", code)?;
    let bytes = name.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8).collect();
    Ok(String::from_utf8(bytes).unwrap_or_else(|_| "a device without a name".to_owned()))
}

fn attribute(device: c_int, which: CUdevice_attribute) -> Called<u32> {
    // SAFETY: the target is valid.
    let value = written("cuDeviceGetAttribute", 0, |to| unsafe {
        sys::cuDeviceGetAttribute(to, which, device)
    })?;
    Ok(value as u32)
}

/// Architecture of a device as one number, such as 90.
pub(crate) fn architecture(device: c_int) -> Called<u32> {
    use CUdevice_attribute as Which;
    let major = attribute(device, Which::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
    let minor = attribute(device, Which::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
    Ok(major * 10 + minor)
}

pub(crate) fn processors(device: c_int) -> Called<u32> {
    attribute(device, CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
}

/// Whether a device can access the memory of another.
pub(crate) fn reaches(device: c_int, other: c_int) -> Called<bool> {
    // SAFETY: the target is valid.
    let reaches = written("cuDeviceCanAccessPeer", 0, |to| unsafe {
        sys::cuDeviceCanAccessPeer(to, device, other)
    })?;
    Ok(reaches != 0)
}

/// A handle from the library that threads may share, as its documentation states for all handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handle<T>(pub(crate) *mut T);

// SAFETY: the library's functions may be called from any thread with any handle; only the library
// accesses what it refers to.
unsafe impl<T> Send for Handle<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Handle<T> {}

pub(crate) type Context = Handle<sys::CUctx_st>;
pub(crate) type Stream = Handle<sys::CUstream_st>;
pub(crate) type Event = Handle<sys::CUevent_st>;
pub(crate) type GraphExec = Handle<sys::CUgraphExec_st>;
pub(crate) type Module = Handle<sys::CUmod_st>;
pub(crate) type Function = Handle<sys::CUfunc_st>;

/// The device's primary context, which the whole process shares.
pub(crate) fn retain(device: c_int) -> Called<Context> {
    let null: CUcontext = std::ptr::null_mut();
    // SAFETY: the target is valid.
    written("cuDevicePrimaryCtxRetain", null, |to| unsafe {
        sys::cuDevicePrimaryCtxRetain(to, device)
    })
    .map(Handle)
}

pub(crate) fn release(device: c_int) {
    // SAFETY: it was retained, and its retainer doesn't use it any more.
    let _ = unsafe { sys::cuDevicePrimaryCtxRelease_v2(device) };
}

/// Makes a context current in this thread.
pub(crate) fn enter(context: Context) -> Called<()> {
    // SAFETY: the context is retained as long as a driver has it.
    check("cuCtxSetCurrent", unsafe { sys::cuCtxSetCurrent(context.0) })
}

/// Free and total bytes of the device's memory.
pub(crate) fn memory() -> Called<(u64, u64)> {
    let (mut free, mut total) = (0, 0);
    // SAFETY: both targets are valid.
    check("cuMemGetInfo", unsafe { sys::cuMemGetInfo_v2(&raw mut free, &raw mut total) })?;
    Ok((free as u64, total as u64))
}

/// Bytes of a device's memory, without a context.
pub(crate) fn memory_of(device: c_int) -> Called<u64> {
    // SAFETY: the target is valid.
    let bytes =
        written("cuDeviceTotalMem", 0, |to| unsafe { sys::cuDeviceTotalMem_v2(to, device) })?;
    Ok(bytes as u64)
}

/// Lets the current context access another's memory.
pub(crate) fn reach(other: Context) -> Called<()> {
    // SAFETY: both contexts are retained.
    let code = unsafe { sys::cuCtxEnablePeerAccess(other.0, 0) };
    match code {
        CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED => Ok(()),
        code => check("cuCtxEnablePeerAccess", code),
    }
}

pub(crate) fn allocate(bytes: usize) -> Called<u64> {
    // SAFETY: the target is valid.
    written("cuMemAlloc", 0, |to| unsafe { sys::cuMemAlloc_v2(to, bytes) })
}

pub(crate) fn free(address: u64) -> Called<()> {
    // SAFETY: it was allocated, and no operation uses it any more.
    check("cuMemFree", unsafe { sys::cuMemFree_v2(address) })
}

/// Allocates zeroed host memory that every context copies to and from.
pub(crate) fn allocate_pinned(bytes: usize) -> Called<u64> {
    let flags = sys::CU_MEMHOSTALLOC_PORTABLE;
    let null: *mut c_void = std::ptr::null_mut();
    // SAFETY: the target is valid.
    let memory =
        written("cuMemHostAlloc", null, |to| unsafe { sys::cuMemHostAlloc(to, bytes, flags) })?;
    // SAFETY: this many bytes were just allocated, and have no other users.
    unsafe { memory.cast::<u8>().write_bytes(0, bytes) };
    Ok(memory as u64)
}

pub(crate) fn free_pinned(address: u64) -> Called<()> {
    let memory = address as usize as *mut c_void;
    // SAFETY: it was allocated, and no operation uses it any more.
    check("cuMemFreeHost", unsafe { sys::cuMemFreeHost(memory) })
}

/// Loads an image.
pub(crate) fn load(image: &[u8]) -> Called<Module> {
    let null: CUmodule = std::ptr::null_mut();
    // SAFETY: the image is a complete cubin, or PTX that ends with a zero, from the compiler.
    written("cuModuleLoadData", null, |to| unsafe {
        sys::cuModuleLoadData(to, image.as_ptr().cast())
    })
    .map(Handle)
}

pub(crate) fn function(module: Module, name: &CStr) -> Called<Function> {
    let null: CUfunction = std::ptr::null_mut();
    // SAFETY: the module is loaded, the name ends with a zero.
    written("cuModuleGetFunction", null, |to| unsafe {
        sys::cuModuleGetFunction(to, module.0, name.as_ptr())
    })
    .map(Handle)
}

pub(crate) fn unload(module: Module) {
    // SAFETY: it was loaded, and none of its functions is launched any more.
    let _ = unsafe { sys::cuModuleUnload(module.0) };
}
