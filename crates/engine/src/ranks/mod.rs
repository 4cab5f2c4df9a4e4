//! Rows between ranks: requests, answers and gradients.
//!
//! ```text
//!   requester                                              owner
//!   Request ──► Routes ──► keys of each owner ──────────► unite ──► Part: the union of what all
//!                 │                                          │      ask for, which it plans
//!   Guests ◄──────┼──────── weights, as they were asked ◄──── rows of the working set
//!   gradients ──► by subtree of its blocks ──────────────► combined in the one tree, applied
//! ```
//!
//! Every key has one owner ([`stepwell_base::owner`]), which keeps its row in its tiers. Each rank
//! has some blocks of a mini-batch; it requests the rows that these need from their owners, pools
//! them, and sends back sums of gradients. The owner's sum has the bits that one rank would compute
//! ([`Blocks`](crate::Blocks)); the order of its keys and how often each occurs are also the same.
//!
//! If a batch has several mini-batches, an owner may lend a row to the one rank that needs it in
//! several of them ([`Lender`], [`Borrowed`]): the row is sent once and returned once, whole.
//!
//! - **Source.** All-to-all over sharded embeddings as in Sven (the thesis, chapter 6); working
//!   sets pulled from the owners as in HPS, Algorithm 1.

mod asked;
mod borrowed;
mod guests;
mod lender;
pub(crate) mod marked;
mod routes;

pub use self::asked::{put_ask, unite};
pub use self::borrowed::Borrowed;
pub(crate) use self::borrowed::BorrowedTable;
pub use self::guests::Guests;
pub use self::lender::Lender;
pub use self::routes::Routes;
