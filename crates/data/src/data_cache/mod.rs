//! The data cache: a packed file that replaces the text it was made from.

mod cache;
mod made_from;
mod writer;

pub use self::cache::{CacheAt, CacheReader, DataCache};
pub use self::made_from::{CACHE_MALFORMED_MAX, SourceFile};
pub use self::writer::CacheWriter;
