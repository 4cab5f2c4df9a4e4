//! Distinct ids have distinct keys, whatever ids look like.
//!
//! Typical ids are numbers, padded or not, words followed by numbers, hexadecimal digests, integers
//! of a database: text in which few bits change. A function that treats such text like random bytes
//! has about n² / 2⁶⁵ pairs with equal keys among n ids: none in any set of this file.
//! `STEPWELL_LONG` uses every id below 10⁵, otherwise below 10⁴.

use stepwell_base::{Key, Namespace, key_of};

/// Number of namespaces of every test.
const NAMESPACES: usize = 64;

fn ids() -> u64 {
    if std::env::var_os("STEPWELL_LONG").is_some() { 100_000 } else { 10_000 }
}

/// Asserts that all ids of all `namespaces` have distinct keys.
fn assert_distinct<T: AsRef<[u8]>>(
    what: &str,
    namespaces: &[Namespace],
    ids: u64,
    id: impl Fn(u64) -> T,
) {
    let mut keys: Vec<Key> = Vec::with_capacity(namespaces.len() * ids as usize);
    for number in 0..ids {
        let id = id(number);
        keys.extend(namespaces.iter().map(|namespace| namespace.key_of(id.as_ref())));
    }
    let all = keys.len();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(all - keys.len(), 0, "{what}: keys that ids share");
}

/// Text of an id, given its number.
type Text = fn(u64) -> String;

fn columns() -> Vec<Namespace> {
    (1..=NAMESPACES).map(Namespace::of_column).collect()
}

#[test]
fn decimal_ids_of_all_columns() {
    // Always every id below 10^5, as this is the most common kind.
    assert_distinct("decimal", &columns(), 100_000, |id| id.to_string());
}

#[test]
fn ids_as_people_write_them() {
    let columns = columns();
    let texts: [(&str, Text); 12] = [
        ("padded to 6", |id| format!("{id:06}")),
        ("padded to 8", |id| format!("{id:08}")),
        ("padded to 12", |id| format!("{id:012}")),
        ("padded to 20", |id| format!("{id:020}")),
        ("7 digits", |id| (1_000_000 + id).to_string()),
        ("13 digits, as times have", |id| (1_700_000_000_000 + id * 1000).to_string()),
        ("hexadecimal", |id| format!("{id:x}")),
        ("hexadecimal of 8 digits", |id| format!("{id:08x}")),
        ("hexadecimal of 16 digits", |id| format!("{id:016x}")),
        ("behind a word", |id| format!("user_{id}")),
        ("behind a long word", |id| format!("https://shop.example.com/en/catalogue/item/{id}")),
        ("between words", |id| format!("item-{id:05}-blue")),
    ];
    for (what, text) in texts {
        assert_distinct(what, &columns, ids(), text);
    }
}

#[test]
fn integers_as_machines_write_them() {
    let columns = columns();
    assert_distinct("u32", &columns, ids(), |id| (id as u32).to_le_bytes());
    assert_distinct("u64", &columns, ids(), u64::to_le_bytes);
    assert_distinct("u64, big end first", &columns, ids(), u64::to_be_bytes);
    assert_distinct("multiples of 2^32", &columns, ids(), |id| (id << 32).to_le_bytes());
    assert_distinct("u128", &columns, ids(), |id| (u128::from(id) << 60).to_le_bytes());
}

#[test]
fn ids_of_every_length() {
    for length in 1..=20usize {
        let ids = ids().min(1 << (8 * length.min(6)));
        let first = |id: u64| {
            let mut bytes = vec![b'a'; length];
            let low = id.to_le_bytes();
            let count = length.min(8);
            bytes[..count].copy_from_slice(&low[..count]);
            bytes
        };
        let last = |id: u64| {
            let mut bytes = first(id);
            bytes.reverse();
            bytes
        };
        assert_distinct(&format!("{length} bytes, first ones"), &columns(), ids, first);
        assert_distinct(&format!("{length} bytes, last ones"), &columns(), ids, last);
    }
}

#[test]
fn namespaces_with_names() {
    let words = ["user", "item", "category", "ad", "device", "user_history_item_id", "u", "i"];
    let named = |n: usize| format!("{}{}", words[n % words.len()], n / words.len());
    let spaces: Vec<Namespace> =
        (0..NAMESPACES).map(|n| Namespace::new(&named(n)).unwrap()).collect();
    assert_distinct("decimal, named", &spaces, ids(), |id| id.to_string());
    assert_distinct("hexadecimal, named", &spaces, ids(), |id| format!("{id:08x}"));
    // Names of all lengths, so that name and id together cross every length limit within XXH3.
    let long: Vec<Namespace> =
        (1..=NAMESPACES * 4 - 1).map(|n| Namespace::new(&"n".repeat(n)).unwrap()).collect();
    assert_distinct("names of every length", &long, ids() / 4, |id| id.to_string());
}

#[test]
fn the_sets_that_had_shared_keys() {
    // With XXH3's seed instead of a namespace, these 23,400 ids had 3,960 keys.
    let columns: Vec<Namespace> = (1..=26).map(Namespace::of_column).collect();
    assert_distinct("100 to 999", &columns, 900, |id| (100 + id).to_string());
    for first in [1_000_000, 10_000_000] {
        assert_distinct("20,000 a column", &columns, 20_000, |id| (first + id).to_string());
    }
    assert_ne!(key_of("C1", b"100"), key_of("C2", b"107"));
}

#[test]
fn a_seed_in_place_of_the_namespace_is_found() {
    let seeded =
        |column: u64, id: String| twox_hash::XxHash3_64::oneshot_with_seed(column, id.as_bytes());
    let all = (0..26).flat_map(|column| (100..1000).map(move |id| (column, id.to_string())));
    let keys: std::collections::BTreeSet<u64> = all.map(|(c, id)| seeded(c, id)).collect();
    assert_eq!(keys.len(), 3_960);
}

/// Random ids share bits of keys as often as expected by chance.
///
/// Among n random keys, n² / 2^(b + 1) pairs are expected to agree in b given bits. The test looks
/// at so few bits that dozens of pairs should agree. The number of pairs is Poisson distributed,
/// and is more than six standard deviations off with a probability below 10⁻⁸.
#[test]
fn random_ids_keep_the_birthday_bound() {
    let (count, bits) = match std::env::var_os("STEPWELL_LONG") {
        Some(_) => (100_000_000u64, 46),
        None => (2_000_000, 35),
    };
    let columns = columns();
    let mut keys: Vec<u64> = Vec::with_capacity(count as usize);
    let mut stream = stepwell_base::random::Stream::from_state(14);
    for number in 0..count as usize {
        let id = stream.next_u64().to_le_bytes();
        keys.push(columns[number % NAMESPACES].key_of(&id).0);
    }
    keys.sort_unstable();
    assert!(keys.windows(2).all(|pair| pair[0] != pair[1]), "{count} ids share a key");
    let expected = (count as f64).powi(2) / 2f64.powi(bits + 1);
    for turn in [0, 23] {
        let mut parts: Vec<u64> =
            keys.iter().map(|key| key.rotate_left(turn) >> (64 - bits)).collect();
        parts.sort_unstable();
        let agree = pairs_of_equals(&parts) as f64;
        let deviations = (agree - expected) / expected.sqrt();
        assert!(deviations.abs() < 6.0, "{agree} pairs for {expected}, bits turned by {turn}");
    }
}

fn pairs_of_equals(sorted: &[u64]) -> u64 {
    sorted.chunk_by(|a, b| a == b).map(|equal| equal.len() as u64).map(|n| n * (n - 1) / 2).sum()
}
