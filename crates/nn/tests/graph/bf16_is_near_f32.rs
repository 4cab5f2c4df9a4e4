//! A graph with products in bf16 gives the results of f32, up to the rounding of operands.
//!
//! A bf16 has 8 significant bits, so rounding an operand changes it by at most 2^-9 of its value,
//! and a product of two by at most 2^-8. The towers of these graphs are three products deep, and a
//! gradient passes through three more in the backward pass. Without other effects, norms thus
//! differ by at most six times 2^-8. Sixty seeds gave half of that (2.7 times 2^-8 in 99 of 100
//! examples).
//!
//! The other effect is a rectifier with a sum near zero: rounding may change its sign, and with it
//! the whole gradient of its example. So gradients are compared by example, and their sum only over
//! examples whose rectifiers kept their signs.

use crate::common::{Step, all};
use crate::networks::networks;
use stepwell_nn::{Graph, Precision, Workspace};

/// Examples per step.
const ROWS: usize = 37;
/// Seeds of the parameters.
const SEEDS: std::ops::Range<u64> = 1..13;
/// Relative distance of norms, from the bound above.
const NEAR: f64 = 6.0 / 256.0;
/// Share of the examples, in all steps of a graph, whose rectifiers keep their signs.
const STAY: f64 = 0.95;

/// Both passes of a step on these examples of the common ones.
fn run(graph: &Graph<f32>, seed: u64, rows: &[usize]) -> Step<f32> {
    let parameters = graph.initial_parameters(seed);
    let (whole, mut step) = (Step::new(graph, ROWS), Step::new(graph, rows.len()));
    let lanes = |row: &usize| &whole.x[row * whole.stride..(row + 1) * whole.stride];
    step.x = rows.iter().flat_map(lanes).copied().collect();
    step.first_order = rows.iter().map(|row| whole.first_order[*row]).collect();
    let each = graph.outputs();
    let labels = |row: &usize| &whole.labels[row * each..(row + 1) * each];
    step.labels = rows.iter().flat_map(labels).copied().collect();
    let mut workspace = Workspace::new(graph, rows.len());
    step.forward(graph, &parameters, &mut workspace);
    step.backward(graph, &parameters, &mut workspace);
    step
}

#[test]
fn results_are_near_and_not_the_same() {
    let every: Vec<usize> = (0..ROWS).collect();
    for ((name, graph), (_, other)) in all::<f32>().into_iter().zip(all::<f32>()) {
        let other = other.with_precision(Precision::Bf16);
        let (mut stay, mut rounded) = (0, false);
        for seed in SEEDS {
            let both = |rows: &[usize]| [run(&graph, seed, rows), run(&other, seed, rows)];
            let [full, half] = both(&every);
            // A rectifier that changes its sign has an output near zero either way.
            check(&format!("{name} {seed} logits"), &full.logits, &half.logits);
            let mut near = every.clone();
            near.retain(|row| {
                let [full, half] = both(&[*row]);
                is_near(&full.gradients, &half.gradients) && is_near(&full.d_x, &half.d_x)
            });
            stay += near.len();
            let [full, half] = both(&near);
            check(&format!("{name} {seed} gradients"), &full.gradients, &half.gradients);
            check(&format!("{name} {seed} d_x"), &full.d_x, &half.d_x);
            rounded |= off(&full.gradients, &half.gradients) > 0.0;
        }
        let all = ROWS * SEEDS.count();
        assert!(stay as f64 >= STAY * all as f64, "{name}: {stay} of {all} examples are near");
        let has_rectifiers =
            !["lr", "crossed", "interacting", "factorized", "wide_only"].contains(&name);
        assert!(has_rectifiers || stay == all, "{name}: {stay} of {all} examples are near");
        assert!(name == "wide_only" || rounded, "{name}: nothing was rounded");
    }
}

fn check(what: &str, full: &[f32], half: &[f32]) {
    let (far, size) = (off(full, half), norm(full));
    assert!(is_near(full, half), "{what}: off by {far} of {size}");
}

fn is_near(full: &[f32], half: &[f32]) -> bool {
    off(full, half) <= NEAR * norm(full)
}

fn norm(lanes: &[f32]) -> f64 {
    lanes.iter().map(|lane| f64::from(*lane).powi(2)).sum::<f64>().sqrt()
}

fn off(full: &[f32], half: &[f32]) -> f64 {
    norm(&full.iter().zip(half).map(|(f, h)| f - h).collect::<Vec<f32>>())
}

/// Convolutions, sequences and features add more products, and rectifiers, maxima and lengths may
/// change, so they are compared more loosely.
#[test]
fn networks_are_near_and_not_the_same() {
    let every: Vec<usize> = (0..ROWS).collect();
    for ((name, graph), (_, other)) in networks::<f32>().into_iter().zip(networks::<f32>()) {
        let other = other.with_precision(Precision::Bf16);
        let [full, half] = [run(&graph, 2, &every), run(&other, 2, &every)];
        let (far, size) = (off(&full.logits, &half.logits), norm(&full.logits));
        assert!(far > 0.0 && far <= 2.0 * NEAR * size, "{name}: off by {far} of {size}");
        let (far, size) = (off(&full.gradients, &half.gradients), norm(&full.gradients));
        assert!(far > 0.0 && far <= 0.15 * size, "{name}: gradients off by {far} of {size}");
    }
}

#[test]
fn only_products_are_rounded() {
    let graph = crate::common::wide_only::<f32>();
    let every: Vec<usize> = (0..ROWS).collect();
    let full = run(&graph, 5, &every);
    assert_eq!(full, run(&graph.with_precision(Precision::Bf16), 5, &every));
}
