//! Errors in the description of a graph.

/// An invalid description of a graph.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// A layer can't read its inputs.
    #[error("layer '{layer}': {problem}")]
    Shape {
        /// Name of the layer.
        layer: String,
        /// What is wrong, with a fix.
        problem: String,
    },
    /// A layer reads a source that doesn't exist.
    #[error("layer '{layer}' reads {source_name}, which does not exist")]
    NoSuchSource {
        /// Name of the layer.
        layer: String,
        /// Description of the source.
        source_name: String,
    },
    /// Two layers have the same name, so their parameters couldn't be distinguished.
    #[error("two layers are named '{layer}'; give each its own name")]
    DuplicateName {
        /// The name.
        layer: String,
    },
    /// The graph has no nodes.
    #[error("the graph has no layers; add at least the one that gives the logits")]
    Empty,
    /// A layer neither feeds another one nor is the output.
    #[error("layer '{layer}' feeds nothing; connect it or remove it")]
    Unused {
        /// Name of the layer.
        layer: String,
    },
    /// The output has no logits.
    #[error("output layer '{layer}' has no columns; a model gives a logit for each label")]
    Output {
        /// Name of the layer.
        layer: String,
    },
}
