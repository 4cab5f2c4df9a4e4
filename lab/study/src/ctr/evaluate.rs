//! Evaluates test examples with a model whose rows are at their owners.

use stepwell_base::Key;
use stepwell_base::owner::owner;
use stepwell_nn::Auc;
use stepwell_sync::OwnedRows;

use super::data::{Data, RANKS};
use super::learner::SharedRows;
use super::model::{LANES, Pass, distinct};
use crate::Result;

/// Examples per block.
const BLOCK: usize = 512;

/// Evaluation of the test examples.
pub(super) struct Looked {
    pub(super) auc: f64,
    pub(super) log_loss: f64,
    pub(super) digest: String,
}

pub(super) fn look(data: &Data, model: &[f32], tables: &[SharedRows]) -> Result<Looked> {
    let count = data.test.count();
    let (mut auc, mut loss) = (Auc::new(count), 0.0);
    let (mut pass, mut seen) = (Pass::new(&data.graph, BLOCK), Vec::new());
    for start in (0..count).step_by(BLOCK) {
        let examples = start..count.min(start + BLOCK);
        let mut keys = Vec::new();
        distinct(&data.test, examples.clone(), &mut keys);
        let mut parameters = model.to_vec();
        read(&keys, tables, &mut parameters)?;
        seen.extend(checksum(&parameters).to_le_bytes());
        let labels = &data.test.labels[examples.clone()];
        loss += pass.run(&data.graph, &data.test, examples, &parameters, None).loss;
        auc.add(&pass.logits[..labels.len()], labels);
    }
    let auc = auc.take().map_or(f64::NAN, |value| value.auc);
    let digest = format!("{:016x}", stepwell_base::hash::checksum(&seen));
    Ok(Looked { auc, log_loss: loss / count as f64, digest })
}

/// Appends the rows of `keys`, read from their owners.
fn read(keys: &[Key], tables: &[SharedRows], parameters: &mut Vec<f32>) -> Result<()> {
    let begin = parameters.len();
    parameters.resize(begin + keys.len() * LANES, 0.0);
    for (rank, table) in tables.iter().enumerate() {
        let own = || keys.iter().enumerate().filter(|(_, key)| owner(**key, RANKS) == rank);
        let (of_rank, mut weights) = (own().map(|(_, key)| *key).collect::<Vec<_>>(), Vec::new());
        let outcome = table.clone().read(&of_rank, &mut weights);
        outcome.map_err(|why| stepwell_fabric::Error::Failed { rank, why })?;
        for ((place, _), row) in own().zip(weights.chunks_exact(LANES)) {
            let at = begin + place * LANES;
            parameters[at..at + LANES].copy_from_slice(row);
        }
    }
    Ok(())
}

/// XXH3-64 of the parameters' bytes.
fn checksum(parameters: &[f32]) -> u64 {
    let bytes: Vec<u8> = parameters.iter().flat_map(|value| value.to_le_bytes()).collect();
    stepwell_base::hash::checksum(&bytes)
}
