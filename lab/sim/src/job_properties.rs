//! Properties that only some jobs have, so that a test can verify its coverage.

use crate::finding::Finding;
use crate::job::{Examples, Job};
use crate::oracle::Oracle;
use crate::tiers::Tables;

/// A bag with more ids than this is large.
const LARGE: usize = 20;

/// Properties of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traits {
    /// Slots have any number of ids.
    pub bags: bool,
    /// A bag of a feature is empty.
    pub empty: bool,
    /// A bag of a feature has more than 20 ids.
    pub large: bool,
    /// Bags are weighted by a dense column.
    pub weighed: bool,
    /// There are several table groups.
    pub groups: bool,
    /// A group has several tables.
    pub shared: bool,
    /// A table stays in memory.
    pub whole: bool,
    /// A table that must stay in memory doesn't fit.
    pub full: bool,
    /// A table delays admission, and another one has expiry.
    pub lives: bool,
    /// Number of tables in each group.
    pub group_sizes: Vec<usize>,
}

impl Traits {
    /// Properties of `job`, whose oracle is `oracle`.
    ///
    /// # Errors
    /// The model is invalid.
    pub(crate) fn of(job: &Job, oracle: &Oracle) -> Result<Self, Finding> {
        let (tables, rooms, named) = (Tables::of(job)?, &oracle.rooms, &job.config.features);
        let sizes = bag_sizes(job);
        let group_sizes: Vec<usize> = rooms.iter().map(|room| room.tables.len()).collect();
        Ok(Self {
            bags: job.files.iter().any(|file| matches!(file, Examples::Bags(_))),
            empty: !named.is_empty() && sizes.contains(&0),
            large: sizes.iter().any(|size| *size > LARGE),
            weighed: named.iter().any(|feature| feature.weight.is_some()),
            groups: rooms.len() > 1,
            shared: group_sizes.iter().any(|tables| *tables > 1),
            whole: rooms.iter().any(|room| room.whole.is_some()),
            full: oracle.full.is_some(),
            lives: tables.admit_and_expire(),
            group_sizes,
        })
    }
}

/// Number of ids of all bags of features.
fn bag_sizes(job: &Job) -> Vec<usize> {
    let columns = job.config.features.iter().filter_map(|feature| feature.columns_of().ok());
    let columns: Vec<usize> = columns.flatten().collect();
    let mut sizes = Vec::new();
    for file in &job.files {
        match file {
            Examples::Bags(chunk) => {
                let bags = (0..chunk.len()).flat_map(|example| {
                    columns.iter().map(move |slot| chunk.bag(example, *slot).len())
                });
                sizes.extend(bags);
            }
            Examples::Lines(_) => sizes.push(1),
        }
    }
    sizes
}
