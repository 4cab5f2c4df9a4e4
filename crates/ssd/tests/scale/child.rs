//! A test that runs in a child process.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

const CHILD: &str = "STEPWELL_SCALE_CHILD";

/// Directory of the child `name`, if this process is that child.
pub(crate) fn is_child(name: &str) -> Option<PathBuf> {
    let (of, path) =
        std::env::var(CHILD).ok()?.split_once('=').map(|(a, b)| (a.into(), b.into()))?;
    let of: String = of;
    (of == name).then_some(path)
}

/// Whether large sizes are requested.
pub(crate) fn is_long() -> bool {
    std::env::var_os("STEPWELL_LONG").is_some()
}

/// Runs the test `name` in a child that works in `path` and may have `open_files` files open; its
/// output must end with `last`.
pub(crate) fn run(name: &str, path: &Path, open_files: u64, last: &str) {
    let began = Instant::now();
    let output = Command::new("sh")
        .args(["-c", &format!("ulimit -n {open_files} && exec \"$0\" \"$@\"")])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(CHILD, format!("{name}={}", path.display()))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}in {:.1} s", began.elapsed().as_secs_f64());
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains(last), "{said}");
}
