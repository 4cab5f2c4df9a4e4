//! Copies rows of slices on the host.

use crate::layout::Chosen;

/// Sets row i of `to` to row `places[i]` of `from`.
pub(super) fn gather(from: &[f32], chosen: Chosen<'_>, to: &mut [f32], batched: bool) {
    let row = chosen.row_floats();
    if batched && chosen.index.is_whole {
        to.copy_from_slice(from);
        return;
    }
    for (at, to) in to.chunks_exact_mut(row).enumerate() {
        let place = chosen.index.places[at] as usize;
        to.copy_from_slice(&from[place * row..(place + 1) * row]);
    }
}

/// Sets row `places[i]` of `to` to row i of `from`.
pub(super) fn scatter(from: &[f32], chosen: Chosen<'_>, to: &mut [f32], batched: bool) {
    let row = chosen.row_floats();
    if batched && chosen.index.is_whole {
        to.copy_from_slice(from);
        return;
    }
    for (at, from) in from.chunks_exact(row).enumerate() {
        let place = chosen.index.places[at] as usize;
        to[place * row..(place + 1) * row].copy_from_slice(from);
    }
}
