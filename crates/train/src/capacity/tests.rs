//! Resources of ranks in one process, and of processes on one machine.

use super::*;
use crate::models::Model;
use crate::run_plan::RunPlan;

#[test]
fn a_rank_that_is_a_process_takes_its_own_plan() {
    let mut config = Config::default();
    config.ranks.count = 4;
    let plan = RunPlan::of(&config).unwrap();
    let schema = plan.schema();
    let model = Model::build(&config, schema).unwrap();
    let wants = |threads, processes| {
        let wanted = Wanted {
            plan: &plan,
            schema,
            inputs: [None; 2],
            model: &model,
            offer: None,
            examples: Some(1000),
            from: None,
            before: None,
            scores: false,
            has_rows: false,
            rows: None,
            cache: None,
            ranks: RanksHere { threads, processes },
        };
        let capacity = Capacity::plan(&wanted).unwrap();
        (capacity.wants(&wanted), capacity.budget.total())
    };
    let (of_threads, total) = wants(4, 1);
    assert_eq!((of_threads.bytes, of_threads.processes), (4 * total, 1));
    // Each on a separate machine, and two on each machine.
    for processes in [1, 2] {
        let (of_process, total) = wants(1, processes);
        assert_eq!((of_process.bytes, of_process.processes), (total, processes as u64));
        assert_eq!(4 * of_process.threads, of_threads.threads);
    }
}
