//! What can be wrong with a graph's description.

/// A description that is not a graph.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// The layer cannot read what it is given.
    #[error("layer '{layer}': {problem}")]
    Shape {
        /// Name of the layer.
        layer: String,
        /// What does not fit, with the mend.
        problem: String,
    },
    /// A source that does not exist.
    #[error("layer '{layer}' reads {source_name}, which does not exist")]
    NoSuchSource {
        /// Name of the layer.
        layer: String,
        /// What it reads.
        source_name: String,
    },
    /// Two layers of one name: their parameters could not be told apart.
    #[error("two layers are named '{layer}'; give each its own name")]
    DuplicateName {
        /// The name.
        layer: String,
    },
    /// A graph without nodes.
    #[error("the graph has no layers; add at least the one that gives the logits")]
    Empty,
    /// A layer that neither feeds another one nor is the output.
    #[error("layer '{layer}' feeds nothing; connect it or leave it out")]
    Unused {
        /// Name of the layer.
        layer: String,
    },
    /// The output gives no logit.
    #[error("output layer '{layer}' has no columns; a model gives a logit for each label")]
    Output {
        /// Name of the layer.
        layer: String,
    },
}
