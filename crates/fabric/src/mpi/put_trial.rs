//! Tries whether one rank can put into the memory of another without that rank's help.
//!
//! - **Why.** MPI may implement one-sided puts by messages that the receiver answers in its own
//!   calls, as Open MPI's `osc/pt2pt` does. Then a put waits for the receiver, whatever that is
//!   doing, and forever if it was stopped. Parcels are better in that case, as no rank waits for
//!   them. MPI does not report how it puts, so it is tried.
//! - **How.** Half of the ranks stay out of MPI, and poll their memory. The others put a number
//!   there and some bytes, wait for these puts, and put another number. A rank that sees that
//!   number while out of MPI knows that the earlier puts completed without it. Then the halves
//!   change roles, and so for each binary digit of the ranks' numbers: any two ranks differ in one
//!   of them.
//! - **Failure.** A rank that is too late to be seen counts as not reached: parcels work, too. A
//!   thread of MPI that answers for a rank looks like hardware; a stop signal stops it.
//! - **Cost.** A window, and some microseconds if puts work, [`AWAY`] if they do not.

use std::sync::atomic::Ordering;
use std::time::Duration;

use stepwell_base::clock::{Clock, SystemClock};

use super::raw::{Port, Result};
use super::rma::Window;

/// Bytes that are put between the two numbers: MPI may manage without the receiver for few bytes,
/// and not for many.
const LARGE: usize = 256 << 10;
/// The longest time that ranks stay out of MPI.
pub(super) const AWAY: Duration = Duration::from_millis(500);

/// Whether every rank reaches every other one; all ranks call this together, and get the same
/// answer.
pub(super) fn holds(port: &Port) -> Result<bool> {
    let size = port.size();
    if size == 1 {
        return Ok(false);
    }
    let Some(window) = Window::open(port, LARGE, drop)? else { return Ok(false) };
    let mut holds = true;
    for round in 0..2 * size.next_power_of_two().trailing_zeros() {
        holds = holds && is_reached(port, &window, round)?;
    }
    window.close()?;
    Ok(holds)
}

/// Whether the ranks that stay out in this round are reached.
fn is_reached(port: &Port, window: &Window, round: u32) -> Result<bool> {
    let (own, size) = (port.rank(), port.size());
    let is_away = |rank: usize| (rank >> (round / 2)) as u32 & 1 == round & 1;
    let (first, second) = (2 * u64::from(round) + 1, 2 * u64::from(round) + 2);
    port.meet()?;
    let is_reached = if is_away(own) {
        let clock = SystemClock::new();
        let all_came = || {
            let mut others = (0..size).filter(|rank| !is_away(*rank));
            others.all(|rank| window.words()[rank].load(Ordering::Relaxed) == second)
        };
        while !all_came() && clock.seconds() < AWAY.as_secs_f64() {
            std::thread::yield_now();
        }
        all_came()
    } else {
        // Zeros, no matter which ranks put them.
        let zeros = || vec![0; 1 + LARGE / size_of::<u64>()];
        let reach = |to| -> Result<()> {
            window.count(to, own, first)?;
            window.put(to, 0, zeros(), LARGE, usize::MAX)?;
            window.count(to, own, second)
        };
        (0..size).filter(|rank| is_away(*rank)).all(|to| reach(to).is_ok())
    };
    Ok(port.gather(u64::from(is_reached))?.iter().all(|reached| *reached == 1))
}
