//! The rules that keep gradients consistent, each of which a test can switch off.

/// A rule of a protocol, and what goes wrong without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Rule {
    /// SYNC-I1: a worker overwrites its gradient in the server's window only after it was used
    /// (RDMA-wild, algorithm 2, line 8); else gradients are lost.
    WaitForUsed,
    /// SYNC-I2: a server records which version it used (algorithm 1, line 14); else it uses one
    /// twice.
    NoteUsed,
    /// SYNC-I3: a version is written after its data; else an older gradient is used under its
    /// number.
    VersionLast,
    /// SYNC-I4: gradients older than the bound are dropped; else the bound is broken.
    DropStale,
    /// SYNC-I5: an answer to the probe of an iteration that has begun is ignored; else a reduction
    /// begins for which no rank is ready.
    ExpireProbes,
    /// SYNC-I6: gradients that were in a reduction are removed; else they are used twice.
    TakeOnce,
    /// SYNC-I7: a group pushes its changes since the server's last answer; else it pushes some
    /// twice.
    PushOnce,
    /// SYNC-I8: while two ranks average, neither changes its parameters; else a gradient is partly
    /// lost.
    AverageAtomically,
    /// SYNC-I9: a gradient too late for a reduction stays for the next; else it is lost.
    KeepLate,
    /// SYNC-I10: a reader of rows waits for gradients that are older than the bound; else it is
    /// broken.
    WaitForRows,
}

impl Rule {
    /// All rules.
    pub const ALL: [Self; 10] = [
        Self::WaitForUsed,
        Self::NoteUsed,
        Self::VersionLast,
        Self::DropStale,
        Self::ExpireProbes,
        Self::TakeOnce,
        Self::PushOnce,
        Self::AverageAtomically,
        Self::KeepLate,
        Self::WaitForRows,
    ];
}

/// Rules in force: all of them, unless a test switched one off.
pub type Rules = stepwell_base::rules::Switches<Rule>;
