//! Random orders of rows.

use stepwell_base::random::Stream;

/// Numbers 0 to `count`, in a fixed random order.
pub(super) fn order(count: usize, seed: u64) -> Vec<u32> {
    let (mut order, mut random) =
        ((0..count as u32).collect::<Vec<u32>>(), Stream::from_state(seed));
    for at in (1..count).rev() {
        order.swap(at, (random.next_u64() % (at as u64 + 1)) as usize);
    }
    order
}
