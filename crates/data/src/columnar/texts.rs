//! Reads text columns page by page.
//!
//! Why: a frequent id is stored once in its column's dictionary, so its key need only be computed
//! once. The library's reader returns every occurrence as a separate text.
//!
//! How: a page either refers to dictionary entries by number, or contains its texts one after
//! another. Both become a list of texts and numbers into it. A dictionary caches the keys of its
//! texts.
//!
//! This works for columns without lists and with those two encodings; the library reads all others.

use std::sync::Arc;

use parquet::basic::Encoding;
use parquet::column::page::{Page, PageReader};
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;

use super::file::Place;
use super::hybrid::{Broken, Hybrid};
use crate::open_file::Unreadable;
use crate::rows::{Segment, Texts, broken};

/// Rows to skip at once.
const SKIP_ROWS: usize = 4096;

/// Error for an unsupported encoding of a text page.
fn unread(encoding: Encoding) -> ParquetError {
    let why = format!(
        "has a page of texts in {encoding}, which is not supported: write it in PLAIN or \
         RLE_DICTIONARY"
    );
    ParquetError::External(Box::new(Unreadable(why)))
}

impl From<Broken> for ParquetError {
    fn from(_: Broken) -> Self {
        broken()
    }
}

/// Reads one column chunk.
pub(super) struct TextReader {
    pages: Box<dyn PageReader>,
    /// Whether values may be null.
    optional: bool,
    /// Rows in pages that haven't been read yet.
    rows: u64,
    dictionary: Option<Arc<Texts>>,
    page: Option<AtPage>,
}

/// The current page.
struct AtPage {
    /// Remaining rows.
    left: usize,
    /// Definition levels; `None` if every row has a value.
    defined: Option<(Arc<Page>, Hybrid)>,
    values: PageValues,
}

enum PageValues {
    /// Indices into the dictionary.
    Numbers(Arc<Page>, Hybrid, Arc<Texts>),
    /// Texts, and the number of the next one.
    Texts(Arc<Texts>, u32),
}

impl TextReader {
    /// Whether this reader supports the column with metadata `chunk`.
    pub(super) fn suits(place: &Place, chunk: &ColumnChunkMetaData) -> bool {
        let known =
            [Encoding::PLAIN, Encoding::RLE, Encoding::RLE_DICTIONARY, Encoding::PLAIN_DICTIONARY];
        !place.is_list()
            && place.meaning.is_text()
            && place.defined <= 1
            && chunk.column_type() == parquet::basic::Type::BYTE_ARRAY
            && chunk.encodings().all(|encoding| known.contains(&encoding))
    }

    /// Reads the pages of a column chunk with `rows` rows.
    pub(super) fn new(pages: Box<dyn PageReader>, place: &Place, rows: u64) -> Self {
        Self { pages, optional: place.defined > 0, rows, dictionary: None, page: None }
    }

    /// Reads the next `rows` rows: their values, and which rows have one, if any value is null.
    pub(super) fn read(
        &mut self,
        rows: usize,
    ) -> Result<(Vec<Segment>, Option<Vec<bool>>), ParquetError> {
        let (mut segments, mut there): (Vec<Segment>, _) = (Vec::new(), Vec::new());
        let mut levels = Vec::new();
        let mut read = 0;
        while read < rows {
            let page = self.page()?;
            let now = page.left.min(rows - read);
            let mut values = now;
            if let Some((bytes, defined)) = &mut page.defined {
                levels.clear();
                defined.read(bytes.buffer(), now, &mut levels)?;
                values = levels.iter().filter(|level| **level == 1).count();
                there.extend(levels.iter().map(|level| *level == 1));
            }
            segments.push(page.values.take(values)?);
            page.left -= now;
            read += now;
        }
        let some = there.iter().any(|there| !there);
        Ok((segments, some.then_some(there)))
    }

    /// Skips `rows` rows.
    pub(super) fn skip(&mut self, rows: usize) -> Result<usize, ParquetError> {
        for skipped in (0..rows).step_by(SKIP_ROWS) {
            self.read(SKIP_ROWS.min(rows - skipped))?;
        }
        Ok(rows)
    }

    /// The current page, or the next one with rows.
    fn page(&mut self) -> Result<&mut AtPage, ParquetError> {
        while self.page.as_ref().is_none_or(|page| page.left == 0) {
            let Some(page) = self.pages.get_next_page()? else {
                return Err(ParquetError::EOF("fewer rows than promised".to_owned()));
            };
            match &page {
                Page::DictionaryPage { num_values, encoding, .. } => {
                    if !matches!(encoding, Encoding::PLAIN | Encoding::PLAIN_DICTIONARY) {
                        return Err(unread(*encoding));
                    }
                    let count = *num_values as usize;
                    self.dictionary = Some(Arc::new(Texts::new(Arc::new(page), 0, count)?));
                }
                _ => {
                    let rows = self.rows.checked_sub(page.num_values().into());
                    self.rows = rows.ok_or_else(|| {
                        ParquetError::General("its pages have more values than rows".to_owned())
                    })?;
                    self.page = Some(self.enter(Arc::new(page))?);
                }
            }
        }
        self.page.as_mut().ok_or_else(broken)
    }

    fn enter(&self, page: Arc<Page>) -> Result<AtPage, ParquetError> {
        let bytes = page.buffer();
        let left = page.num_values() as usize;
        // Range of the definition levels, and start of the values.
        let (levels, at) = match &*page {
            Page::DataPageV2 { def_levels_byte_len, rep_levels_byte_len, .. } => {
                let start = *rep_levels_byte_len as usize;
                let end = start + *def_levels_byte_len as usize;
                (start..end, end)
            }
            Page::DataPage { def_level_encoding, .. } if self.optional => {
                if *def_level_encoding != Encoding::RLE {
                    return Err(unread(*def_level_encoding));
                }
                let head = bytes.first_chunk::<4>().ok_or_else(broken)?;
                let end = 4 + u32::from_le_bytes(*head) as usize;
                (4..end, end)
            }
            _ => (0..0, 0),
        };
        if at > bytes.len() {
            return Err(broken());
        }
        let defined = match self.optional {
            true => Some(Hybrid::new(1, levels.start, levels.end)?),
            false => None,
        };
        let values = match page.encoding() {
            Encoding::PLAIN => {
                let count = match &defined {
                    Some(levels) => levels.clone().count(bytes, left, 1)?,
                    None => left,
                };
                PageValues::Texts(Arc::new(Texts::new(Arc::clone(&page), at, count)?), 0)
            }
            Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY => {
                let dictionary = self.dictionary.clone().ok_or_else(broken)?;
                // A page without values may lack the bit width.
                let width = bytes.get(at).copied().unwrap_or(0);
                let start = (at + 1).min(bytes.len());
                let numbers = Hybrid::new(width.into(), start, bytes.len())?;
                PageValues::Numbers(Arc::clone(&page), numbers, dictionary)
            }
            other => return Err(unread(other)),
        };
        Ok(AtPage { left, defined: defined.map(|levels| (page, levels)), values })
    }
}

impl PageValues {
    fn take(&mut self, count: usize) -> Result<Segment, ParquetError> {
        match self {
            Self::Numbers(page, numbers, texts) => {
                let mut taken = Vec::with_capacity(count);
                numbers.read(page.buffer(), count, &mut taken)?;
                let known = texts.spans.len();
                if taken.iter().any(|number| *number as usize >= known) {
                    return Err(broken());
                }
                Ok(Segment { texts: Arc::clone(texts), numbers: taken })
            }
            Self::Texts(texts, next) => {
                let end = *next as usize + count;
                if end > texts.spans.len() {
                    return Err(broken());
                }
                let numbers = (*next..end as u32).collect();
                *next = end as u32;
                Ok(Segment { texts: Arc::clone(texts), numbers })
            }
        }
    }
}
