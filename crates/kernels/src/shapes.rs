//! Numbers that several kernels, launched one after another, must agree on.

/// Number of words that a block of `scan_tiles` sums.
pub const SCAN_TILE: u32 = 2048;
/// Number of keys of a block of `sort_count` and `sort_place`.
pub const SORT_TILE: u32 = 2048;
/// Number of digits of a pass of the sort, and of words of its counts for each tile.
pub const SORT_DIGITS: u32 = 256;
/// Number of bags of a row above which a block of threads updates it, in `rows_update_frequent`.
pub const FREQUENT_BAGS: u32 = 32;
/// Places of a hash table beyond its capacity, for the two keys that equal its marks.
pub const TABLE_OWN_PLACES: u32 = 2;
/// Maximum number of devices among which keys are divided.
pub const DEVICES_MAX: u32 = SORT_DIGITS;

/// Description of [`device_of`].
pub const DEVICE_OF_NAME: &str = "highest 32 bits of the finalizer of xxh64, scaled";

/// The device, among `devices`, of a key; computed on devices by `partition_devices`.
///
/// The finalizer of XXH64 shares neither rounds nor constants with the hashes by which ranks and
/// stores divide keys and tables scatter them.
///
/// # Panics
/// If there is no device, or more than [`DEVICES_MAX`].
pub fn device_of(key: u64, devices: u32) -> u32 {
    assert!((1..=DEVICES_MAX).contains(&devices), "{devices} devices");
    let z = (key ^ (key >> 33)).wrapping_mul(0xC2B2_AE3D_27D4_EB4F);
    let z = (z ^ (z >> 29)).wrapping_mul(0x1656_67B1_9E37_79F9);
    let hash = z ^ (z >> 32);
    (((hash >> 32) * u64::from(devices)) >> 32) as u32
}
