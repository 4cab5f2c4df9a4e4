//! The `stepwell` program.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(stepwell_program::main(std::env::args_os().collect()))
}
