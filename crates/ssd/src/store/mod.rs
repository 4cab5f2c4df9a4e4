//! The store: segments on disk, the index in memory, and who may access what.
//!
//! Shared state
//!
//! ```text
//! field     under            used by
//! merging   Mutex            merges, and scans as they begin, which need segments to stay.
//!                            Held across I/O; one merge at a time.
//! writer    Mutex            every change: put, delete, commit, snapshot, the first part of a
//!                            merge's end; and scans as they begin. Held across I/O.
//! settling  Mutex            a merge while its new segment replaces the old ones, and commits
//!                            while they collect what to name. Not held across I/O.
//! state     RwLock           everything, briefly: look-ups read it, changes write it.
//!                            Never held across I/O.
//! pins      Mutex            scans, snapshots, and reports
//! counters  atomics          everything; only reports read them
//! ```
//!
//! Lock order: merging, writer, settling, state.
//!
//! How a row moves
//!
//! ```text
//!  put ─► buffer ──► open segment ──► closing ──► sealed ──(merge)──► retired ──► removed after
//!          readable  (buffers are    (last       │                              the next commit
//!          at once    being written)  writes)    └──► commit: synced, in the manifest
//! ```
//!
//! - **Invariants.**
//!   - SSD-I1: the index points at the version of a key that was put last, at none after a
//!     deletion.
//!   - SSD-I2: every place in the index is readable: from memory under the lock, from the file
//!     without it.
//!   - SSD-I3: a segment's live count is the number of keys that point at it.
//!   - SSD-I4: a commit names a prefix, in order, of all rows put and keys deleted.
//!   - SSD-I5: no file that the last commit names is removed.
//!   - SSD-I6: a page has two rows of one key only if the key was deleted in between: the last
//!     counts.
//!   - SSD-I7: a commit names either the result of a merge or its inputs, never both.
//!
//! - **Failure.** A failure before any byte of a segment is written fails only that call; the next
//!   call tries again. Rows whose write failed stay in memory, and the write is retried before the
//!   next change. After a failed sync, the disk's content is unknown: the segment is read back,
//!   checked and written anew before the next commit. A failed merge leaves no files and does not
//!   change its segments; later merges skip a segment that it could not read. A failed read fails
//!   the call that needed it. After a panic inside a change, writes are refused until the store is
//!   reopened.
//! - **Cost.** A row is written once when it is put and about once more when its segment is merged;
//!   a look-up reads its page.

mod core;
mod index_fill;
mod merging;
mod opening;
mod read_only;
mod reading;
mod report;
mod stale_in_scan;
mod sweep_result;
mod writing;

pub use self::core::Store;
pub use self::index_fill::IndexFill;
pub use self::merging::StoreSpace;
pub use self::opening::Verify;
pub(crate) use self::opening::{held_most, listed_bytes, verify};
pub use self::read_only::{Refreshed, View};
pub use self::reading::{Cursor, Lookup, Reader, Scan, Ticket, Visit};
pub(crate) use self::sweep_result::Sweep;
pub(crate) use self::writing::Batch;
