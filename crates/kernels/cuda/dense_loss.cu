// Losses of labels, in f64, and gradients of logits. Bound by the arithmetic of exp and log, and by
// the latency of sums over a block, which add in example order.

#include "dense.h"
#include "exponential.h"

// Log loss, in nats, of the probability that the logit gives.
#define LOSS_LOG 0u
// Square of the difference of logit and label.
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

// Numbers of an objective: weight of positives, label smoothing, gamma of the focal loss.
#define EMPHASES 3

// The slope of the focal loss of `all` examples, of which `target` are positives.
DEVICE f64 focal_slope(f64 logit, f64 gamma, f64 all, f64 target) {
    const f64 e = exp_of_negative(-fabs(logit));
    const f64 large = 1.0 / (1.0 + e);
    const f64 small = e / (1.0 + e);
    const f64 positive = logit < 0.0 ? small : large;
    const f64 negative = logit < 0.0 ? large : small;
    // Losses of a positive and of a negative.
    const f64 rest = log_of_one_and(e);
    const f64 of_positive = (logit < 0.0 ? -logit : 0.0) + rest;
    const f64 of_negative = (logit < 0.0 ? 0.0 : logit) + rest;
    const f64 up = exp_of_negative(-(gamma * of_negative)) *
                   (gamma * positive * of_positive + negative);
    const f64 down = exp_of_negative(-(gamma * of_positive)) *
                     (gamma * negative * of_negative + positive);
    return (all - target) * down - target * up;
}

// The slope of a label's objective.
DEVICE f64 slope_of(u32 kind, const f64* emphases, f64 logit, f64 label, Outcome outcome) {
    if (kind == LOSS_SQUARED) {
        return outcome.slope;
    }
    const f64 positives = emphases[0] * label;
    const f64 all = positives + (1.0 - label);
    const f64 target = positives * (1.0 - emphases[1]) + all * (0.5 * emphases[1]);
    if (emphases[2] == 0.0) {
        return all * outcome.prediction - target;
    }
    return focal_slope(logit, emphases[2], all, target);
}

// The gradient of each logit for the mean objective over `examples` examples, and for each example,
// all times its weight: the losses of its labels, then its prediction for the first label.
KERNEL_LANES(dense_losses, IN(float) logits, IN(float) targets, IN(float) weights, IN(u32) kinds,
             IN(double) emphases, OUT(float) d_logits, OUT(double) terms, u32 rows, u32 labels,
             u32 has_weights, u32 examples) {
    const u64 total = static_cast<u64>(rows) * labels;
    for (u64 item = first_item(); item < total; item += items_apart()) {
        const Divided place = divide(item, labels);
        const u32 label = place.remainder;
        f64* of_row = terms + place.quotient * (labels + 1);
        const f64 weight = has_weights != 0 ? static_cast<f64>(weights[place.quotient]) : 1.0;
        const f64 logit = static_cast<f64>(logits[item]);
        const f64 target = static_cast<f64>(targets[item]);
        const Outcome outcome = outcome_of(kinds[label], logit, target);
        const f64 slope =
            slope_of(kinds[label], emphases + label * EMPHASES, logit, target, outcome);
        of_row[label] = weight * outcome.loss;
        d_logits[item] = static_cast<f32>(weight * slope / static_cast<f64>(examples));
        if (label == 0) {
            of_row[labels] = weight * static_cast<f64>(static_cast<f32>(outcome.prediction));
        }
    }
}

// Number of terms read before any is added, so that their reads overlap.
#define AHEAD 16
#define WARP 32

// Terms of one sum over a block: `which` is 0 for losses, 1 for predictions, 2 for weights.
struct Terms {
    const f64* terms;
    const f32* weights;
    u32 labels;
    u32 which;
    u32 has_weights;
    // Example and label of the next term.
    u32 example;
    u32 label;

    // Number of terms per example.
    DEVICE_MEMBER u32 each() const { return which == 0 ? labels : 1; }

    DEVICE_MEMBER f64 next() {
        const u64 row = static_cast<u64>(example) * (labels + 1);
        f64 term = 1.0;
        if (which == 0) {
            term = terms[row + label];
        } else if (which == 1) {
            term = terms[row + labels];
        } else if (has_weights != 0) {
            term = static_cast<f64>(weights[example]);
        }
        if (++label >= each()) {
            label = 0;
            ++example;
        }
        return term;
    }
};

// Losses, predictions and weights, summed over each block in example order. // (blocks, 3)
// Threads of a warp compute the same sum for different blocks, so they don't diverge.
KERNEL_LANES(dense_loss_sums, IN(double) terms, IN(float) weights, OUT(double) sums,
             IN(u32) rows_of, u32 blocks, u32 slot_rows, u32 labels, u32 has_weights) {
    const u64 apart = (static_cast<u64>(blocks) + WARP - 1) / WARP * WARP;
    for (u64 item = first_item(); item < apart * 3; item += items_apart()) {
        const u64 block = item % apart;
        const u32 which = static_cast<u32>(item / apart);
        if (block >= blocks) {
            continue;
        }
        const u64 first = block * slot_rows;
        Terms of = {terms + first * (labels + 1), weights + (has_weights != 0 ? first : 0),
                    labels, which, has_weights, 0, 0};
        const u32 count = of.each() * rows_of[block];
        f64 sum = 0.0;
        u32 term = 0;
        for (; term + AHEAD <= count; term += AHEAD) {
            f64 next[AHEAD];
            UNROLL
            for (u32 i = 0; i < AHEAD; ++i) {
                next[i] = of.next();
            }
            UNROLL
            for (u32 i = 0; i < AHEAD; ++i) {
                sum += next[i];
            }
        }
        for (; term < count; ++term) {
            sum += of.next();
        }
        sums[block * 3 + which] = sum;
    }
}
