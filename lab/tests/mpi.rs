//! `bench ranks` beside MPI's own messages.

#[path = "../../crates/stepwell/tests/it/common/mod.rs"]
mod common;

use common::{Workshop, read_json};

/// The program under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_stepwell-lab");

#[test]
fn messages_are_measured_beside_those_of_mpi() {
    let shop = Workshop::new();
    let launcher = "mpirun --oversubscribe --bind-to none -n 2";
    let parts = ["--parts", "exchange", "--rounds", "1", "--launcher", launcher];
    let args = ["bench", "ranks", "--json", "ranks.json"];
    shop.ok(&[&args[..], &parts].concat());
    let figures = read_json(&shop.path("ranks.json"));
    let ratio = figures["alltoallv_over_raw"].as_f64().unwrap();
    assert!((0.001..1000.0).contains(&ratio), "{ratio}");
    let exchanges = figures["exchanges"].as_array().unwrap();
    let over_mpi = exchanges.iter().filter(|of| of["fabric"] == "mpi");
    assert_eq!(over_mpi.count() * 2, exchanges.len(), "each size by threads and by MPI");
    let failed = ["bench", "ranks", "--parts", "exchange", "--rounds", "1", "--launcher", "false"];
    let output = shop.run(&failed);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && error.contains("--launcher 'false': it failed"), "{error}");
}
