//! The rules that keep gradients whole, each of which a test can switch off.

/// A rule of a protocol, and what would go wrong without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Rule {
    /// S1: a worker overwrites a gradient in the server's window once that was used (RDMA-wild,
    /// algorithm 2, line 8); else it is lost.
    WaitForUsed,
    /// S2: a server notes which version it used (algorithm 1, line 14); else it uses one twice.
    NoteUsed,
    /// S3: a version goes after its data; else an older gradient is used under its number.
    VersionLast,
    /// S4: gradients older than the bound are dropped; else the bound is broken.
    DropStale,
    /// S5: an answer to the probe of an iteration that has begun is expired; else a reduction
    /// begins for which nobody is ready.
    ExpireProbes,
    /// S6: gradients that went into a reduction are forgotten; else they are used twice.
    TakeOnce,
    /// S7: what a group has changed counts from what the server gave last; else it is pushed again.
    PushOnce,
    /// S8: while two ranks average, neither changes its parameters; else a gradient is lost in
    /// part.
    AverageAtomically,
    /// S9: a gradient that comes late for a reduction stays for the next; else it is lost.
    KeepLate,
    /// S10: who reads rows waits for gradients that are older than the bound; else it is broken.
    WaitForRows,
}

impl Rule {
    /// All of them.
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

/// Which rules hold; all of them, but in tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    off: u16,
}

impl Rules {
    /// All but `rule`.
    pub fn without(rule: Rule) -> Self {
        Self { off: 1 << rule as u8 }
    }

    /// Whether `rule` holds.
    pub(crate) fn hold(self, rule: Rule) -> bool {
        self.off & (1 << rule as u8) == 0
    }
}
