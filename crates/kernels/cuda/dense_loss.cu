// Losses of labels, in f64, and the gradients of logits. Bound by the arithmetic of exp and log,
// and by the latency of sums over a block in the order of examples.

#include "dense.h"
#include "exponential.h"

// The loss of a label: of the probability whose logit it is, in nats.
#define LOSS_LOG 0u
// The square of what is between logit and label.
#define LOSS_SQUARED 1u

struct Outcome {
    f64 prediction;
    f64 loss;
    f64 slope;
};

DEVICE Outcome outcome_of(u32 kind, f64 logit, f64 label) {
    if (kind == LOSS_SQUARED) {
        const f64 error = logit - label;
        return Outcome{logit, error * error, 2.0 * error};
    }
    const f64 e = exp_of_negative(-fabs(logit));
    const f64 p = logit < 0.0 ? e / (1.0 + e) : 1.0 / (1.0 + e);
    const f64 positive_part = logit < 0.0 ? 0.0 : logit;
    const f64 loss = positive_part - logit * label + log_of_one_and(e);
    return Outcome{p, loss, p - label};
}

// The gradient of each logit, that of the mean over so many `examples`, and of each example the
// losses of its labels and what is predicted of the first, as often as it counts.
KERNEL_LANES(dense_losses, IN(float) logits, IN(float) targets, IN(float) weights, IN(u32) kinds,
             OUT(float) d_logits, OUT(double) terms, u32 rows, u32 labels, u32 has_weights,
             u32 examples) {
    const u64 total = static_cast<u64>(rows) * labels;
    for (u64 item = first_item(); item < total; item += items_apart()) {
        const Divided place = divide(item, labels);
        const u32 label = place.remainder;
        f64* of_row = terms + place.quotient * (labels + 1);
        const f64 weight = has_weights != 0 ? static_cast<f64>(weights[place.quotient]) : 1.0;
        const f64 logit = static_cast<f64>(logits[item]);
        const Outcome outcome = outcome_of(kinds[label], logit, static_cast<f64>(targets[item]));
        of_row[label] = weight * outcome.loss;
        d_logits[item] =
            static_cast<f32>(weight * outcome.slope / static_cast<f64>(examples));
        if (label == 0) {
            of_row[labels] = weight * static_cast<f64>(static_cast<f32>(outcome.prediction));
        }
    }
}

// Losses, predictions and weights, summed over each block in the order of examples. // (blocks, 3)
KERNEL_LANES(dense_loss_sums, IN(double) terms, IN(float) weights, OUT(double) sums,
             IN(u32) rows_of, u32 blocks, u32 slot_rows, u32 labels, u32 has_weights) {
    for (u64 item = first_item(); item < static_cast<u64>(blocks) * 3; item += items_apart()) {
        const Divided place = divide(item, 3);
        const u64 first = place.quotient * slot_rows;
        const u32 rows = rows_of[place.quotient];
        f64 sum = 0.0;
        for (u64 row = first; row < first + rows; ++row) {
            const f64* of_row = terms + row * (labels + 1);
            if (place.remainder == 2) {
                sum += has_weights != 0 ? static_cast<f64>(weights[row]) : 1.0;
            } else if (place.remainder == 1) {
                sum += of_row[labels];
            } else {
                for (u32 label = 0; label < labels; ++label) {
                    sum += of_row[label];
                }
            }
        }
        sums[item] = sum;
    }
}
