//! Programs run beside the engines: stepwell and fio.

use std::path::Path;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::options::Options;
use crate::scratch::Scratch;
use crate::{Result, progress};

/// What `stepwell bench ssd` reports, as far as it is compared; a missing figure stays out.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Stepwell {
    pub(crate) cold_rows_per_second: Option<f64>,
    pub(crate) load_rows_per_second: Option<f64>,
    pub(crate) update_rows_per_second: Option<f64>,
    pub(crate) write_amplification: Option<f64>,
    pub(crate) space_amplification: Option<f64>,
    pub(crate) cpu_us_per_row: Option<f64>,
    pub(crate) raw_read_iops: Option<f64>,
    pub(crate) raw_write_bytes_per_second: Option<f64>,
}

/// Runs `stepwell bench ssd`; returns the figures compared and all that it reported.
pub(crate) fn stepwell(program: &Path, options: &Options) -> Result<(Stepwell, Value)> {
    progress("stepwell: bench ssd");
    let scratch = Scratch::make(&options.dir, "stepwell")?;
    let (figures, store) = (scratch.path().join("figures.json"), scratch.path().join("store"));
    let mut command = Command::new(program);
    command.args(["bench", "ssd", "--dir"]).arg(store);
    command.args(["--rows", &options.rows.to_string()]);
    command.args(["--row-bytes", &options.row_bytes.to_string()]);
    command.args(["--batch", &options.batch.to_string()]);
    // What it prints is not our table.
    command.arg("--json").arg(&figures).stdout(std::io::stderr());
    run(&mut command)?;
    let text = std::fs::read(&figures)
        .map_err(|error| format!("{} bench ssd wrote no figures: {error}", program.display()))?;
    parse_stepwell(&text).map_err(|e| format!("figures of {} bench ssd: {e}", program.display()))
}

fn parse_stepwell(text: &[u8]) -> serde_json::Result<(Stepwell, Value)> {
    let all: Value = serde_json::from_slice(text)?;
    Ok((Stepwell::deserialize(&all)?, all))
}

/// What fio reaches on the same disk.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Fio {
    pub(crate) read_iops: f64,
    pub(crate) write_bytes_per_second: f64,
}

/// Writes a file of about the size of a store from front to end, then reads it at random.
pub(crate) fn fio(options: &Options) -> Result<Fio> {
    // 15 rows of 256 bytes, with their keys and marks, fill a page of 4096: 273 bytes each.
    const ROW_OVERHEAD_BYTES: u64 = 17;
    const BLOCK_BYTES: u64 = 1 << 20;
    let scratch = Scratch::make(&options.dir, "fio")?;
    let bytes = u64::from(options.rows) * (u64::from(options.row_bytes) + ROW_OVERHEAD_BYTES);
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
fn run(command: &mut Command) -> Result<Vec<u8>> {
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
    fn figures_of_stepwell_may_be_missing_and_may_be_more() {
        let text = br#"{"cold_rows_per_second": 5e5, "update_rows_per_second": null, "x": [1]}"#;
        let (figures, all) = parse_stepwell(text).unwrap();
        assert_eq!(figures.cold_rows_per_second, Some(5e5));
        assert_eq!(figures.update_rows_per_second, None);
        assert_eq!(figures.load_rows_per_second, None);
        assert_eq!(all["x"][0], 1);
        assert!(parse_stepwell(b"not json").is_err());
        assert!(parse_stepwell(br#"{"cold_rows_per_second": "fast"}"#).is_err());
    }

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
