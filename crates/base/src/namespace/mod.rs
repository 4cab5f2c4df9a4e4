//! Namespaces of ids, and the published function from ids to keys.
//!
//! - **Why.** Ids of different vocabularies share a table. User 107 and item 107 are two rows,
//!   independent of the order of columns and the number of tables.
//! - **How.** The key of an id is XXH3-64, seed 0, of one byte string:
//!
//! ```text
//!   [ the namespace's name ][ NUL ][ the id's bytes ]         C1\0 107
//! ```
//!
//! A name contains no NUL, so two strings are equal only if name and id are. A name belongs to a
//! vocabulary: by default it is the feature's, like `C1` to `C26` in Criteo's layout, never the
//! position of a column, so that no key changes when columns move or share a table.
//!
//! - **Cost.** 3.5 ns for an id of up to 16 bytes including its namespace, 12 for one of 32.

mod short;

use crate::hash::{Checksum, checksum};
use crate::ids::Key;

/// Name of the key function as written into checkpoints and packed files.
pub const KEY_HASH_NAME: &str = "xxh3-64(namespace, NUL, value bytes)";

/// Bytes of name and NUL that a [`Namespace`] keeps ready.
const HEAD: usize = 32;
/// Maximum bytes of an id that is hashed in one piece with the head.
const SHORT: usize = 32;
/// Maximum bytes of a name.
const NAME_MAX: usize = 255;

/// Key of `value` in `namespace`: XXH3-64 of the name, NUL and the value's bytes.
///
/// Two of n distinct ids share a key with probability about n² / 2⁶⁵, for ids of any form; this
/// crate's tests check numbers, texts and prefixes of all kinds.
pub fn key_of(namespace: &str, value: &[u8]) -> Key {
    let mut hash = Checksum::new();
    hash.update(namespace.as_bytes());
    hash.update(&[0]);
    hash.update(value);
    Key(hash.value())
}

/// Error for a text that is not a valid name of a namespace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} cannot name a namespace: a name has 1 to {NAME_MAX} bytes and no NUL")]
pub struct NamespaceError {
    name: String,
}

/// A vocabulary of ids, prepared for making keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    name: Box<str>,
    /// The first bytes to hash, padded with zeros.
    head: [u8; HEAD],
    /// Key of the empty id, which means a missing id.
    empty: Key,
}

impl Namespace {
    /// The namespace with this name.
    ///
    /// # Errors
    /// If the name is empty, contains a NUL, or has more than 255 bytes.
    pub fn new(name: &str) -> Result<Self, NamespaceError> {
        if name.is_empty() || name.len() > NAME_MAX || name.contains('\0') {
            return Err(NamespaceError { name: name.to_owned() });
        }
        Ok(Self::checked(name))
    }

    /// The namespace of id column number `column`, from 1, of data whose columns have no names:
    /// `C1`, `C2` and so on, as in Criteo's.
    pub fn of_column(column: usize) -> Self {
        Self::checked(&format!("C{column}"))
    }

    fn checked(name: &str) -> Self {
        let mut head = [0; HEAD];
        let ready = name.len().min(HEAD);
        head[..ready].copy_from_slice(&name.as_bytes()[..ready]);
        Self { name: name.into(), head, empty: key_of(name, b"") }
    }

    /// Name of the namespace.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Same as [`key_of`].
    #[inline]
    pub fn key_of(&self, value: &[u8]) -> Key {
        let before = self.name.len() + 1;
        if before > HEAD || value.len() > SHORT {
            return key_of(&self.name, value);
        }
        let mut bytes = [0; HEAD + SHORT];
        bytes[..HEAD].copy_from_slice(&self.head);
        put_short(&mut bytes[before..before + value.len()], value);
        Key(checksum(&bytes[..before + value.len()]))
    }

    /// Same as [`key_of`] of `bytes[at..end]`; faster if more bytes follow.
    #[inline]
    pub fn key_within(&self, bytes: &[u8], at: usize, end: usize) -> Key {
        if end == at {
            return self.empty;
        }
        let before = self.name.len() + 1;
        if let Some(hash) = short::xxh3_64(&self.head, before, bytes, at, end) {
            return Key(hash);
        }
        match bytes.get(at..).and_then(|rest| rest.first_chunk::<SHORT>()) {
            // A copy of fixed length is a move or two; one of the id's length is a call.
            Some(next) if before <= HEAD && end - at <= SHORT => {
                let mut joined = [0; HEAD + SHORT];
                joined[..HEAD].copy_from_slice(&self.head);
                joined[before..before + SHORT].copy_from_slice(next);
                Key(checksum(&joined[..before + end - at]))
            }
            _ => self.key_of(&bytes[at..end]),
        }
    }
}

/// Copies a few bytes as two overlapping fixed-length pieces, which avoids a call to `memcpy`.
#[inline]
fn put_short(to: &mut [u8], from: &[u8]) {
    #[inline]
    fn both_ends<const N: usize>(to: &mut [u8], from: &[u8]) -> Option<()> {
        let (first, last) = (*from.first_chunk::<N>()?, *from.last_chunk::<N>()?);
        *to.first_chunk_mut()? = first;
        *to.last_chunk_mut()? = last;
        Some(())
    }
    let put = match from.len() {
        4..8 => both_ends::<4>(to, from),
        8..=16 => both_ends::<8>(to, from),
        17..=32 => both_ends::<16>(to, from),
        _ => None,
    };
    if put.is_none() {
        to.copy_from_slice(from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_vectors_hold() {
        let a = "a".repeat(300);
        // Made with the reference library, as `xxhash.xxh3_64_intdigest(b"C1\0" b"107")` in Python.
        let vectors = [
            ("C1", "", 0xDDD2_C846_31A9_6202),
            ("C1", "107", 0x7006_0CE8_25A6_D545),
            ("C2", "100", 0x53D8_46F2_AC71_ECA6),
            ("C26", "77dabff5e9", 0x32E7_E6EF_366D_8836),
            ("C9", "0123456789abcdef", 0x35EE_93B1_F9CC_AC2A),
            ("user", "107", 0x5F8C_5C79_E94A_49A5),
            ("item", "107", 0xAA08_175F_62B3_EF27),
            ("C1", &a[..32], 0x2B03_F4B0_926D_6DB4),
            ("C1", &a[..33], 0x1750_666E_03A4_F258),
            ("C3", &a[..240], 0xBC50_B43E_E41D_53B5),
            ("C3", &a[..300], 0x9DB7_C5A0_7595_A632),
        ];
        for (namespace, value, key) in vectors {
            assert_eq!(key_of(namespace, value.as_bytes()), Key(key), "{namespace} {value}");
        }
    }

    #[test]
    fn every_way_gives_the_published_key() {
        let text: Vec<u8> = (0..300u32).map(|n| (n * 37 % 251) as u8).collect();
        for name in ["C1", "C26", "u", &"n".repeat(31), &"n".repeat(32), &"name".repeat(40)] {
            let namespace = Namespace::new(name).unwrap();
            assert_eq!(namespace.name(), name);
            for (at, end) in (0..300).step_by(7).flat_map(|at| (at..300).map(move |e| (at, e))) {
                let wanted = key_of(name, &text[at..end]);
                assert_eq!(namespace.key_of(&text[at..end]), wanted, "{name} {at} {end}");
                assert_eq!(namespace.key_within(&text, at, end), wanted, "{name} {at} {end}");
            }
        }
        assert_eq!(Namespace::of_column(26), Namespace::new("C26").unwrap());
    }

    #[test]
    fn names_keep_apart_what_they_name() {
        assert_ne!(key_of("C1", b"100"), key_of("C2", b"107"));
        assert_ne!(key_of("C1", b""), key_of("C2", b""));
        assert_ne!(key_of("C1", b"0"), key_of("C10", b""));
        for bad in ["", "a\0b", &"x".repeat(256)] {
            let error = Namespace::new(bad).unwrap_err().to_string();
            assert!(error.contains("1 to 255 bytes"), "{error}");
        }
    }
}
