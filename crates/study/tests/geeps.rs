//! The study of GeePS with a small part of the real data: what must hold at any size.

use std::path::PathBuf;

use stepwell_study::{draw, geeps};

#[test]
fn looser_modes_wait_less_and_lose_nothing() {
    let Some(folder) = std::env::var_os("STEPWELL_DATA") else {
        return stepwell_skip::skipped("STEPWELL_DATA is not set");
    };
    let options = geeps::StudyOptions { quick: true, part: std::env::var("PART").map_or(4, |v| v.parse().unwrap()), seed: 1 };
    let folder = PathBuf::from(folder).join("mnist");
    let figures = geeps::run(&folder, &options, &mut |what| println!("{what}")).unwrap();
    println!("{}", geeps::page(&figures));
    assert_eq!(figures.lost_updates, 0);
    assert!(draw(&geeps::plots(&figures)).unwrap().contains("fcnn"));
}
