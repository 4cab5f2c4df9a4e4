//! The compiler of kernels, from sources to images that a device loads. It needs no device.
//!
//! - **How.** NVRTC makes a cubin for the device's own architecture, which a driver neither
//!   compiles further nor rejects as too new. An architecture newer than the compiler gets PTX of
//!   the newest one that it supports, which the driver compiles. Images are cached on disk by a
//!   digest of all inputs.
//! - **Bits.** Options come from `stepwell_kernels`: nothing is fused or flushed.

use std::path::{Path, PathBuf};

use stepwell_base::hash::Digest128;
use stepwell_kernels as kernels;

use super::cache;
use super::nvrtc::{Kind, Nvrtc};
use super::version::Version;

pub use super::nvrtc::VARIABLE;

/// Target of compilation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Machine code for hardware of this architecture, such as 90.
    Cubin(u32),
    /// Code that drivers of this and later architectures compile.
    Ptx(u32),
}

/// The compiler.
#[derive(Debug)]
pub struct Compiler {
    nvrtc: Nvrtc,
    /// Architectures that it supports, in order; at least one.
    architectures: Vec<u32>,
    cache: Option<PathBuf>,
}

impl Compiler {
    /// The compiler on this machine, with the user's cache.
    ///
    /// # Errors
    /// One line about what is missing, and where to get it.
    pub fn find() -> Result<Self, String> {
        Self::of(Nvrtc::find()?, cache::folder())
    }

    /// The compiler in this library or folder, with images in `cache`, if given.
    ///
    /// # Errors
    /// What is wrong with the library.
    pub fn at(library: &Path, cache: Option<PathBuf>) -> Result<Self, String> {
        Self::of(Nvrtc::named(library)?, cache)
    }

    /// Replaces the cache of images; `None` for no cache.
    #[must_use]
    pub fn with_cache(self, cache: Option<PathBuf>) -> Self {
        Self { cache, ..self }
    }

    fn of(nvrtc: Nvrtc, cache: Option<PathBuf>) -> Result<Self, String> {
        let architectures = nvrtc.architectures()?;
        if architectures.is_empty() {
            return Err("NVRTC supports no architecture".to_owned());
        }
        Ok(Self { nvrtc, architectures, cache })
    }

    /// Version of the compiler.
    pub fn version(&self) -> Version {
        self.nvrtc.version()
    }

    /// Supported architectures, such as 90, in order.
    pub fn architectures(&self) -> &[u32] {
        &self.architectures
    }

    /// Target for hardware of `architecture`.
    ///
    /// # Errors
    /// If it is older than all that the compiler supports.
    pub fn target(&self, architecture: u32) -> Result<Target, String> {
        if self.architectures.contains(&architecture) {
            return Ok(Target::Cubin(architecture));
        }
        let below = self.architectures.iter().rfind(|known| **known < architecture);
        below.map(|known| Target::Ptx(*known)).ok_or_else(|| {
            let version = self.version();
            format!(
                "NVRTC {version} does not compile for sm_{architecture}, only from sm_{} on",
                self.architectures[0]
            )
        })
    }

    /// Compiles a file of kernels.
    ///
    /// # Errors
    /// The compiler's message.
    pub fn file(&self, file: &str, target: Target) -> Result<Vec<u8>, String> {
        let text = kernels::source(file).ok_or_else(|| format!("there is no file {file}"))?;
        self.text(file, text, target)
    }

    /// Compiles a source text.
    ///
    /// # Errors
    /// The compiler's message.
    pub fn text(&self, name: &str, text: &str, target: Target) -> Result<Vec<u8>, String> {
        let (kind, architecture) = match target {
            Target::Cubin(architecture) => (Kind::Cubin, format!("sm_{architecture}")),
            Target::Ptx(architecture) => (Kind::Ptx, format!("compute_{architecture}")),
        };
        let mut options: Vec<String> =
            kernels::NVRTC_OPTIONS.iter().map(|option| (*option).to_owned()).collect();
        options.push(format!("--gpu-architecture={architecture}"));
        let digest = self.digest(text, &options);
        if let Some(image) = self.cache.as_ref().and_then(|folder| cache::read(folder, digest)) {
            return Ok(image);
        }
        let image = self.nvrtc.compile(name, text, &options, kind)?;
        if let Some(folder) = &self.cache {
            cache::write(folder, digest, &image);
        }
        Ok(image)
    }

    /// Digest of all inputs of an image.
    fn digest(&self, text: &str, options: &[String]) -> u128 {
        let version = self.version();
        let mut digest = Digest128::new();
        let options = options.join("\0");
        for part in [&format!("NVRTC {version}"), &options, text] {
            digest.update(&(part.len() as u64).to_le_bytes());
            digest.update(part.as_bytes());
        }
        digest.value()
    }
}

/// Files of kernels, each once, in order.
pub fn files() -> Vec<&'static str> {
    let mut files: Vec<_> = kernels::kernels().iter().map(|kernel| kernel.file).collect();
    files.dedup();
    files
}
