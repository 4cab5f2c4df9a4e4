//! The least bytes that ranks send each other per step.

use stepwell_train::Exchanged;

/// Bytes of a key.
const KEY: u64 = 8;
/// Bytes of a weight, gradient or parameter.
const FLOAT: u64 = 4;

/// The least bytes that all ranks together send in `steps` steps with the exchanges in `ranks`.
///
/// The sum of
/// - for each ordered pair of a requester and an owner, another rank: 8 bytes per distinct key of
///   the requester's part of a mini-batch that the owner has; 4 w bytes for the w weights of its
///   row in the reply; and 4 w S bytes for its gradient, returned once for each of the S maximal
///   subtrees of the requester's blocks;
/// - for each rank: 2 (R - 1) / R P 4 bytes for P dense parameters, gradients and sums, and R
///   ranks. That is a reduce-scatter and an all-gather, the least for a sum that all ranks need.
///
/// S is 1 if each of R ranks has a whole subtree of the blocks, as 2, 4 and 8 ranks have of 8. If
/// it is more, a row that occurs in only some of them needs fewer gradients than are counted here.
///
/// Not counted is what a step also needs, but may be able to send in fewer bytes: scores, labels
/// and losses of all examples, how often rows occur, the lengths of messages. Nor is it the least
/// of all ways to train: keys could be compressed, and requesters could keep rows.
pub(super) fn least_bytes(ranks: &[Exchanged], steps: u64, subtrees: u64) -> u64 {
    let of_rows =
        |rank: &Exchanged| KEY * rank.keys_asked + FLOAT * rank.weights_asked * (1 + subtrees);
    let dense = ranks.first().map_or(0, |rank| rank.dense_parameters);
    // For all ranks: R times 2 (R - 1) / R P 4 bytes.
    let of_dense = 2 * (ranks.len() as u64).saturating_sub(1) * dense * FLOAT;
    ranks.iter().map(of_rows).sum::<u64>() + steps * of_dense
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(keys_asked: u64, weights_asked: u64, dense_parameters: u64) -> Exchanged {
        Exchanged { keys_asked, weights_asked, dense_parameters, ..Exchanged::default() }
    }

    #[test]
    fn rows_go_there_and_back_and_keys_once() {
        // Ten rows of 17 weights: key, weights, gradient.
        assert_eq!(least_bytes(&[rank(10, 170, 0), rank(0, 0, 0)], 1, 1), 10 * (8 + 68 + 68));
        // Two subtrees, two gradients.
        assert_eq!(least_bytes(&[rank(10, 170, 0), rank(0, 0, 0)], 1, 2), 10 * (8 + 68 + 136));
        // Keys are totals over all steps and all ranks.
        let both = [rank(10, 170, 0), rank(3, 51, 0)];
        assert_eq!(least_bytes(&both, 7, 1), 13 * (8 + 68 + 68));
    }

    #[test]
    fn dense_parameters_are_scattered_and_gathered_in_every_step() {
        // Two ranks: each sends the other's half, and its own half once it is summed.
        assert_eq!(least_bytes(&[rank(0, 0, 100); 2], 1, 1), 2 * (50 + 50) * 4);
        // Four ranks: each sends three quarters to the others, and its own quarter to three.
        assert_eq!(least_bytes(&[rank(0, 0, 100); 4], 5, 1), 5 * 4 * (75 + 75) * 4);
        assert_eq!(least_bytes(&[rank(0, 0, 100)], 1, 1), 0, "there are no other ranks");
        assert_eq!(least_bytes(&[], 1, 1), 0);
    }
}
