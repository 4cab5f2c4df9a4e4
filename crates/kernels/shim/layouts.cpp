// Sizes and offsets of the descriptors in C++, which a test compares with Rust's.

#include <stddef.h>

#include "tables.h"

#define AT(field) static_cast<u32>(offsetof(OF, field))

extern "C" {

#define OF PoolTable
extern const u32 stepwell_pool_table[13];
const u32 stepwell_pool_table[13] = {
    sizeof(OF), AT(slab),   AT(row_lanes), AT(slots), AT(occurrence_rows), AT(ends),
    AT(factors), AT(fields), AT(dim),       AT(wide),  AT(storage),         AT(padding),
};
#undef OF

#define OF UpdateTable
extern const u32 stepwell_update_table[32];
const u32 stepwell_update_table[32] = {
    sizeof(OF),  AT(slab),        AT(sums),   AT(lr),       AT(beta1),      AT(beta2),
    AT(rate),    AT(eps),         AT(first_item), AT(rows), AT(row_lanes),  AT(slots),
    AT(bag_ends), AT(bags),       AT(bag_factors), AT(fields), AT(columns), AT(dim),
    AT(wide),    AT(storage),     AT(rule),   AT(rounding), AT(skip),       AT(block_ends),
    AT(blocks),  AT(first_block), AT(frequent), AT(frequent_rows), AT(l1),     AT(l2),
    AT(keep),    AT(regularized),
};
#undef OF

}
