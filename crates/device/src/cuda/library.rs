//! Checks that the driver's library exists and has the functions we call.
//!
//! - **Why.** `cudarc` treats a library that cannot be opened as missing, and panics if a library
//!   lacks a function.
//! - **How.** Names are tried in its order, so that it opens the library that was checked.

#![expect(unsafe_code, reason = "a foreign library is opened")]

use std::error::Error;
use std::ffi::c_void;

use libloading::Library;

/// Name of the library in messages.
const NAME: &str = "libcuda.so.1";

/// All functions that are called, sorted.
const CALLED: [&str; 44] = [
    "cuCtxEnablePeerAccess",
    "cuCtxSetCurrent",
    "cuDeviceCanAccessPeer",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetCount",
    "cuDeviceGetName",
    "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxRetain",
    "cuDeviceTotalMem_v2",
    "cuDriverGetVersion",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventQuery",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuFuncSetAttribute",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuGraphDestroy",
    "cuGraphExecDestroy",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
    "cuInit",
    "cuLaunchKernel",
    "cuMemAlloc_v2",
    "cuMemFreeHost",
    "cuMemFree_v2",
    "cuMemGetInfo_v2",
    "cuMemHostAlloc",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyPeerAsync",
    "cuMemsetD8Async",
    "cuModuleGetFunction",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuStreamBeginCapture_v2",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamEndCapture",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
];

/// Why there is no device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Lacks {
    /// The machine has no device, like most machines.
    Nothing(String),
    /// The machine may have devices, but the software for them is broken.
    Fault(String),
}

impl Lacks {
    /// The reason in one line.
    pub(crate) fn why(self) -> String {
        match self {
            Self::Nothing(why) | Self::Fault(why) => why,
        }
    }
}

/// Checks that the library exists and is complete.
pub(crate) fn look() -> Result<(), Lacks> {
    look_for(&cudarc::get_lib_name_candidates("cuda"))
}

fn look_for(names: &[String]) -> Result<(), Lacks> {
    let mut broken = None;
    for name in names {
        // SAFETY: opening NVIDIA's library runs its initializers, which have no requirements.
        match unsafe { Library::new(name) } {
            Ok(library) => return whole(name, &library),
            Err(error) => broken = broken.or_else(|| fault(name, &said(&error))),
        }
    }
    Err(match broken {
        Some(why) => Lacks::Fault(format!("the NVIDIA driver's library cannot be opened: {why}")),
        None => {
            Lacks::Nothing(format!("no NVIDIA driver: {NAME}, which comes with it, is missing"))
        }
    })
}

/// The system's message.
fn said(error: &libloading::Error) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

/// What is wrong with an existing library; `None` if it doesn't exist.
fn fault(name: &str, error: &str) -> Option<String> {
    let absent = format!("{name}: cannot open shared object file: No such file");
    (!error.contains(&absent)).then(|| error.lines().next().unwrap_or_default().to_owned())
}

fn whole(name: &str, library: &Library) -> Result<(), Lacks> {
    let has = |call: &str| {
        // SAFETY: the address is only looked up, and never called by this type.
        unsafe { library.get::<*const c_void>(call.as_bytes()) }.is_ok()
    };
    match CALLED.iter().find(|call| !has(call)) {
        None => Ok(()),
        Some(call) => Err(Lacks::Fault(format!(
            "the NVIDIA driver's library {name} has no {call}: reinstall the driver, for CUDA \
             12.0 or later"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All functions called in the sources are looked up.
    #[test]
    fn what_is_called_is_looked_for() {
        let sources = [
            include_str!("calls.rs"),
            include_str!("graphs.rs"),
            include_str!("streams.rs"),
            include_str!("held.rs"),
            include_str!("queue.rs"),
            include_str!("driver.rs"),
        ];
        let is_name = |letter: char| letter.is_alphanumeric() || letter == '_';
        let calls = sources.iter().flat_map(|text| text.split("sys::cu").skip(1));
        let mut calls: Vec<String> = calls
            .map(|rest| format!("cu{}", rest.split(|of| !is_name(of)).next().unwrap_or_default()))
            .collect();
        calls.sort();
        calls.dedup();
        assert_eq!(calls, CALLED);
    }

    #[test]
    fn libraries_that_are_none_are_told_from_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let absent = look_for(&[path("none.so"), path("none.so.1")]).unwrap_err();
        assert!(matches!(absent, Lacks::Nothing(_)), "{absent:?}");
        std::fs::write(path("text.so"), "no library ".repeat(100)).unwrap();
        let Lacks::Fault(why) = look_for(&[path("none.so"), path("text.so")]).unwrap_err() else {
            panic!("it is there")
        };
        assert!(why.contains("cannot be opened") && why.contains("text.so"), "{why}");
        assert_eq!(why.lines().count(), 1, "{why}");
        let Lacks::Fault(why) = look_for(&["libc.so.6".to_owned()]).unwrap_err() else {
            panic!("it is there")
        };
        assert!(why.contains("libc.so.6 has no cuCtx"), "{why}");
    }
}
