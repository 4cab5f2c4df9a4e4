//! The GeePS study with a small part of the real data: properties that hold at any size.

mod mnist;

use stepwell_study::{Effort, draw, geeps};

#[test]
fn bounds_hold_nothing_is_lost_and_little_memory_costs_little() {
    let Some(folder) = mnist::folder() else { return };
    let options = geeps::StudyOptions { effort: Effort::Quick, part: 40, seed: 1 };
    let figures = geeps::run(folder.path(), &options, &mut |_| {}).unwrap();
    assert_eq!(figures.lost_updates, 0);
    for of in &figures.settings {
        let mode = |name: &str| &of.modes[name];
        for (name, most) in [("bsp", 0), ("ssp_1", 1), ("ssp_3", 3)] {
            assert_eq!(mode(name).slack, Some(most));
            assert!(mode(name).staleness_max <= most, "{}, {name}: {of:?}", of.model);
        }
        // Less waiting makes runs faster; layers sent separately are waited for less.
        assert!(mode("bsp").stall > mode("ssp_1").stall, "{of:?}");
        assert!(mode("ssp_1").seconds_per_clock >= mode("async").seconds_per_clock, "{of:?}");
        assert!(of.single_table_stall > mode("bsp").stall, "{of:?}");
    }
    let memory = &figures.memory;
    assert!(memory.least_share < 0.35 && memory.losses[1] < memory.losses[0], "{memory:?}");
    let over_full = figures.throughput_over_full["0.35"];
    assert!(over_full > 0.4, "{over_full}, on a machine that may be busy");
    for at in &memory.speeds[0].shares {
        assert!(at.predicted >= 0.73 && at.predicted < 1.01, "{at:?}");
    }
    let copied = |off: &str| {
        let of = memory.switches.iter().find(|of| of.off == off).unwrap();
        (of.bytes_up, of.bytes_down)
    };
    let (all, fetched, saved) =
        (copied("nothing"), copied("reads without fetch"), copied("releases without save"));
    assert!(fetched.0 > all.0 && saved.1 > all.1 && copied("handing over").0 > all.0);
    let page = geeps::page(&figures);
    assert!(page.contains("lost updates: 0") && page.contains("(figure 12)"), "{page}");
    let svg = draw(&geeps::plots(&figures)).unwrap();
    assert!(svg.contains("throughput by memory") && svg.contains("cnn, Delays"));
}
