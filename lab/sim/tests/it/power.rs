//! Cuts the power at every change that a run makes to its disk; each time, the run resumes from its
//! last checkpoint and ends with the same bits.

use stepwell_base::rules::Rules;
use stepwell_disk::Survival;
use stepwell_sim::{Case, Cuts, Dice, Mishap, SCHEDULES_PER_JOB, Shape, Tally, pools};

/// Changes between cuts.
const STRIDE: usize = 17;

#[test]
fn a_cut_at_any_change_costs_no_bit() {
    let stride = if std::env::var_os("STEPWELL_LONG").is_some() { 1 } else { STRIDE };
    let pools = pools().unwrap();
    let mut tally = Tally::default();
    // Tables that share a store, and one that stays in memory.
    let seeds = (6..).map(|job| job * SCHEDULES_PER_JOB);
    let shares = seeds.map(|seed| (seed, Case::of(seed, &pools).unwrap()));
    let is_it = |(_, case): &(u64, Case)| {
        let traits = case.traits();
        traits.shared && traits.whole && !traits.full
    };
    let shares = shares.into_iter().find(is_it).unwrap();
    let alone = [3, 5 * SCHEDULES_PER_JOB + 1].map(|seed| (seed, Case::of(seed, &pools).unwrap()));
    for (seed, case) in alone.into_iter().chain([shares]) {
        let mut dice = Dice::new(seed, "schedule");
        let mut shape = Shape::draw(&mut dice, &case.job().config, case.oracle());
        shape.keep_some(&mut dice);
        let rules = Rules::default();
        let uses = case.undisturbed(&shape, seed, rules, &mut tally).unwrap();
        for after in (0..uses.mutations()).step_by(stride) {
            let torn = Survival::Torn(seed + after);
            for survival in [Survival::SyncedAlone, Survival::Everything, torn] {
                let cut = Mishap::Cut { after, survival };
                let cuts = Cuts { first: cut, uses: uses.clone() };
                case.cut(&shape, seed, rules, cuts, &mut dice, &mut tally)
                    .unwrap_or_else(|finding| panic!("cut after {after}, {survival:?}: {finding}"));
            }
        }
    }
    println!("{tally:?}");
    assert!(tally.cuts > 30 && tally.resumed > 20, "{tally:?}");
}
