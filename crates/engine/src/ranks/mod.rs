//! Rows between ranks: who asks whom for which rows.
//!
//! ```text
//!   requester                                              owner
//!   Request ──► Routes ──► keys of each owner ──────────► unite ──► Part: the union of what all
//!                 │                                          │      ask for, which it plans
//!   Guests ◄──────┼──────── weights, as they were asked ◄──── rows of the working set
//!   gradients ──► by subtree of its blocks ──────────────► combined in the one tree, applied
//! ```
//!
//! Every key has one owner ([`stepwell_base::owner`]), which keeps its row in its tiers. Of each
//! mini-batch a rank has some blocks; it asks the owners of the rows that these need, pools what
//! they send, and sends sums of gradients back. The owner's sum is that of one rank to the bit
//! ([`Blocks`](crate::Blocks)), and so are the order of its keys and how often each occurs.
//!
//! Where a batch is several mini-batches, an owner may lend a row to the one rank that needs it in
//! several of them ([`Lender`], [`Borrowed`]): it travels once there and once back, whole.
//!
//! - **Source.** All-to-all over sharded embeddings as in Sven (the thesis, chapter 6); working
//!   sets pulled from the owners as in HPS, Algorithm 1.

mod asked;
mod borrowed;
mod guests;
mod lender;
pub(crate) mod marked;
mod routes;

pub use self::asked::{Askers, put_ask, unite};
pub use self::borrowed::Borrowed;
pub(crate) use self::borrowed::BorrowedTable;
pub use self::guests::Guests;
pub use self::lender::Lender;
pub(crate) use self::lender::Loan;
pub use self::routes::Routes;
