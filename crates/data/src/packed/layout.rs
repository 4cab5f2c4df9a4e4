//! Fixed parts of a packed file: header, table entry, tail. `PACKED.md` specifies them.

use stepwell_base::{KEY_HASH_NAME, hash};

use crate::block::Seal;
use crate::schema::{Labels, Schema};

/// Bytes at the start of a file that distinguish it from text.
pub(crate) const HEAD_BYTES: usize = MAGIC.len();

const MAGIC: [u8; 8] = *b"STEPWPAK";
const END_MAGIC: [u8; 8] = *b"STEPWEND";

/// Bytes of [`MAGIC`] that must match even if the start is damaged.
const MAGIC_LIKE: usize = 6;

/// Version of a file with plain examples only.
const FORMAT_VERSION: u32 = 1;
/// Version of a file that also records its origin.
const ORIGIN_VERSION: u32 = 2;
/// Version of a file with configured columns, and optionally its origin.
const RULES_VERSION: u32 = 3;
/// Version of a file with several labels, labels outside 0 to 1, or weights.
const LABELS_VERSION: u32 = 4;
/// Version of a file with labels between 0 and 1; otherwise like the previous versions.
const SHARES_VERSION: u32 = 5;
/// Version of a file with values other than 1; otherwise like the previous versions.
const VALUES_VERSION: u32 = 6;

/// Name of the transform of dense features; if its results change, so must the name.
const DENSE_NAME: &str = "ln(1 + max(x, 0)), libm log1pf";

pub(super) const HEADER_BYTES: usize = 160;
pub(crate) const ENTRY_BYTES: usize = 32;
pub(super) const TAIL_BYTES: usize = 64;
/// Bytes before the columns of a block: flags and number of keys.
pub(super) const BLOCK_HEAD_BYTES: usize = 8;

/// Flag: every bag of the block has exactly one key, and bag ends are omitted.
pub(super) const ONE_KEY_A_BAG: u32 = 1;
/// Flag: the block has true click probabilities.
pub(super) const TRUTH: u32 = 2;
/// Flag: a label of the block is between 0 and 1, so all of its labels are `f32`.
pub(super) const SHARES: u32 = 4;
/// Flag: the keys of the block have values.
pub(super) const VALUES: u32 = 8;

pub(crate) const NAME_BYTES: usize = 64;
const LABELS_AT: usize = 20;
const KEYS_AT: usize = 24;
const DENSE_AT: usize = KEYS_AT + NAME_BYTES;
const HEADER_SUM_AT: usize = DENSE_AT + NAME_BYTES;
const TAIL_SUM_AT: usize = 48;
const END_MAGIC_AT: usize = 56;

/// Whether a file that starts with `head` is packed, possibly with a damaged start.
pub(crate) fn is_packed(head: &[u8]) -> bool {
    let alike = head.iter().zip(&MAGIC).filter(|(found, wanted)| found == wanted).count();
    !head.is_empty() && alike >= head.len().min(MAGIC_LIKE)
}

/// Why a part of a file is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The bytes differ from those written.
    Damaged(String),
    /// The file is valid, but this reader can't use it.
    Unfit(String),
}

pub(super) fn damaged(why: impl Into<String>) -> Fault {
    Fault::Damaged(why.into())
}

/// Optional contents of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Holds {
    /// The origin: files from which the packed file was made.
    pub(super) origin: bool,
    /// Labels between 0 and 1.
    pub(super) shares: bool,
    /// Ids with values other than 1.
    pub(super) values: bool,
}

/// Header of a file. `rules` name how its examples were made; `None` for plain lines.
pub(super) fn header(schema: &Schema, rules: Option<&str>, holds: Holds) -> [u8; HEADER_BYTES] {
    let version = match (rules, holds.origin) {
        _ if holds.values => VALUES_VERSION,
        _ if holds.shares => SHARES_VERSION,
        _ if schema.labels != Labels::ONE => LABELS_VERSION,
        (Some(_), _) => RULES_VERSION,
        (None, true) => ORIGIN_VERSION,
        (None, false) => FORMAT_VERSION,
    };
    let mut bytes = [0; HEADER_BYTES];
    put(&mut bytes, 0, &MAGIC);
    put(&mut bytes, 8, &version.to_le_bytes());
    // Schemas have fewer than 2^16 columns.
    put(&mut bytes, 12, &(schema.dense as u32).to_le_bytes());
    put(&mut bytes, 16, &(schema.id_columns as u32).to_le_bytes());
    put(&mut bytes, LABELS_AT, &labels_word(schema.labels).to_le_bytes());
    put(&mut bytes, KEYS_AT, KEY_HASH_NAME.as_bytes());
    put(&mut bytes, DENSE_AT, rules.unwrap_or(DENSE_NAME).as_bytes());
    let sum = hash::checksum(&bytes[..HEADER_SUM_AT]);
    put(&mut bytes, HEADER_SUM_AT, &sum.to_le_bytes());
    bytes
}

/// Contents of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) schema: Schema,
    /// Name of the rules that made the examples; `None` for plain lines.
    pub(crate) rules: Option<String>,
}

/// Validates and decodes a header.
pub(super) fn check_header(bytes: &[u8; HEADER_BYTES]) -> Result<Head, Fault> {
    if bytes[..8] != MAGIC {
        return Err(damaged("the first 8 bytes are not those of a packed file"));
    }
    // Other versions may have another layout, so nothing else is checked.
    let version = u32_at(bytes, 8);
    if !(FORMAT_VERSION..=VALUES_VERSION).contains(&version) {
        return Err(Fault::Unfit(format!(
            "is packed in format version {version}, but this build reads {FORMAT_VERSION} to \
             {VALUES_VERSION}; make it again with this build's `stepwell convert`"
        )));
    }
    let (found, wanted) = (hash::checksum(&bytes[..HEADER_SUM_AT]), u64_at(bytes, HEADER_SUM_AT));
    if found != wanted {
        return Err(damaged(sums_differ(found, wanted)));
    }
    check_name(bytes, KEYS_AT, "keys", KEY_HASH_NAME)?;
    let rules = match version {
        // These versions may have plain lines.
        SHARES_VERSION | VALUES_VERSION if name_at(bytes, DENSE_AT) == DENSE_NAME.as_bytes() => {
            None
        }
        RULES_VERSION | LABELS_VERSION | SHARES_VERSION | VALUES_VERSION => {
            Some(name_at(bytes, DENSE_AT).escape_ascii().to_string())
        }
        _ => check_name(bytes, DENSE_AT, "dense features", DENSE_NAME).map(|()| None)?,
    };
    let schema = Schema {
        dense: u32_at(bytes, 12) as usize,
        id_columns: u32_at(bytes, 16) as usize,
        labels: labels_of_word(u32_at(bytes, LABELS_AT)),
    };
    schema.check().map_err(|error| damaged(error.to_string()))?;
    Ok(Head { schema, rules })
}

/// Flag: every example has a weight.
const WEIGHTED: u32 = 1 << 31;
/// Flag: labels may be outside 0 to 1.
const NUMBERS: u32 = 1 << 30;

/// Encodes labels in a header's word: their number, or 0 for a single label from 0 to 1, and flags.
fn labels_word(labels: Labels) -> u32 {
    // There are at most 256.
    let count = if labels.may_be_bits() { 0 } else { labels.count as u32 };
    let flag = |is_set, flag| if is_set { flag } else { 0 };
    count | flag(labels.are_numbers, NUMBERS) | flag(labels.weighted, WEIGHTED)
}

fn labels_of_word(word: u32) -> Labels {
    let count = (word & !(WEIGHTED | NUMBERS)).max(1) as usize;
    Labels { count, are_numbers: word & NUMBERS != 0, weighted: word & WEIGHTED != 0 }
}

/// The zero-padded name at `at`.
fn name_at(header: &[u8], at: usize) -> &[u8] {
    header[at..at + NAME_BYTES].split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Returns an error if columns weren't made as this build makes them.
fn check_name(header: &[u8], at: usize, what: &str, known: &str) -> Result<(), Fault> {
    let name = name_at(header, at);
    if name == known.as_bytes() {
        return Ok(());
    }
    Err(Fault::Unfit(format!(
        "its {what} were made by '{}', but this build makes them by '{known}'; make it again with \
         this build's `stepwell convert`",
        name.escape_ascii()
    )))
}

impl Seal {
    pub(super) fn encode(&self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        put(&mut bytes, 0, &self.offset.to_le_bytes());
        put(&mut bytes, 8, &self.first.to_le_bytes());
        put(&mut bytes, 16, &self.examples.to_le_bytes());
        put(&mut bytes, 20, &self.bytes.to_le_bytes());
        put(&mut bytes, 24, &self.checksum.to_le_bytes());
        bytes
    }

    /// Decodes entry `number` of a table.
    pub(super) fn decode(bytes: &[u8; ENTRY_BYTES], number: u64, tail: &Tail) -> Self {
        Self {
            number,
            offset: u64_at(bytes, 0),
            first: u64_at(bytes, 8),
            examples: u32_at(bytes, 16),
            bytes: u32_at(bytes, 20),
            checksum: u64_at(bytes, 24),
            example_keys_max: tail.example_keys_max,
            values: tail.values,
        }
    }
}

/// Tail of a packed file: totals that are known without reading a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tail {
    /// Examples in the file.
    pub(crate) examples: u64,
    pub(super) blocks: u64,
    pub(super) table_offset: u64,
    pub(super) table_sum: u64,
    /// Length of the largest block.
    pub(super) block_bytes_max: u32,
    /// Most keys of an example.
    pub(super) example_keys_max: u32,
    /// Whether any block has true click probabilities.
    pub(super) truth: bool,
    /// Length of the origin; 0 if the file has none.
    pub(super) origin_bytes: u32,
    /// Whether keys may have values, according to the version.
    pub(super) values: bool,
}

impl Tail {
    pub(super) fn encode(&self, header: &[u8; HEADER_BYTES]) -> [u8; TAIL_BYTES] {
        let mut bytes = [0; TAIL_BYTES];
        put(&mut bytes, 0, &self.examples.to_le_bytes());
        put(&mut bytes, 8, &self.blocks.to_le_bytes());
        put(&mut bytes, 16, &self.table_offset.to_le_bytes());
        put(&mut bytes, 24, &self.table_sum.to_le_bytes());
        put(&mut bytes, 32, &self.block_bytes_max.to_le_bytes());
        put(&mut bytes, 36, &self.example_keys_max.to_le_bytes());
        put(&mut bytes, 40, &u32::from(self.truth).to_le_bytes());
        put(&mut bytes, 44, &self.origin_bytes.to_le_bytes());
        let sum = tail_sum(header, &bytes);
        put(&mut bytes, TAIL_SUM_AT, &sum.to_le_bytes());
        put(&mut bytes, END_MAGIC_AT, &END_MAGIC);
        bytes
    }

    /// Validates and decodes the tail of a file of `file_bytes` bytes.
    pub(super) fn decode(
        bytes: &[u8; TAIL_BYTES],
        header: &[u8; HEADER_BYTES],
        file_bytes: u64,
    ) -> Result<Self, Fault> {
        if bytes[END_MAGIC_AT..] != END_MAGIC {
            return Err(damaged("the file does not end as a packed file does"));
        }
        let (found, wanted) = (tail_sum(header, bytes), u64_at(bytes, TAIL_SUM_AT));
        if found != wanted {
            return Err(damaged(sums_differ(found, wanted)));
        }
        let tail = Self {
            examples: u64_at(bytes, 0),
            blocks: u64_at(bytes, 8),
            table_offset: u64_at(bytes, 16),
            table_sum: u64_at(bytes, 24),
            block_bytes_max: u32_at(bytes, 32),
            example_keys_max: u32_at(bytes, 36),
            truth: u32_at(bytes, 40) != 0,
            origin_bytes: u32_at(bytes, 44),
            values: u32_at(header, 8) == VALUES_VERSION,
        };
        let has_origin = match u32_at(header, 8) {
            FORMAT_VERSION => Some(false),
            ORIGIN_VERSION => Some(true),
            // Optional in these versions.
            _ => None,
        };
        if has_origin.is_some_and(|has| has != (tail.origin_bytes > 0)) {
            let found = tail.origin_bytes;
            return Err(damaged(format!("{found} bytes of origin are not of its version")));
        }
        let length = tail
            .index_bytes()
            .and_then(|table| table.checked_add(tail.table_offset)?.checked_add(TAIL_BYTES as u64));
        if length != Some(file_bytes) || tail.table_offset < HEADER_BYTES as u64 {
            return Err(damaged(format!(
                "{} blocks and a table at byte {} do not make a file of {file_bytes} bytes",
                tail.blocks, tail.table_offset
            )));
        }
        Ok(tail)
    }

    /// Length of the table; `None` on overflow.
    pub(super) fn table_bytes(&self) -> Option<u64> {
        self.blocks.checked_mul(ENTRY_BYTES as u64)
    }

    /// Length of the table and the origin; `None` on overflow.
    pub(super) fn index_bytes(&self) -> Option<u64> {
        self.table_bytes()?.checked_add(self.origin_bytes.into())
    }
}

fn tail_sum(header: &[u8; HEADER_BYTES], tail: &[u8; TAIL_BYTES]) -> u64 {
    let mut sum = hash::Checksum::new();
    sum.update(header);
    sum.update(&tail[..TAIL_SUM_AT]);
    sum.value()
}

pub(super) fn sums_differ(found: u64, wanted: u64) -> String {
    format!("the checksum is {found:016x}, but {wanted:016x} was written")
}

pub(crate) fn put(bytes: &mut [u8], at: usize, part: &[u8]) {
    bytes[at..at + part.len()].copy_from_slice(part);
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

const _: () = assert!(KEY_HASH_NAME.len() <= NAME_BYTES && DENSE_NAME.len() <= NAME_BYTES);
