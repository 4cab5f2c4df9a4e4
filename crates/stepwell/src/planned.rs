//! Lines of the plan that a run prints.

use stepwell_base::ByteCount;
use stepwell_engine::TierPlan;
use stepwell_settings::Config;
use stepwell_train::Capacity;

use crate::say::{Page, put};

/// Note that rows on disk would be in a file system in memory.
pub(crate) fn memory_note(config: &Config) -> Option<String> {
    const KINDS: [i64; 2] = [0x0102_1994, 0x8584_58f6]; // tmpfs, ramfs
    let place = config.tiers.ssd.clone().unwrap_or_else(std::env::temp_dir);
    let there = place.ancestors().find(|place| place.exists())?;
    let about = rustix::fs::statfs(there).ok()?;
    KINDS.contains(&(about.f_type as i64)).then(|| {
        format!(
            "rows on disk go to {0}, which is in memory (tmpfs): they take memory in addition to \
             this plan, up to what `df {0}` has left; name a directory on a disk as tiers.ssd",
            place.display()
        )
    })
}

/// The plan of a run in one line, and another line for devices.
pub(crate) fn line(capacity: &Capacity, ranks: usize) -> Page {
    let mut page = Page::default();
    let bounds = capacity.budget.bounds().iter();
    let bytes_of = |name: &str| -> u64 {
        bounds.clone().filter(|bound| bound.name == name).map(|bound| bound.bytes).sum()
    };
    let (rows, index) = (bytes_of(TierPlan::ROWS_IN_MEMORY), bytes_of("store index"));
    let all = capacity.budget.total();
    let [rows, index, rest, all] =
        [rows, index, all.saturating_sub(rows).saturating_sub(index), all].map(ByteCount);
    let whose = if ranks > 1 { format!(" for each of {ranks} ranks") } else { String::new() };
    put!(
        page,
        "memory at most {all}{whose}: rows {rows}, index of rows on disk {index}, all else {rest}"
    );
    if let Some(devices) = &capacity.devices {
        let (names, bytes) = (devices.offer.said(), ByteCount(devices.budget().total()));
        put!(page, "memory of each device at most ({names}): {bytes}");
    }
    page
}
