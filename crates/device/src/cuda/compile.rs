//! The compiler of kernels: from their texts to what a device loads. No device is needed for it.
//!
//! - **How.** NVRTC makes a cubin for the device's own architecture, which no driver has to compile
//!   any further, nor refuses as too new. An architecture newer than the compiler gets PTX of the
//!   newest that it knows, which the driver compiles. Images are kept on disk under a digest of all
//!   that they were made of.
//! - **Bits.** Options are those of `stepwell_kernels`: nothing is fused, nothing is flushed.

use std::path::{Path, PathBuf};

use stepwell_base::hash::Digest128;
use stepwell_kernels as kernels;

use super::cache;
use super::nvrtc::{Kind, Nvrtc};

pub use super::nvrtc::VARIABLE;

/// What kernels are compiled to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// What hardware of this architecture runs, such as 90.
    Cubin(u32),
    /// What the drivers of this and later architectures compile.
    Ptx(u32),
}

/// The compiler.
#[derive(Debug)]
pub struct Compiler {
    nvrtc: Nvrtc,
    /// Architectures that it knows, in order, one at least.
    architectures: Vec<u32>,
    cache: Option<PathBuf>,
}

impl Compiler {
    /// The compiler that this machine has, with the user's cache.
    ///
    /// # Errors
    /// One line that says what is missing, and who has it.
    pub fn find() -> Result<Self, String> {
        Self::of(Nvrtc::find()?, cache::folder())
    }

    /// The one in this library or folder, with images in `cache`, if at all.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn at(library: &Path, cache: Option<PathBuf>) -> Result<Self, String> {
        Self::of(Nvrtc::named(library)?, cache)
    }

    /// The same compiler with images in `cache`, if at all.
    #[must_use]
    pub fn with_cache(self, cache: Option<PathBuf>) -> Self {
        Self { cache, ..self }
    }

    fn of(nvrtc: Nvrtc, cache: Option<PathBuf>) -> Result<Self, String> {
        let architectures = nvrtc.architectures()?;
        if architectures.is_empty() {
            return Err("NVRTC knows no architecture".to_owned());
        }
        Ok(Self { nvrtc, architectures, cache })
    }

    /// Its version: major, minor.
    pub fn version(&self) -> (u32, u32) {
        self.nvrtc.version()
    }

    /// Architectures that it knows, such as 90, in order.
    pub fn architectures(&self) -> &[u32] {
        &self.architectures
    }

    /// What hardware of `architecture` is given.
    ///
    /// # Errors
    /// When it is older than all that the compiler knows.
    pub fn target(&self, architecture: u32) -> Result<Target, String> {
        if self.architectures.contains(&architecture) {
            return Ok(Target::Cubin(architecture));
        }
        let below = self.architectures.iter().rfind(|known| **known < architecture);
        below.map(|known| Target::Ptx(*known)).ok_or_else(|| {
            let (major, minor) = self.version();
            format!(
                "NVRTC {major}.{minor} does not compile for sm_{architecture}, only from sm_{} on",
                self.architectures[0]
            )
        })
    }

    /// The image of a file of kernels.
    ///
    /// # Errors
    /// What the compiler says.
    pub fn file(&self, file: &str, target: Target) -> Result<Vec<u8>, String> {
        let text = kernels::source(file).ok_or_else(|| format!("there is no file {file}"))?;
        self.text(file, text, target)
    }

    /// The image of a text.
    ///
    /// # Errors
    /// What the compiler says.
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
        let image = self.nvrtc.compile((name, text), &options, kind)?;
        if let Some(folder) = &self.cache {
            cache::write(folder, digest, &image);
        }
        Ok(image)
    }

    /// A name of all that an image is made of.
    fn digest(&self, text: &str, options: &[String]) -> u128 {
        let (major, minor) = self.version();
        let mut digest = Digest128::new();
        let options = options.join("\0");
        for part in [&format!("NVRTC {major}.{minor}"), &options, text] {
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
