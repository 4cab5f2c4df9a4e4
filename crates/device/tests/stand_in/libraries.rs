//! Substitutes for NVIDIA's libraries, built from the files next to this one.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Builds the libraries once and returns their folder; `None` if there is no compiler.
pub(crate) fn libraries() -> Option<&'static Path> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let build = || {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../device/tests/stand_in");
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("stand_in");
        std::fs::create_dir_all(&folder).unwrap();
        let library = folder.join("libcuda.so.1");
        let compiler = std::env::var_os("CXX").unwrap_or_else(|| "c++".into());
        let mut build = Command::new(compiler);
        build.args(["-std=c++17", "-O2", "-shared", "-fPIC", "-pthread", "-Wall", "-Wextra"]);
        build.args(["cuda.cpp", "others.cpp"].map(|name| sources.join(name)));
        match build.arg("-o").arg(&library).output() {
            Ok(built) => assert!(
                built.status.success() && built.stderr.is_empty(),
                "{}",
                String::from_utf8_lossy(&built.stderr)
            ),
            Err(why) => {
                stepwell_skip::skipped(format!("no C++ compiler: {why}"));
                return None;
            }
        }
        for name in ["libcublasLt.so.13", "libnvrtc.so.12"] {
            let _ = std::fs::remove_file(folder.join(name));
            std::os::unix::fs::symlink("libcuda.so.1", folder.join(name)).unwrap();
        }
        Some(folder)
    };
    FOLDER.get_or_init(build).as_deref()
}
