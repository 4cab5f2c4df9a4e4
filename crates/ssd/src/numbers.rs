//! Numbers of segments, slots and pages, as types that cannot be mixed up.

use std::ops::{Add, Sub};

/// Number of a segment, in its own store or at its origin; never reused.
///
/// Manifests and header pages write the number in 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SegmentNumber(u32);

impl SegmentNumber {
    /// Exclusive upper bound of segment numbers.
    pub(crate) const END: u32 = (1 << 31) - 1;

    /// The segment number `number`; `None` if it is too high.
    pub(crate) fn new(number: u64) -> Option<Self> {
        u32::try_from(number).ok().filter(|number| *number < Self::END).map(Self)
    }

    /// A number in a manifest that was checked.
    pub(crate) fn of_manifest(number: u64) -> Self {
        #[expect(clippy::expect_used, reason = "a manifest with a higher number is refused")]
        Self::new(number).expect("a segment number")
    }

    /// The number as a birth.
    pub(crate) fn birth(self) -> Birth {
        Birth(self.0)
    }
}

impl From<SegmentNumber> for u32 {
    fn from(number: SegmentNumber) -> Self {
        number.0
    }
}

impl From<SegmentNumber> for u64 {
    fn from(number: SegmentNumber) -> Self {
        number.0.into()
    }
}

/// Birth of a row: number of the segment that it was first put into, at that segment's origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Birth(pub(crate) u32);

impl Birth {
    /// Before every birth.
    pub(crate) const MIN: Self = Self(0);
    /// After every birth.
    pub(crate) const MAX: Self = Self(u32::MAX);
}

/// The least and the greatest birth of some rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Births {
    pub(crate) least: Birth,
    pub(crate) greatest: Birth,
}

impl Births {
    /// The births of no row, as tails write them.
    pub(crate) const NONE: Self = Self { least: Birth::MIN, greatest: Birth::MIN };

    /// The births of rows with one birth.
    pub(crate) fn all(birth: Birth) -> Self {
        Self { least: birth, greatest: birth }
    }

    /// Whether a row may have this birth.
    pub(crate) fn contains(&self, birth: Birth) -> bool {
        (self.least..=self.greatest).contains(&birth)
    }
}

/// Position of a segment in the table of segments; the index names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Slot(pub(crate) u32);

impl Slot {
    /// The slot as an index of lists by slot.
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Number of a page in its segment: 0 is the header page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PageNumber(pub(crate) u32);

impl PageNumber {
    /// The header page.
    pub(crate) const HEADER: Self = Self(0);
    /// The first data page.
    pub(crate) const FIRST: Self = Self(1);

    /// This page and all later ones.
    pub(crate) fn onwards(self) -> impl Iterator<Item = Self> {
        (self.0..).map(Self)
    }
}

impl Add<u32> for PageNumber {
    type Output = Self;

    fn add(self, pages: u32) -> Self {
        Self(self.0 + pages)
    }
}

/// Number of pages from `other` to this one.
impl Sub for PageNumber {
    type Output = u32;

    fn sub(self, other: Self) -> u32 {
        self.0 - other.0
    }
}

/// A page of the segment in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotPage {
    pub(crate) slot: Slot,
    pub(crate) page: PageNumber,
}

/// A page of a segment, which is given by its index in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PageOf {
    pub(crate) segment: u32,
    pub(crate) page: PageNumber,
}
