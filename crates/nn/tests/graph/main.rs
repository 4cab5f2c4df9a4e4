//! Whole graphs: their gradients, their bits, their descriptions.

mod attention_is_that_of_the_definition;
mod bf16_is_near_f32;
mod bits_depend_on_the_block_alone;
mod common;
mod gradients_equal_finite_differences;
mod graphs_are_described_and_checked;
mod initial_values_are_published;
mod interactions;
mod interactions_equal_plain_loops;
mod interactions_refuse_what_does_not_fit;
mod layers_equal_plain_loops;
mod layers_refuse_what_does_not_fit;
mod networks;
mod packed_weights_give_the_same_bits;
mod pairs_equal_plain_loops;
mod passes_have_a_purpose;
mod watches_are_told_of_every_node;
