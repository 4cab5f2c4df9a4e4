//! Checks where tensors come from.

use stepwell_engine::Checkpoint;

use super::reader::TensorReader;

/// Refuses tensors that say they are from another step than the checkpoint `like`, have other keys,
/// or have only some rows. Editing them may have removed these texts.
pub(super) fn check_about(file: &TensorReader, like: &Checkpoint) -> Result<(), String> {
    if let Some(since) = file.about("since") {
        return Err(file.wrong(format_args!(
            "has only the rows that were trained after step {since}: export without --since"
        )));
    }
    if let Some(step) = file.about("step").filter(|step| *step != like.step.to_string()) {
        return Err(file.wrong(format_args!(
            "was exported from step {step}, and --like {} is of step {}: name the one that it was \
             exported from",
            like.path.display(),
            like.step
        )));
    }
    for field in ["key_hash", "initial_values"] {
        let ours = like.meta[field].as_str();
        if file.about(field).is_some_and(|theirs| Some(theirs) != ours) {
            let ours = ours.unwrap_or_default();
            return Err(file.wrong(format_args!("its {field} is not '{ours}', as of --like")));
        }
    }
    Ok(())
}
