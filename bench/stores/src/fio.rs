//! What the disk gives without any store, by fio.

use std::process::{Command, Stdio};

use serde::Serialize;
use serde_json::Value;

use crate::options::Options;
use crate::scratch::Scratch;
use crate::{Result, progress};

/// What fio reaches on the same disk.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Fio {
    pub(crate) read_iops: f64,
    pub(crate) write_bytes_per_second: f64,
}

/// Writes a file as large as the rows from front to end, then reads it at random.
pub(crate) fn measure(options: &Options) -> Result<Fio> {
    const BLOCK_BYTES: u64 = 1 << 20;
    let scratch = Scratch::make(&options.dir, "fio")?;
    let bytes = options.payload_bytes(u64::from(options.rows));
    let file = format!("--filename={}", scratch.path().join("file").display());
    let size = format!("--size={}", bytes.next_multiple_of(BLOCK_BYTES));
    let runtime = format!("--runtime={}", options.seconds);
    let shared = ["--ioengine=io_uring", "--direct=1", "--output-format=json", &file, &size];
    let write = ["--name=write", "--rw=write", "--bs=1M", "--iodepth=8", "--end_fsync=1"];
    let read =
        ["--name=read", "--rw=randread", "--bs=4k", "--iodepth=128", "--time_based", &runtime];
    progress("fio: sequential writes of 1 MiB");
    let written = run_fio(&[&shared[..], &write].concat())?;
    progress("fio: random reads of 4 KiB");
    let looked = run_fio(&[&shared[..], &read].concat())?;
    Ok(Fio {
        read_iops: figure(&looked, "read", "iops")?,
        write_bytes_per_second: figure(&written, "write", "bw_bytes")?,
    })
}

fn run_fio(arguments: &[&str]) -> Result<Value> {
    let mut command = Command::new("fio");
    command.args(arguments).stdout(Stdio::piped());
    let text = run(&mut command)?;
    // Warnings, if any, stand before the report.
    let report = text.iter().position(|byte| *byte == b'{').map_or(&text[..], |at| &text[at..]);
    serde_json::from_slice(report).map_err(|error| format!("fio's report: {error}"))
}

fn figure(report: &Value, direction: &str, name: &str) -> Result<f64> {
    let value = report["jobs"][0][direction][name].as_f64();
    value.ok_or_else(|| format!("fio's report has no {direction} {name}"))
}

/// Runs `command` to its end and returns what it printed, where its output is piped.
pub(crate) fn run(command: &mut Command) -> Result<Vec<u8>> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .spawn()
        .and_then(std::process::Child::wait_with_output)
        .map_err(|error| format!("cannot run {name}: {error}"))?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(format!("{name} failed: {}", output.status)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_not_there_or_fails_is_named() {
        let absent = run(&mut Command::new("/no/such/program")).unwrap_err();
        assert!(absent.contains("/no/such/program"), "{absent}");
        let failed = run(&mut Command::new("false")).unwrap_err();
        assert!(failed.starts_with("false failed"), "{failed}");
    }

    #[test]
    fn figures_of_fio_are_found_by_direction() {
        let report = serde_json::json!({"jobs": [{"read": {"iops": 7.5}}]});
        assert_eq!(figure(&report, "read", "iops"), Ok(7.5));
        assert!(figure(&report, "write", "iops").is_err());
    }
}
