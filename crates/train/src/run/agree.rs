//! Checks that ranks that are processes would train one model: the same data, summed by the same
//! instruction sets.
//!
//! Rank 0 collects the properties of every rank, and ends all ranks if one differs from its own.

use serde::{Deserialize, Serialize};
use stepwell_data::Sources;
use stepwell_engine::Scratch;
use stepwell_fabric::collective::Gather;
use stepwell_fabric::{Fabric, Malformed, Message};

use super::surroundings::Surroundings;
use crate::data_file::{DataFile, identify};
use crate::models::kernels;
use crate::run_plan::RunPlan;
use crate::{Error, Result, talk};

/// Properties that must be the same on all ranks.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Has {
    kernels: String,
    files: Vec<DataFile>,
    evaluated: Vec<DataFile>,
}

/// Refuses processes that would not train one model.
///
/// # Errors
/// Names the rank that differs, and the property.
pub(super) fn agree(plan: &RunPlan<'_>, around: &Surroundings, sources: &Sources) -> Result<()> {
    let Some(ranks) = around.machine.ranks.as_ref().filter(|ranks| ranks.processes.is_some())
    else {
        return Ok(());
    };
    let layout = sources.input.layout();
    let evaluated = sources.eval_input.as_ref().map_or(&[][..], |input| input.files());
    let own = Has {
        kernels: kernels(plan.dense.precision),
        files: identify(sources.input.files(), layout)?,
        evaluated: identify(evaluated, layout)?,
    };
    // Before any rows are moved: a rank that cannot take its place ends all now.
    plan.storage.rows.as_deref().map_or(Ok(()), Scratch::check)?;
    let fabric = &ranks.fabric;
    let said = fabric.wait(Gather::start(fabric, talk::AGREE, 0, message_of(fabric, &own))?)?;
    for (rank, message) in said.iter().enumerate() {
        let wrong = |why| stepwell_fabric::Error::malformed(rank, why);
        let text: &[u8] = message.reader().take().map_err(wrong)?;
        let theirs: Has = serde_json::from_slice(text)
            .map_err(|_| wrong(Malformed::Wrong("it does not say what the rank has")))?;
        if let Some(why) = differs(&own, &theirs) {
            return Err(Error::Config(format!("rank {rank} {why}")));
        }
    }
    Ok(())
}

fn message_of(fabric: &Fabric, has: &Has) -> Message {
    let mut message = fabric.message();
    message.put(serde_json::json!(has).to_string().as_bytes());
    message
}

/// Describes how `theirs` differs from `own`, which is rank 0's.
fn differs(own: &Has, theirs: &Has) -> Option<String> {
    if own.kernels != theirs.kernels {
        return Some(format!(
            "uses {} kernels, but rank 0 uses {}: results would differ in bits; launch all ranks \
             on machines of one kind",
            theirs.kernels, own.kernels
        ));
    }
    let pairs = [(&own.files, &theirs.files), (&own.evaluated, &theirs.evaluated)];
    let (own, theirs) = pairs.into_iter().find(|(own, theirs)| own != theirs)?;
    let differ = own.iter().zip(theirs).find(|(own, theirs)| own != theirs);
    Some(match differ {
        _ if own.len() != theirs.len() => format!(
            "finds {} data files, but rank 0 finds {}: all ranks must read the same data",
            theirs.len(),
            own.len()
        ),
        Some((own, theirs)) if own.name != theirs.name => format!(
            "reads '{}', but rank 0 reads '{}': all ranks must read the same data",
            theirs.name, own.name
        ),
        Some((own, theirs)) => format!(
            "has other content in '{}' ({} bytes, rank 0 has {}): all ranks must read the same \
             data",
            own.name, theirs.bytes, own.bytes
        ),
        None => "reads different data than rank 0".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(kernels: &str, files: &[(&str, u64, &str)]) -> Has {
        let file = |(name, bytes, content): &(&str, u64, &str)| DataFile {
            name: (*name).to_owned(),
            bytes: *bytes,
            content: (*content).to_owned(),
            path: String::new(),
            ends: String::new(),
            empty: false,
        };
        let files = files.iter().map(file).collect();
        Has { kernels: kernels.to_owned(), files, evaluated: Vec::new() }
    }

    #[test]
    fn what_differs_is_named() {
        let own = has("avx2", &[("a", 1, "x"), ("b", 2, "y")]);
        assert_eq!(differs(&own, &has("avx2", &[("a", 1, "x"), ("b", 2, "y")])), None);
        for (theirs, said) in [
            (has("avx512", &[("a", 1, "x"), ("b", 2, "y")]), "uses avx512"),
            (has("avx2", &[("a", 1, "x")]), "finds 1 data files, but rank 0 finds 2"),
            (has("avx2", &[("a", 1, "x"), ("c", 2, "y")]), "reads 'c', but rank 0 reads 'b'"),
            (has("avx2", &[("a", 1, "x"), ("b", 3, "y")]), "in 'b' (3 bytes, rank 0 has 2)"),
            (has("avx2", &[("a", 1, "x"), ("b", 2, "z")]), "other content in 'b'"),
        ] {
            let why = differs(&own, &theirs).unwrap();
            assert!(why.contains(said), "{why}");
        }
    }
}
