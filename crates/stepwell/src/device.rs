//! `stepwell device`: lists this machine's devices.

use serde_json::json;

use crate::cli::DeviceArgs;
use crate::failure::Failure;
use crate::say;

/// Reports that this build has no devices.
#[cfg(not(feature = "cuda"))]
pub(crate) fn run(args: &DeviceArgs) -> Result<(), Failure> {
    none(args, "this program was built without devices (cargo's feature cuda)".to_owned())
}

/// Reports why there is no device, with `--json` also as JSON.
fn none(args: &DeviceArgs, why: String) -> Result<(), Failure> {
    if args.json {
        say::json(&json!({ "devices": [], "lacks": why }))?;
    }
    Err(Failure::Error(why))
}

/// Lists devices, or reports what is missing.
#[cfg(feature = "cuda")]
pub(crate) fn run(args: &DeviceArgs) -> Result<(), Failure> {
    cuda::run(args)
}

#[cfg(feature = "cuda")]
mod cuda {
    use std::time::Instant;

    use serde_json::{Value, json};
    use stepwell_base::ByteCount;
    use stepwell_device::cuda::compile::{Compiler, files};
    use stepwell_device::cuda::{self, Found, FoundDevice, Version};

    use crate::cli::DeviceArgs;
    use crate::failure::Failure;
    use crate::say::{self, Page, put};

    /// Result of compiling all kernels for a device: seconds, or the compiler's error.
    type Compiled = Result<f64, String>;

    pub(super) fn run(args: &DeviceArgs) -> Result<(), Failure> {
        let found = match cuda::look() {
            Ok(found) => found,
            Err(why) => return super::none(args, why),
        };
        let of = |device: &FoundDevice| args.compile.then(|| compile(device));
        let compiled: Vec<Option<Compiled>> = found.devices.iter().map(of).collect();
        if args.json {
            say::json(&as_json(&found, &compiled))?;
        } else {
            page(&found, &compiled).say()?;
        }
        let usable = |(device, compiled): (&FoundDevice, &Option<Compiled>)| {
            device.lacks.is_none() && !matches!(compiled, Some(Err(_)))
        };
        if found.devices.iter().zip(&compiled).any(usable) {
            return Ok(());
        }
        Err(Failure::Error("no device can be used".to_owned()))
    }

    /// Compiles all kernels without the cache.
    fn compile(device: &FoundDevice) -> Compiled {
        let begin = Instant::now();
        let compiler = Compiler::find()?.with_cache(None);
        let target = compiler.target(device.architecture)?;
        for file in files() {
            compiler.file(file, target)?;
        }
        Ok(begin.elapsed().as_secs_f64())
    }

    /// A library's version, or why it is missing.
    fn library(version: &Result<Version, String>) -> String {
        version.as_ref().map_or_else(String::clone, Version::to_string)
    }

    fn page(found: &Found, compiled: &[Option<Compiled>]) -> Page {
        let mut page = Page::default();
        put!(page, "driver      CUDA {}", found.driver);
        put!(page, "NVRTC       {}", library(&found.nvrtc));
        put!(page, "cuBLASLt    {}", library(&found.blas));
        for (device, compiled) in found.devices.iter().zip(compiled) {
            let about = &device.about;
            let memory = ByteCount(about.memory_bytes);
            put!(page);
            put!(page, "{:<11} {}", about.name, about.model);
            put!(page, "            sm_{}, {} processors", device.architecture, about.processors);
            match device.free_bytes.map(ByteCount) {
                Some(free) => put!(page, "            {free} of {memory} are free"),
                None => put!(page, "            {memory} of memory"),
            }
            if found.devices.len() > 1 {
                put!(page, "            reaches into the memory of {}", reached(found, device));
            }
            let count = files().len();
            match (&device.lacks, compiled) {
                (Some(lacks), _) => put!(page, "            cannot be used: {lacks}"),
                (None, Some(Ok(time_s))) => {
                    put!(page, "            {count} files of kernels compile in {time_s:.2} s");
                }
                (None, Some(Err(why))) => put!(page, "            kernels: {why}"),
                (None, None) => {}
            }
        }
        page
    }

    fn names_reached(found: &Found, device: &FoundDevice) -> Vec<String> {
        let reached = |other: &&FoundDevice| device.reaches.contains(&other.about.number);
        found.devices.iter().filter(reached).map(|other| other.about.name.clone()).collect()
    }

    fn reached(found: &Found, device: &FoundDevice) -> String {
        match names_reached(found, device).as_slice() {
            [] => "no other".to_owned(),
            some => some.join(", "),
        }
    }

    fn as_json(found: &Found, compiled: &[Option<Compiled>]) -> Value {
        let device = |(device, compiled): (&FoundDevice, &Option<Compiled>)| {
            let fails = compiled.as_ref().and_then(|compiled| compiled.as_ref().err());
            let lacks = device.lacks.as_ref().or(fails);
            json!({
                "name": device.about.name,
                "model": device.about.model,
                "architecture": device.architecture,
                "processors": device.about.processors,
                "memory_bytes": device.about.memory_bytes,
                "memory_free_bytes": device.free_bytes,
                "reaches": names_reached(found, device),
                "lacks": lacks,
                "compile_seconds": compiled.as_ref().and_then(|compiled| compiled.as_ref().ok()),
            })
        };
        let devices: Vec<Value> = found.devices.iter().zip(compiled).map(device).collect();
        json!({
            "driver": found.driver.to_string(),
            "nvrtc": found.nvrtc.as_ref().ok().map(Version::to_string),
            "nvrtc_lacks": found.nvrtc.as_ref().err(),
            "cublaslt": found.blas.as_ref().ok().map(Version::to_string),
            "cublaslt_lacks": found.blas.as_ref().err(),
            "devices": devices,
            "lacks": Value::Null,
        })
    }
}
