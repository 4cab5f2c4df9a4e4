//! Threads that let others go first when they wake up.
//!
//! - **Why.** Where there are fewer processors than threads, a stage that works ahead and wakes up
//!   takes the place of one that computes, which all others then wait for.
//! - **How.** Linux's policy for batches (`SCHED_BATCH`): such a thread waits until a processor is
//!   free or its turn comes, and has as large a part of the time as any other. A lower priority
//!   would give all programs beside this one the part of a stage that the others need, too.
//! - **Failure.** Where the system refuses it, all threads are equal.

#![cfg_attr(
    target_os = "linux",
    expect(unsafe_code, reason = "no safe library sets the policy of a thread")
)]

/// Makes the calling thread one of these.
#[cfg(target_os = "linux")]
pub fn give_way() {
    let policy = libc::sched_param { sched_priority: 0 };
    // SAFETY: the system reads a structure that outlives the call; 0 is the calling thread alone.
    let _refused = unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const policy) };
}

/// Elsewhere all threads are equal.
#[cfg(not(target_os = "linux"))]
pub fn give_way() {}

/// Whether the calling thread is one of these.
#[cfg(all(test, target_os = "linux"))]
pub(super) fn gives_way() -> bool {
    // SAFETY: it reads the policy of the calling thread.
    unsafe { libc::sched_getscheduler(0) == libc::SCHED_BATCH }
}
