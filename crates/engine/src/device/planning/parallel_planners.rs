//! Runs planners of devices concurrently with the host's; they are independent until all are done.

use std::sync::Arc;

use rayon::{ThreadPool, ThreadPoolBuilder};
use stepwell_base::Key;
use stepwell_base::stage::give_way;

use crate::Error;
use crate::group::Group;
use crate::mini_batch::MiniBatch;
use crate::planner::{Asked, Planner};
use crate::unit::GroupUnit;
use crate::working_set::{OnDevice, Part};

/// Threads for the planners of devices.
#[derive(Debug)]
pub(super) struct ParallelPlanners(Option<ThreadPool>);

impl ParallelPlanners {
    /// One thread per device; if the system provides no threads, the caller does all the work.
    pub(super) fn new(devices: usize) -> Self {
        let threads = ThreadPoolBuilder::new().num_threads(devices);
        // Same priority as stage `plan`, whose work this is.
        let threads = threads.start_handler(|_| give_way());
        Self(threads.thread_name(|device| format!("plan device {device}")).build().ok())
    }

    /// Runs `each` of the `tasks` on the threads and `here` on the calling one.
    pub(super) fn run<T: Send, R>(
        &self,
        tasks: impl Iterator<Item = T>,
        each: impl Fn(T) + Sync,
        here: impl FnOnce() -> R,
    ) -> R {
        let Some(pool) = &self.0 else {
            tasks.for_each(each);
            return here();
        };
        let each = &each;
        pool.in_place_scope(|scope| {
            tasks.for_each(|task| scope.spawn(move |_| each(task)));
            here()
        })
    }
}

/// Rows of one table group that the current mini-batch needs on one device, and the required moves.
#[derive(Debug, Default)]
pub(super) struct Task {
    /// Rows of the mini-batch, by table of the group; returned to the mini-batch afterwards.
    lists: Vec<OnDevice>,
    pub(super) moves: GroupUnit,
    pub(super) failed: Option<Error>,
}

impl Task {
    /// Takes the lists of `mini`.
    pub(super) fn take<C>(&mut self, group: &Group, device: usize, mini: &mut MiniBatch<C>) {
        let parts = &mut mini.parts;
        let lists = group.members().iter();
        let lists = lists.map(|table| std::mem::take(&mut parts[*table].above.devices[device]));
        self.lists.extend(lists);
    }

    /// Pins the rows on the device.
    pub(super) fn plan(&mut self, planner: &mut Planner, number: u32) {
        self.moves.clear();
        let tables = self.lists.iter_mut().zip(0..);
        let asked =
            tables.map(|(OnDevice { keys, slots, .. }, table)| Asked { table, keys, slots });
        let mut asked: Vec<Asked<'_>> = asked.collect();
        self.failed = planner.plan(number, &mut asked, &mut self.moves).err();
    }

    /// Returns the lists to `mini`.
    pub(super) fn give_back<C>(&mut self, group: &Group, device: usize, mini: &mut MiniBatch<C>) {
        for (table, on) in group.members().iter().zip(self.lists.drain(..)) {
            mini.parts[*table].above.devices[device] = on;
        }
    }
}

/// The planner of a device for a table group.
pub(super) struct DevicePlanner<'a> {
    pub(super) planner: &'a mut Planner,
    pub(super) group: &'a Group,
    pub(super) device: usize,
}

/// All planners, by table group and device.
pub(super) fn of_devices<'a>(
    planners: &'a mut [Vec<Planner>],
    groups: &'a [Arc<Group>],
) -> impl Iterator<Item = DevicePlanner<'a>> {
    let groups = planners.iter_mut().zip(groups);
    groups.flat_map(|(planners, group)| {
        let devices = planners.iter_mut().enumerate();
        devices.map(move |(device, planner)| DevicePlanner { planner, group, device })
    })
}

/// The parts of mini-batches that planners read, with the mini-batches' numbers.
pub(super) fn seen<'a, C: 'a>(
    minis: impl Iterator<Item = &'a MiniBatch<C>>,
) -> Vec<(u32, &'a [Part])> {
    minis.map(|mini| (mini.number, &mini.parts[..])).collect()
}

/// Keys of the tables of `group` that device `device` has.
pub(super) fn keys_above<'a>(
    parts: &'a [Part],
    group: &'a Group,
    device: usize,
) -> impl Iterator<Item = &'a [Key]> + Clone {
    let members = group.members().iter();
    members.map(move |table| &parts[*table].above.devices[device].keys[..])
}
