//! Rust and C++ have the same descriptors.

use std::mem::offset_of;

use super::*;

#[expect(unsafe_code, reason = "sizes and offsets that the C++ compiler has")]
unsafe extern "C" {
    safe static stepwell_pool_table: [u32; 13];
    safe static stepwell_update_table: [u32; 32];
}

#[test]
fn rust_and_cpp_agree_on_the_bytes_of_descriptors() {
    macro_rules! offsets {
        ($of:ty, $($field:ident)*) => {
            [size_of::<$of>() as u32, $(offset_of!($of, $field) as u32),*]
        };
    }
    let pool = offsets!(PoolTable, slab row_lanes slots occurrence_rows ends factors fields dim
        wide storage padding);
    assert_eq!(pool, stepwell_pool_table[..pool.len()]);
    let update = offsets!(UpdateTable, slab sums lr beta1 beta2 rate eps first_item rows row_lanes
        slots bag_ends bags bag_factors fields columns dim wide storage rule rounding skip
        block_ends blocks first_block frequent frequent_rows l1 l2 keep regularized);
    assert_eq!(update, stepwell_update_table[..update.len()]);
    assert_eq!((pool[0], update[0]), (48, 144));
}
