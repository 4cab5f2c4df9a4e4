//! Texts of a page, and values that refer to them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parquet::column::page::Page;
use parquet::errors::ParquetError;
use stepwell_base::{Key, Namespace};

/// Texts of a page.
pub(crate) struct Texts {
    page: Arc<Page>,
    /// Start and end of each text in the page.
    pub(crate) spans: Vec<(u32, u32)>,
    /// Keys of the texts in one namespace; zero if not computed yet.
    keys: OnceLock<(Namespace, Vec<AtomicU64>)>,
    /// Whether a text may be requested repeatedly.
    is_dictionary: bool,
}

/// Values of a column that refer to the same list of texts.
#[derive(Clone)]
pub(crate) struct Segment {
    pub(crate) texts: Arc<Texts>,
    pub(crate) numbers: Vec<u32>,
}

impl Texts {
    /// The `count` texts of a page, which start at byte `at`.
    pub(crate) fn new(page: Arc<Page>, at: usize, count: usize) -> Result<Self, ParquetError> {
        let bytes = page.buffer();
        let mut spans = Vec::with_capacity(count.min(bytes.len() / 4 + 1));
        let mut at = at;
        for _ in 0..count {
            let head = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>());
            let start = at + 4;
            let end = head.map(|head| start + u32::from_le_bytes(*head) as usize);
            let Some(end) = end.filter(|end| *end <= bytes.len()) else { return Err(broken()) };
            // Pages are smaller than 2^31 bytes.
            spans.push((start as u32, end as u32));
            at = end;
        }
        let is_dictionary = page.is_dictionary_page();
        Ok(Self { page, spans, keys: OnceLock::new(), is_dictionary })
    }

    pub(crate) fn text(&self, number: u32) -> &[u8] {
        let (start, end) = self.spans[number as usize];
        &self.page.buffer()[start as usize..end as usize]
    }

    /// Cache of the texts' keys in `namespace`. `None` if it caches another namespace, or if each
    /// text is requested only once.
    fn known(&self, namespace: &Namespace) -> Option<&[AtomicU64]> {
        let none = || (namespace.clone(), self.spans.iter().map(|_| AtomicU64::new(0)).collect());
        let (of, keys) = self.is_dictionary.then(|| self.keys.get_or_init(none))?;
        (of.name() == namespace.name()).then_some(keys)
    }
}

impl Segment {
    /// Appends the keys of the values in `namespace` to `keys`; values that are `missing` get the
    /// empty text's key.
    pub(crate) fn append_keys(
        &self,
        namespace: &Namespace,
        missing: impl Fn(&[u8]) -> bool,
        keys: &mut Vec<Key>,
    ) {
        let make = |number: u32| {
            let text = self.texts.text(number);
            namespace.key_of(if missing(text) { b"" } else { text })
        };
        let Some(known) = self.texts.known(namespace) else {
            keys.extend(self.numbers.iter().map(|number| make(*number)));
            return;
        };
        keys.extend(self.numbers.iter().map(|number| {
            // Threads that race compute the same key. A key that is zero is recomputed each time.
            let known = &known[*number as usize];
            match known.load(Ordering::Relaxed) {
                0 => {
                    let key = make(*number);
                    known.store(key.0, Ordering::Relaxed);
                    key
                }
                key => Key(key),
            }
        }));
    }
}

impl std::fmt::Debug for Segment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Segment").field("numbers", &self.numbers).finish_non_exhaustive()
    }
}

impl PartialEq for Segment {
    fn eq(&self, other: &Self) -> bool {
        let texts = |of: &Self| -> Vec<Vec<u8>> {
            of.numbers.iter().map(|number| of.texts.text(*number).to_vec()).collect()
        };
        texts(self) == texts(other)
    }
}

/// Error for a page that does not match its encoding.
pub(crate) fn broken() -> ParquetError {
    ParquetError::General("a page of texts does not match its encoding".to_owned())
}
