//! Finds devices, and reports what is missing if there are none.

use std::ffi::c_int;
use std::fs::File;
use std::io::ErrorKind;
use std::sync::Arc;

use cudarc::driver::sys::CUresult;
use stepwell_base::ByteCount;

use super::blas;
use super::calls::{self, Called, Context, Fault};
use super::compile::{Compiler, Target};
use super::driver::{Machine, OneDevice};
use super::library::{self, Lacks};
use super::version::Version;
use crate::check::Checker;
use crate::device::Device;
use crate::driver::About;

/// The oldest supported CUDA version of drivers: the first whose images run on every later driver
/// of the same major version.
const DRIVER_MIN: Version = Version { major: 12, minor: 0 };

/// File that every program using a device opens.
const CONTROL: &str = "/dev/nvidiactl";

/// Environment variable by which the library hides devices.
const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";

/// Settings for the devices of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Numbers of the devices; empty means all.
    pub numbers: Vec<usize>,
    /// Bytes of memory of each; `None` means all free memory except [`Settings::reserve_bytes`].
    pub memory_bytes: Option<u64>,
    /// Bytes left to libraries and other processes.
    pub reserve_bytes: u64,
    /// Maximum bytes of host memory that each copies to and from.
    pub pinned_bytes: u64,
    /// Whether the order of all accesses is checked, which takes time.
    pub check_order: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            numbers: Vec::new(),
            memory_bytes: None,
            reserve_bytes: 512 << 20,
            pinned_bytes: 16 << 30,
            check_order: false,
        }
    }
}

/// NVIDIA software and devices on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Version of CUDA that the driver supports.
    pub driver: Version,
    /// Version of NVRTC, or what is missing.
    pub nvrtc: Result<Version, String>,
    /// Version of cuBLASLt, or what is missing.
    pub blas: Result<Version, String>,
    /// The devices.
    pub devices: Vec<FoundDevice>,
}

/// A device of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundDevice {
    /// Description of the device.
    pub about: About,
    /// Architecture, such as 90.
    pub architecture: u32,
    /// Bytes of free memory, if known.
    pub free_bytes: Option<u64>,
    /// Numbers of devices whose memory it can access.
    pub reaches: Vec<usize>,
    /// Why it cannot be used; `None` if it can.
    pub lacks: Option<String>,
}

/// Finds the NVIDIA software and devices of this machine.
///
/// # Errors
/// One line about what is missing.
pub fn look() -> Result<Found, String> {
    look_at(&[])
}

/// Like [`look`], but only for devices with these `numbers`, if any are given, as looking at a
/// device creates a context there.
///
/// # Errors
/// One line about what is missing. Problems of a single device are not errors.
pub fn look_at(numbers: &[usize]) -> Result<Found, String> {
    listed(begin().map_err(Lacks::why)?, numbers)
}

/// Finds the NVIDIA software and devices of this machine, if there are any.
///
/// # Errors
/// One line about what is wrong with what exists.
pub fn look_for_any() -> Result<Option<Found>, String> {
    match begin() {
        Ok(driver) => listed(driver, &[]).map(Some),
        Err(Lacks::Nothing(_)) => Ok(None),
        Err(Lacks::Fault(why)) => Err(why),
    }
}

/// The devices with these numbers, which a driver of this version supports.
fn listed(driver: Version, numbers: &[usize]) -> Result<Found, String> {
    let compiler = compiler(driver);
    let all = library_devices().map_err(said)?;
    let seen = |number| seen(number, &all, compiler.as_ref());
    let devices = wanted(numbers, all.len())?.into_iter().map(seen).collect();
    let nvrtc = compiler.as_ref().map(Compiler::version).map_err(Clone::clone);
    Ok(Found { driver, nvrtc, blas: blas::version(), devices })
}

/// Version of cuBLASLt.
///
/// # Errors
/// One line about what is missing.
pub fn blas_version() -> Result<Version, String> {
    blas::version()
}

/// Numbers of the devices to use: `numbers`, or all of `count` devices if there are none.
fn wanted(numbers: &[usize], count: usize) -> Result<Vec<usize>, String> {
    match numbers.iter().find(|number| **number >= count) {
        Some(number) => Err(format!("there is no cuda:{number}, only {count} devices")),
        None if numbers.is_empty() => Ok((0..count).collect()),
        None => Ok(numbers.to_vec()),
    }
}

/// Message of a failed call.
fn said(fault: Fault) -> String {
    format!("{}: {}", fault.call, fault.why())
}

/// Device `number` of `all`. Failures are recorded in `lacks`; other devices may work.
fn seen(number: usize, all: &[c_int], compiler: Result<&Compiler, &String>) -> FoundDevice {
    let device = all[number];
    let memory = memory_of(device).map_err(said);
    let architecture = calls::architecture(device).map_err(said);
    let target = architecture.clone().and_then(|architecture| {
        compiler.map_err(Clone::clone).and_then(|compiler| compiler.target(architecture))
    });
    let memory_bytes = match &memory {
        Ok((_, total)) => *total,
        Err(_) => calls::memory_of(device).unwrap_or(0),
    };
    let about = about(number, device, memory_bytes).map_err(said);
    let lacks = [about.clone().err(), memory.clone().err(), target.err()];
    let unknown = || About {
        name: name(number),
        model: "a device that does not answer".to_owned(),
        number,
        memory_bytes,
        processors: 0,
    };
    let others = all.iter().copied().enumerate();
    let reaches = |other: &(usize, c_int)| {
        other.0 != number && calls::reaches(device, other.1).unwrap_or(false)
    };
    FoundDevice {
        about: about.unwrap_or_else(|_| unknown()),
        architecture: architecture.unwrap_or(0),
        free_bytes: memory.ok().map(|(free, _)| free),
        reaches: others.filter(reaches).map(|(other, _)| other).collect(),
        lacks: lacks.into_iter().flatten().next(),
    }
}

/// Free and total bytes of a device's memory.
fn memory_of(device: c_int) -> Called<(u64, u64)> {
    let context = calls::retain(device)?;
    let memory = calls::enter(context).and_then(|()| calls::memory());
    calls::release(device);
    memory
}

/// Opens devices of this machine for this process.
///
/// # Errors
/// One line about what is missing.
pub fn find(settings: &Settings) -> Result<Vec<Device>, String> {
    let driver = begin().map_err(Lacks::why)?;
    let compiler = compiler(driver)?;
    let all = library_devices().map_err(said)?;
    let mut retained = Retained::default();
    let mut found = Vec::new();
    for number in wanted(&settings.numbers, all.len())? {
        let device = all[number];
        let of = |fault: Fault| format!("cuda:{number}: {}", said(fault));
        let target = calls::architecture(device).map_err(of)?;
        let target = compiler.target(target).map_err(|why| format!("cuda:{number}: {why}"))?;
        let context = calls::retain(device).map_err(of)?;
        retained.0.push((number, device, context));
        calls::enter(context).map_err(of)?;
        let (free, total) = calls::memory().map_err(of)?;
        let bytes = budget(settings, number, free)?;
        found.push((about(number, device, total).map_err(of)?, context, target, bytes));
    }
    reach(&retained.0);
    let machine = Arc::new(Machine::new(std::mem::take(&mut retained.0), compiler));
    let checker = settings.check_order.then(|| Arc::new(Checker::new()));
    let device = |(about, context, target, bytes): (About, Context, Target, u64)| {
        let driver = OneDevice::new(about, &machine, context, target);
        Device::new(Arc::new(driver), bytes, settings.pinned_bytes, checker.clone())
    };
    Ok(found.into_iter().map(device).collect())
}

/// Contexts that are released if opening fails.
#[derive(Default)]
struct Retained(Vec<(usize, c_int, Context)>);

impl Drop for Retained {
    fn drop(&mut self) {
        self.0.iter().for_each(|(_, device, _)| calls::release(*device));
    }
}

/// Initializes the library and returns the driver's version.
fn begin() -> Result<Version, Lacks> {
    library::look()?;
    calls::begin().map_err(no_device)?;
    let version = calls::driver_version().map_err(no_device)?;
    if version < DRIVER_MIN {
        let why = format!(
            "the NVIDIA driver is for CUDA {version}, too old: install one for {DRIVER_MIN}"
        );
        return Err(Lacks::Fault(why));
    }
    match calls::device_count().map_err(no_device)? {
        0 => Err(no_device(Fault { call: "cuInit", code: CUresult::CUDA_ERROR_NO_DEVICE })),
        _ => Ok(version),
    }
}

/// Why there is no device, in one line.
fn no_device(fault: Fault) -> Lacks {
    if File::options()
        .read(true)
        .write(true)
        .open(CONTROL)
        .is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
    {
        let why = format!("no permission to use NVIDIA devices: {CONTROL} cannot be opened");
        return Lacks::Fault(why);
    }
    let hidden = std::env::var(VISIBLE);
    match (fault.code, hidden) {
        (CUresult::CUDA_ERROR_NO_DEVICE, Ok(visible)) => {
            let none = "the NVIDIA driver shows no device";
            Lacks::Nothing(format!("{none}, with {VISIBLE}={visible:?}"))
        }
        (CUresult::CUDA_ERROR_NO_DEVICE, Err(_)) => {
            Lacks::Nothing("the NVIDIA driver shows no device".to_owned())
        }
        _ => Lacks::Fault(format!("the NVIDIA driver does not start: {}", said(fault))),
    }
}

/// The compiler, if its output runs on this driver.
fn compiler(driver: Version) -> Result<Compiler, String> {
    let compiler = Compiler::find()?;
    if compiler.version().major > driver.major {
        return Err(format!(
            "the NVIDIA driver is for CUDA {driver}, too old for NVRTC {}: install a newer \
             driver, or the NVRTC of CUDA {}",
            compiler.version(),
            driver.major
        ));
    }
    Ok(compiler)
}

/// The library's handles of all devices.
fn library_devices() -> Called<Vec<c_int>> {
    (0..calls::device_count()?).map(calls::device).collect()
}

fn about(number: usize, device: c_int, memory_bytes: u64) -> Called<About> {
    let (model, processors) = (calls::device_name(device)?, calls::processors(device)?);
    Ok(About { name: name(number), model, number, memory_bytes, processors })
}

fn name(number: usize) -> String {
    format!("cuda:{number}")
}

/// Bytes of memory that this process may use.
fn budget(settings: &Settings, number: usize, free: u64) -> Result<u64, String> {
    let wanted = settings.memory_bytes.unwrap_or(0);
    if wanted > free || free <= settings.reserve_bytes && settings.memory_bytes.is_none() {
        let (free, wanted) = (ByteCount(free), ByteCount(wanted.max(settings.reserve_bytes)));
        return Err(format!("cuda:{number} has {free} of memory free, less than {wanted}"));
    }
    Ok(settings.memory_bytes.unwrap_or_else(|| free - settings.reserve_bytes))
}

/// Lets devices access each other's memory if they can; otherwise copies go through the host.
fn reach(contexts: &[(usize, c_int, Context)]) {
    for (number, device, context) in contexts {
        for (other, other_device, other_context) in contexts {
            let can = number != other && calls::reaches(*device, *other_device).unwrap_or(false);
            if can && calls::enter(*context).is_ok() {
                let _ = calls::reach(*other_context);
            }
        }
    }
}
