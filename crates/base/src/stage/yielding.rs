//! Threads that let others go first when they wake up.
//!
//! - **Why.** With fewer processors than threads, a stage that works ahead would, on waking up,
//!   preempt one that computes, and all others wait for the latter.
//! - **How.** Linux's policy for batch work (`SCHED_BATCH`): such a thread waits until a processor
//!   is free or its turn comes, with the same share of time as any other. A lower priority would
//!   also give its share to other programs, although other stages need its work.
//! - **Failure.** If the system refuses, all threads are equal.

#![cfg_attr(
    target_os = "linux",
    expect(unsafe_code, reason = "no safe library sets the policy of a thread")
)]

/// Makes the calling thread let others go first.
#[cfg(target_os = "linux")]
pub fn give_way() {
    let policy = libc::sched_param { sched_priority: 0 };
    // SAFETY: the system reads a structure that outlives the call; 0 means the calling thread.
    let _refused = unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const policy) };
}

/// Does nothing on other systems.
#[cfg(not(target_os = "linux"))]
pub fn give_way() {}

/// Whether the calling thread lets others go first.
#[cfg(all(test, target_os = "linux"))]
pub(super) fn gives_way() -> bool {
    // SAFETY: reads the policy of the calling thread.
    unsafe { libc::sched_getscheduler(0) == libc::SCHED_BATCH }
}
