//! Builds the kernels for this processor, and the table and texts of them for Rust.
//!
//! ```text
//! cuda/*.cu ─► signatures ─► OUT_DIR/table.rs       KERNELS: names, parameters, entries
//!           ─► texts      ─► OUT_DIR/<file>         self-contained, for NVRTC
//!           ─► C++ compiler over shim/ ─► libstepwell_kernels.a
//! ```
//!
//! `STEPWELL_SANITIZE=address` or `thread` builds kernels and shim under that sanitizer.

#[path = "build/signature.rs"]
mod signature;
#[path = "build/text.rs"]
mod text;

use std::path::{Path, PathBuf};
use std::{env, fs};

use signature::Kernel;

type Result<T> = std::result::Result<T, String>;

/// Kernels for tests of the shim only are in a folder of their own.
const FOLDERS: [(&str, &str, &str); 2] =
    [("cuda", "KERNELS", "table.rs"), ("cuda/faults", "FAULTY", "faulty.rs")];

/// Flags for the bits of plain Rust: no fused or reordered operations, no flushed subnormals.
const FLAGS: [&str; 9] = [
    "-O2",
    "-ffp-contract=off",
    "-fno-fast-math",
    "-fno-math-errno",
    "-fno-strict-aliasing",
    "-fno-exceptions",
    "-Wall",
    "-Wextra",
    "-Werror=narrowing",
];

fn main() -> Result<()> {
    let root = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(variable("OUT_DIR")?);
    for watched in ["cuda", "shim", "build"] {
        println!("cargo:rerun-if-changed={watched}");
    }
    println!("cargo:rerun-if-env-changed=STEPWELL_SANITIZE");
    let mut sources = Vec::new();
    for (folder, name, table) in FOLDERS {
        let files = files(&root.join(folder), "cu")?;
        let mut kernels = Vec::new();
        for file in &files {
            let text = text::expand(file, &root.join("cuda"))?;
            kernels.extend(signature::kernels(&read(file)?, file_name(file)?)?);
            write(&out.join(file_name(file)?), &text)?;
        }
        write(&out.join(table), &self::table(name, &kernels, &files, &out)?)?;
        sources.extend(files);
    }
    compile(&root, &out, &sources)
}

/// Rust code with a folder's kernels and their sources.
fn table(name: &str, kernels: &[Kernel], files: &[PathBuf], out: &Path) -> Result<String> {
    let mut text = String::from("#[allow(unsafe_code, reason = \"what the shim has\")]\n");
    text += "#[allow(clippy::allow_attributes, reason = \"made\")]\nunsafe extern \"C\" {\n";
    for kernel in kernels {
        text += &format!("    fn stepwell_kernel_{}(arguments: Arguments);\n", kernel.name);
    }
    text += &format!("}}\n\nstatic {name}: [Kernel; {}] = [\n", kernels.len());
    for kernel in kernels {
        text += &kernel.rust();
    }
    text += "];\n";
    if name != FOLDERS[0].1 {
        return Ok(text);
    }
    text += &format!("\nstatic SOURCES: [(&str, &str); {}] = [\n", files.len());
    for file in files {
        let name = file_name(file)?;
        text += &format!("    ({name:?}, include_str!({:?})),\n", out.join(name));
    }
    Ok(text + "];\n")
}

/// Compiles shim and kernels into one archive.
fn compile(root: &Path, out: &Path, kernels: &[PathBuf]) -> Result<()> {
    let sanitizer = env::var("STEPWELL_SANITIZE").unwrap_or_default();
    let shim = files(&root.join("shim"), "cpp")?;
    // The scheduler reports its switches to ThreadSanitizer, which must not instrument it.
    let (watched, unwatched) = if sanitizer == "thread" {
        shim.into_iter().partition(|file| file.ends_with("layouts.cpp"))
    } else {
        (shim, Vec::new())
    };
    let mut build = compiler(root);
    build.files(&watched).flag("-Wno-unknown-warning-option");
    if !sanitizer.is_empty() {
        let flag = format!("-fsanitize={sanitizer}");
        build.flag(&flag).flag("-g").flag("-fno-omit-frame-pointer");
        // The compiler's own runtime: rustc links without the compiler's libraries.
        let runtime = if sanitizer == "thread" { "tsan" } else { "asan" };
        println!("cargo:rustc-link-arg=-Wl,--no-as-needed,-l{runtime}");
    }
    for kernel in kernels {
        // A .cpp file, so that the compiler recognizes the language.
        let place = out.join(file_name(kernel)?).with_extension("cpp");
        write(&place, &format!("#include \"{}\"\n", kernel.display()))?;
        build.file(place);
    }
    build.try_compile("stepwell_kernels").map_err(|error| error.to_string())?;
    if !unwatched.is_empty() {
        let mut build = compiler(root);
        build.files(&unwatched).define("SHIM_TSAN", None);
        build.try_compile("stepwell_shim").map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn compiler(root: &Path) -> cc::Build {
    let mut build = cc::Build::new();
    build.cpp(true).std("c++17").opt_level(2).warnings(false);
    build.include(root.join("shim")).include(root.join("cuda"));
    for flag in FLAGS {
        build.flag_if_supported(flag);
    }
    // Faults name files relative to this crate.
    build.flag_if_supported(format!("-ffile-prefix-map={}/=", root.display()));
    build
}

/// The files in a folder with this extension, sorted.
fn files(folder: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(|e| format!("{}: {e}", folder.display()))?.path();
        if path.extension().is_some_and(|of| of == extension) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn file_name(path: &Path) -> Result<&str> {
    let name = path.file_name().and_then(|name| name.to_str());
    name.ok_or_else(|| format!("{} has no name", path.display()))
}

fn variable(name: &str) -> Result<String> {
    env::var(name).map_err(|error| format!("{name}: {error}"))
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}
