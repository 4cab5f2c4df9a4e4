//! `ENDED`: marks the last checkpoint of a run that trained all of its data.
//!
//! - **Why.** A warm start has to know whether the earlier run finished its data, and a checkpoint
//!   is often written before the run knows that the data ends there.
//! - **How.** A file next to the others, written after the last epoch. It holds the step and job of
//!   its checkpoint, so a copy in another checkpoint has no effect.
//! - **Failure.** After a crash before the file is written, resuming the run trains nothing and
//!   writes it.

use serde_json::Value;
use stepwell_disk::Disk;

use super::files;
use crate::Result;

/// Name of the file.
const ENDED_FILE: &str = "ENDED";

/// Text of the file for a checkpoint of `step` whose trainer wrote `run`.
fn text(step: u64, run: &Value) -> String {
    format!("step {step} of job {} is the last\n", run["job"].as_str().unwrap_or("unnamed"))
}

/// Marks the checkpoint in `directory` as the last of its run.
pub(super) fn write(directory: &dyn Disk, step: u64, run: &Value) -> Result<()> {
    if is_ended(directory, step, run) {
        return Ok(());
    }
    if directory.exists(ENDED_FILE)? {
        // A power cut left a partial file.
        directory.remove(ENDED_FILE)?;
    }
    files::write_synced(directory, ENDED_FILE, text(step, run).as_bytes())?;
    Ok(directory.sync_directory()?)
}

/// Whether the run of the checkpoint in `directory` ended with it.
pub(super) fn is_ended(directory: &dyn Disk, step: u64, run: &Value) -> bool {
    files::read(directory, ENDED_FILE).is_ok_and(|found| found == text(step, run).as_bytes())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use stepwell_disk::MemDisk;

    use super::*;

    #[test]
    fn a_file_says_nothing_of_another_checkpoint() {
        let disk = MemDisk::new();
        let run = json!({ "job": "a" });
        assert!(!is_ended(&disk, 7, &run));
        write(&disk, 7, &run).unwrap();
        write(&disk, 7, &run).unwrap();
        assert!(is_ended(&disk, 7, &run));
        assert!(!is_ended(&disk, 8, &run));
        assert!(!is_ended(&disk, 7, &json!({ "job": "b" })));
    }

    #[test]
    fn a_part_of_it_is_replaced() {
        let disk = MemDisk::new();
        let run = json!({ "job": "a" });
        files::write_synced(&disk, ENDED_FILE, b"step 7 of").unwrap();
        assert!(!is_ended(&disk, 7, &run));
        write(&disk, 7, &run).unwrap();
        assert!(is_ended(&disk, 7, &run));
    }
}
