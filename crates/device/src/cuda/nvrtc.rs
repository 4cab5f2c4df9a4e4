//! NVIDIA's run-time compiler, as a library opened at run time.
//!
//! - **Why.** The library is opened here, not by `cudarc`, which panics if it is missing and can't
//!   be given its path: the wheel that contains it installs it where no linker looks.
//! - **Invariants.** Only this module uses the library's functions; every call's code is checked,
//!   and none is stored as an enum that a newer library may not match.

#![expect(unsafe_code, reason = "functions of a foreign library are called")]

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};

use libloading::Library;

use super::version::Version;

/// Environment variable with the path of the library or its folder.
pub const VARIABLE: &str = "STEPWELL_NVRTC";

/// Possible names of the library, the newest first.
const NAMES: [&str; 3] = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"];

/// Folders that installers use, in addition to the system's.
const FOLDERS: [&str; 1] = ["/usr/local/cuda/lib64"];

/// Where to get the library, for messages.
pub(crate) const WHERE: &str = "CUDA's package cuda-nvrtc, or pip install nvidia-cuda-nvrtc and \
     STEPWELL_NVRTC=the folder of its libnvrtc.so";

type Code = c_int;
type Program = *mut c_void;
type OfProgram<T> = unsafe extern "C" fn(Program, *mut T) -> Code;

/// The library.
#[derive(Debug)]
pub(crate) struct Nvrtc {
    calls: Calls,
    version: Version,
    /// Keeps the functions loaded.
    _library: Library,
}

/// Functions of the library.
#[derive(Clone, Copy, Debug)]
struct Calls {
    version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> Code,
    error: unsafe extern "C" fn(Code) -> *const c_char,
    architectures_count: unsafe extern "C" fn(*mut c_int) -> Code,
    architectures: unsafe extern "C" fn(*mut c_int) -> Code,
    create: unsafe extern "C" fn(
        *mut Program,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> Code,
    destroy: unsafe extern "C" fn(*mut Program) -> Code,
    compile: unsafe extern "C" fn(Program, c_int, *const *const c_char) -> Code,
    log_bytes: OfProgram<usize>,
    log: OfProgram<c_char>,
    cubin_bytes: OfProgram<usize>,
    cubin: OfProgram<c_char>,
    ptx_bytes: OfProgram<usize>,
    ptx: OfProgram<c_char>,
}

impl Nvrtc {
    /// The library that the variable names, or the first one found.
    ///
    /// # Errors
    /// One line about what is missing, and where to get it.
    pub(crate) fn find() -> Result<Self, String> {
        if let Some(named) = std::env::var_os(VARIABLE).filter(|named| !named.is_empty()) {
            return Self::named(Path::new(&named))
                .map_err(|why| format!("no NVRTC at {VARIABLE}={}: {why}", named.display()));
        }
        let beside = |folder: &&str| NAMES.map(|name| Path::new(folder).join(name));
        let mut paths = NAMES.iter().map(PathBuf::from).chain(FOLDERS.iter().flat_map(beside));
        paths
            .find_map(|path| Self::open(path.as_os_str()).ok())
            .ok_or_else(|| format!("no NVRTC, the compiler of kernels ({WHERE})"))
    }

    /// The library at a path, or in a folder.
    pub(crate) fn named(path: &Path) -> Result<Self, String> {
        if !path.is_dir() {
            return Self::open(path.as_os_str());
        }
        let within = NAMES.map(|name| path.join(name));
        let found = within.iter().find(|path| path.exists());
        found
            .ok_or_else(|| format!("none of {}", NAMES.join(", ")))
            .and_then(|path| Self::open(path.as_os_str()))
    }

    fn open(path: &OsStr) -> Result<Self, String> {
        // SAFETY: opening NVIDIA's library runs its initializers, which have no requirements.
        let library = unsafe { Library::new(path) }.map_err(|error| error.to_string())?;
        let calls = Calls::of(&library).map_err(|error| error.to_string())?;
        let (mut major, mut minor) = (0, 0);
        // SAFETY: both targets are valid; the function is from the library held here.
        let code = unsafe { (calls.version)(&raw mut major, &raw mut minor) };
        calls.check(code, "nvrtcVersion")?;
        let version = Version { major: major as u32, minor: minor as u32 };
        Ok(Self { calls, version, _library: library })
    }

    /// Version of the library.
    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// Architectures that it compiles for, such as 90, in order.
    pub(crate) fn architectures(&self) -> Result<Vec<u32>, String> {
        let mut count = 0;
        // SAFETY: the target is valid.
        let code = unsafe { (self.calls.architectures_count)(&raw mut count) };
        self.calls.check(code, "nvrtcGetNumSupportedArchs")?;
        let mut all = vec![0; usize::try_from(count).unwrap_or(0)];
        // SAFETY: there is room for the number that it just returned.
        let code = unsafe { (self.calls.architectures)(all.as_mut_ptr()) };
        self.calls.check(code, "nvrtcGetSupportedArchs")?;
        let mut all: Vec<u32> = all.into_iter().map(|number: c_int| number as u32).collect();
        all.sort_unstable();
        Ok(all)
    }

    /// Compiles a source text to PTX or, for hardware named `sm_...`, to a cubin.
    ///
    /// # Errors
    /// The compiler's message.
    pub(crate) fn compile(
        &self,
        name: &str,
        text: &str,
        options: &[String],
        kind: Kind,
    ) -> Result<Vec<u8>, String> {
        let text = CString::new(text).map_err(|_| format!("{name} has a NUL byte"))?;
        let c_name = CString::new(name).map_err(|_| format!("{name} has a NUL byte"))?;
        let options: Result<Vec<CString>, _> =
            options.iter().map(|option| CString::new(option.as_str())).collect();
        let options = options.map_err(|_| format!("an option of {name} has a NUL byte"))?;
        let options: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let mut program = Open { calls: self.calls, program: std::ptr::null_mut() };
        let (none, place) = (std::ptr::null(), &raw mut program.program);
        // SAFETY: texts are valid and end with a zero; there are no headers.
        let code =
            unsafe { (self.calls.create)(place, text.as_ptr(), c_name.as_ptr(), 0, none, none) };
        self.calls.check(code, "nvrtcCreateProgram")?;
        // SAFETY: this many options are valid, and the program was just created.
        let code = unsafe {
            (self.calls.compile)(program.program, options.len() as c_int, options.as_ptr())
        };
        if let Err(why) = self.calls.check(code, "nvrtcCompileProgram") {
            let log = program.text(self.calls.log_bytes, self.calls.log).unwrap_or_default();
            let log = String::from_utf8_lossy(&log).trim_end_matches('\0').trim().to_owned();
            return Err(format!("{name}: {why}\n{log}"));
        }
        match kind {
            Kind::Cubin => program.text(self.calls.cubin_bytes, self.calls.cubin),
            Kind::Ptx => program.text(self.calls.ptx_bytes, self.calls.ptx),
        }
    }
}

/// Output of the compiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Machine code for hardware.
    Cubin,
    /// Code that a driver compiles for its hardware, ending with a zero.
    Ptx,
}

impl Calls {
    fn of(library: &Library) -> Result<Self, libloading::Error> {
        Ok(Self {
            version: symbol(library, c"nvrtcVersion")?,
            error: symbol(library, c"nvrtcGetErrorString")?,
            architectures_count: symbol(library, c"nvrtcGetNumSupportedArchs")?,
            architectures: symbol(library, c"nvrtcGetSupportedArchs")?,
            create: symbol(library, c"nvrtcCreateProgram")?,
            destroy: symbol(library, c"nvrtcDestroyProgram")?,
            compile: symbol(library, c"nvrtcCompileProgram")?,
            log_bytes: symbol(library, c"nvrtcGetProgramLogSize")?,
            log: symbol(library, c"nvrtcGetProgramLog")?,
            cubin_bytes: symbol(library, c"nvrtcGetCUBINSize")?,
            cubin: symbol(library, c"nvrtcGetCUBIN")?,
            ptx_bytes: symbol(library, c"nvrtcGetPTXSize")?,
            ptx: symbol(library, c"nvrtcGetPTX")?,
        })
    }

    fn check(&self, code: Code, call: &str) -> Result<(), String> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: accepts any code.
        let text = unsafe { (self.error)(code) };
        if text.is_null() {
            return Err(format!("{call}: code {code}"));
        }
        // SAFETY: the text belongs to the library and ends with a zero.
        let text = unsafe { CStr::from_ptr(text) };
        Err(format!("{call}: {}", text.to_string_lossy()))
    }
}

/// A function of the library, with the type in its header.
fn symbol<F: Copy>(library: &Library, name: &CStr) -> Result<F, libloading::Error> {
    // SAFETY: each type above is that of NVRTC's header, which has not changed since CUDA 11.2.
    let symbol = unsafe { library.get::<F>(name.to_bytes_with_nul()) }?;
    Ok(*symbol)
}

/// A program; destroyed on drop.
struct Open {
    calls: Calls,
    program: Program,
}

impl Open {
    /// Bytes whose number one call returns, and which another writes.
    fn text(&self, bytes: OfProgram<usize>, text: OfProgram<c_char>) -> Result<Vec<u8>, String> {
        let mut len = 0;
        // SAFETY: program and target are valid.
        let code = unsafe { bytes(self.program, &raw mut len) };
        self.calls.check(code, "nvrtcGet...Size")?;
        let mut all = vec![0_u8; len];
        // SAFETY: there is room for the number of bytes that it just returned.
        let code = unsafe { text(self.program, all.as_mut_ptr().cast()) };
        self.calls.check(code, "nvrtcGet...")?;
        Ok(all)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if !self.program.is_null() {
            // SAFETY: it was created, and has no more users.
            let _ = unsafe { (self.calls.destroy)(&raw mut self.program) };
        }
    }
}
