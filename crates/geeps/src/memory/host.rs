//! Rows of slices of the host.

use super::Chosen;

/// Row i of `to` becomes row `places[i]` of `from`.
pub(super) fn gather(from: &[f32], chosen: Chosen<'_>, to: &mut [f32], batched: bool) {
    let row = chosen.row_floats();
    if batched && chosen.index.is_whole {
        to.copy_from_slice(from);
        return;
    }
    for (at, to) in to.chunks_exact_mut(row).enumerate() {
        let place = place(chosen, at, batched);
        to.copy_from_slice(&from[place * row..(place + 1) * row]);
    }
}

/// Row `places[i]` of `to` becomes row i of `from`.
pub(super) fn scatter(from: &[f32], chosen: Chosen<'_>, to: &mut [f32], batched: bool) {
    let row = chosen.row_floats();
    if batched && chosen.index.is_whole {
        to.copy_from_slice(from);
        return;
    }
    for (at, from) in from.chunks_exact(row).enumerate() {
        let place = place(chosen, at, batched);
        to[place * row..(place + 1) * row].copy_from_slice(from);
    }
}

/// Where key number `at` is: by the index, or looked up.
pub(super) fn place(Chosen { index, rows }: Chosen<'_>, at: usize, batched: bool) -> usize {
    let looked_up = || rows.place(index.keys[at]).map_or(index.places[at], |place| place);
    (if batched { index.places[at] } else { looked_up() }) as usize
}
