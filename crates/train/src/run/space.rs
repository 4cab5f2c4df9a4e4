//! Whether disks have room for a run, before its first step.
//!
//! - **How.** A run is refused if a disk has no room for what it certainly writes: the dense part
//!   of a checkpoint, rows copied from another file system, and a segment, which is allocated as a
//!   whole. It is noted if there may be no room for as many rows as memory holds or the checkpoint
//!   has. Tables that grow beyond that aren't foreseen.

use std::path::{Path, PathBuf};

use stepwell_base::ByteCount;
use stepwell_disk::FileDisk;
use stepwell_engine::{Checkpoint, GroupPlan, Rows};
use stepwell_settings::BestKind;
use stepwell_ssd::{Manifest, StoreSpace};

use crate::capacity::Capacity;
use crate::machine::{DiskRoom, Places};
use crate::run_plan::StoragePlan;
use crate::{Error, Result};

/// A run about to begin.
pub(super) struct Start<'a> {
    pub(super) storage: &'a StoragePlan,
    pub(super) capacity: &'a Capacity,
    pub(super) places: &'a dyn Places,
    /// The checkpoint whose stores the run begins with, unchanged.
    pub(super) from: Option<&'a Checkpoint>,
    /// Whether the run writes checkpoints.
    pub(super) saves: bool,
    /// Number of ranks that write to these directories.
    pub(super) ranks: u64,
}

/// Room that a run needs in one directory.
struct Needs {
    /// Setting that names the directory.
    key: &'static str,
    directory: PathBuf,
    room: DiskRoom,
    /// Bytes that are certainly written, and a description of them.
    least: u64,
    why: String,
    /// Bytes that may be written soon.
    soon: u64,
}

/// Rows of the checkpoint that a run begins with.
#[derive(Clone, Copy, Debug, Default)]
struct RowsThere {
    rows: u64,
    /// Bytes of the rows' files.
    bytes: u64,
}

impl Start<'_> {
    /// Notes of what may not fit.
    ///
    /// # Errors
    /// Describes what certainly doesn't fit, with the directory and how to fix it.
    pub(super) fn check(&self) -> Result<Vec<String>> {
        let there = self.from.map(rows_of).unwrap_or_default();
        let mut rows = self.rows_needs(there);
        let mut checkpoints = self.checkpoint_needs(rows.as_ref().map(|rows| rows.room), there);
        if let (Some(rows), Some(checkpoints)) = (&mut rows, &mut checkpoints)
            && rows.room.file_system == checkpoints.room.file_system
        {
            // Both exist at once; one note is enough.
            checkpoints.soon = checkpoints.soon.saturating_add(std::mem::take(&mut rows.soon));
        }
        let needs: Vec<Needs> = rows.into_iter().chain(checkpoints).collect();
        needs.iter().try_for_each(Needs::check)?;
        Ok(needs.iter().filter_map(Needs::note).collect())
    }

    /// Needs of the stores.
    fn rows_needs(&self, there: RowsThere) -> Option<Needs> {
        let directory = self.storage.rows.clone().unwrap_or_else(std::env::temp_dir);
        let room = self.places.room(&directory)?;
        let is_linked = self.from.is_none_or(|from| self.is_in(&from.path, room));
        // With several ranks, each clears its place and copies its part later.
        let alone = self.storage.ranks == 1;
        let copied = if is_linked || !alone { 0 } else { there.bytes };
        let segments = match self.saves {
            true => self.capacity.tiers.groups.iter().map(|group| group.store.segment_bytes).sum(),
            false => 0,
        };
        let segments = self.ranks.saturating_mul(segments);
        let mut why = Vec::new();
        if copied > 0 {
            why.push(format!("{} of rows from the checkpoint", ByteCount(copied)));
        }
        if segments > 0 {
            why.push(format!("{} for segments being written", ByteCount(segments)));
        }
        let soon = self.space_of(there).at_most.max(copied);
        let (key, why) = ("tiers.ssd", why.join(" and "));
        Some(Needs { key, directory, room, least: copied.saturating_add(segments), why, soon })
    }

    /// Needs of checkpoints; `rows` is the room where the stores are.
    fn checkpoint_needs(&self, rows: Option<DiskRoom>, there: RowsThere) -> Option<Needs> {
        let checkpoints = &self.storage.checkpoints;
        let directory = checkpoints.dir.clone().filter(|_| self.saves)?;
        let room = self.places.room(&directory)?;
        let is_linked = rows.is_none_or(|rows| rows.file_system == room.file_system);
        let dense = self.capacity.dense_bytes;
        let kept = checkpoints.keep as u64;
        let beside = 1 + u64::from(checkpoints.best != BestKind::None);
        let count = kept.saturating_add(beside);
        let each = if is_linked { 0 } else { self.space_of(there).after_commit };
        Some(Needs {
            key: "checkpoint.dir",
            directory,
            room,
            least: dense,
            why: format!("{} for the dense part of one checkpoint", ByteCount(dense)),
            soon: each.saturating_add(dense).saturating_mul(count),
        })
    }

    /// Space of stores with as many rows as memory holds, or as the run begins with, if more.
    fn space_of(&self, there: RowsThere) -> StoreSpace {
        let groups = &self.capacity.tiers.groups;
        let of_each = there.rows / (groups.len() as u64 * self.ranks).max(1);
        let rows = |group: &GroupPlan| (group.slots as u64).max(of_each);
        let StoreSpace { after_commit, at_most } = self.capacity.space_of(&rows);
        let of_ranks = |bytes: u64| bytes.saturating_mul(self.ranks);
        StoreSpace { after_commit: of_ranks(after_commit), at_most: of_ranks(at_most) }
    }

    fn is_in(&self, path: &Path, room: DiskRoom) -> bool {
        self.places.room(path).is_none_or(|of| of.file_system == room.file_system)
    }
}

impl Needs {
    fn check(&self) -> Result<()> {
        let Self { key, directory, room, least, why, .. } = self;
        if room.free >= *least {
            return Ok(());
        }
        let directory = directory.display();
        let (free, least) = (ByteCount(room.free), ByteCount(*least));
        Err(Error::Config(format!(
            "{key} = {directory}: its file system has {free} free, but the run needs at least \
             {least} there ({why}): free some space, or choose a directory on another one"
        )))
    }

    fn note(&self) -> Option<String> {
        let Self { key, directory, room, soon, .. } = self;
        (room.free < *soon).then(|| {
            format!(
                "{key} = {}: its file system has {} free, but the run may need {} there with as \
                 many rows as memory holds: it would fail on a full disk",
                directory.display(),
                ByteCount(room.free),
                ByteCount(*soon)
            )
        })
    }
}

/// Rows of all stores of a checkpoint. Unreadable ones count as none; opening them reports why.
fn rows_of(checkpoint: &Checkpoint) -> RowsThere {
    let manifest = |rows: &Rows| Manifest::load(&FileDisk::open(&rows.path).ok()?).ok();
    let manifests = checkpoint.rows.iter().filter_map(manifest);
    manifests.fold(RowsThere::default(), |sum, manifest| {
        let bytes: u64 = manifest.segments.iter().map(|segment| segment.bytes).sum();
        RowsThere { rows: sum.rows + manifest.rows, bytes: sum.bytes + bytes }
    })
}

#[cfg(test)]
mod tests {
    use stepwell_engine::Placement;
    use stepwell_settings::Config;

    use super::super::plan;
    use super::*;
    use crate::capacity::Expected;
    use crate::machine::{Checkpoints, RowPlaces};
    use crate::run_plan::RunPlan;

    /// Free bytes of file systems, by the first part of a path.
    struct Given(Vec<(&'static str, u64)>);

    impl Places for Given {
        fn checkpoints(
            &self,
            _: &StoragePlan,
            _: Placement,
        ) -> Result<Option<Box<dyn Checkpoints>>> {
            Ok(None)
        }

        fn checkpoints_of_all(&self, _: &StoragePlan) -> Result<Option<Box<dyn Checkpoints>>> {
            Ok(None)
        }

        fn rows(
            &self,
            _: &StoragePlan,
            _: Placement,
        ) -> Result<(Box<dyn RowPlaces>, Option<String>)> {
            Err(Error::Panicked("no rows are opened here"))
        }

        fn room(&self, directory: &Path) -> Option<DiskRoom> {
            let found = self.0.iter().position(|(name, _)| directory.starts_with(name))?;
            Some(DiskRoom { free: self.0[found].1, file_system: found as u64 })
        }
    }

    /// The outcome of the check with these file systems.
    fn check(file_systems: &[(&'static str, u64)], saves: bool) -> Result<Vec<String>> {
        let mut config = Config::default();
        config.synth.examples = 1000;
        config.checkpoint.dir = Some("/checkpoints/saved".into());
        config.tiers.ssd = Some("/rows".into());
        let capacity = plan(&config, &Expected::default()).unwrap();
        let places = &Given(file_systems.to_vec());
        let storage = &RunPlan::of(&config)?.storage;
        Start { storage, capacity: &capacity, places, from: None, saves, ranks: 1 }.check()
    }

    #[test]
    fn what_certainly_does_not_fit_is_refused_and_what_may_not_is_noted() {
        const MUCH: u64 = 1 << 40;
        assert!(check(&[], true).unwrap().is_empty(), "nothing is known");
        assert!(check(&[("/rows", MUCH), ("/checkpoints", MUCH)], true).unwrap().is_empty());
        let refused = |file_systems: &[(&'static str, u64)]| {
            check(file_systems, true).unwrap_err().to_string()
        };
        // A segment is 64 MiB, and the dense part about 4.
        let rows = refused(&[("/rows", 32 << 20), ("/checkpoints", MUCH)]);
        assert!(rows.starts_with("tiers.ssd = /rows: its file system has 32.0 MiB free, but the"));
        assert!(rows.contains("64.0 MiB for segments"), "{rows}");
        let dense = refused(&[("/rows", MUCH), ("/checkpoints", 1 << 20)]);
        assert!(dense.starts_with("checkpoint.dir = /checkpoints/saved: its file system has 1.0"));
        assert!(dense.contains("for the dense part"), "{dense}");
        // A run without checkpoints needs no room for them.
        let few = &[("/rows", 32 << 20), ("/checkpoints", 0)];
        assert_eq!(check(few, false).unwrap().len(), 1);
        let notes = check(&[("/rows", MUCH), ("/checkpoints", 64 << 20)], true).unwrap();
        assert!(notes.len() == 1 && notes[0].contains("checkpoint.dir = "), "{notes:?}");
        let notes = check(&[("/", 128 << 20)], true).unwrap();
        assert!(notes.len() == 1 && notes[0].contains("may need"), "{notes:?}");
    }
}
