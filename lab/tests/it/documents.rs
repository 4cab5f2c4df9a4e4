//! Commands of the lab in the pages that people read.

use crate::common::pages::check_commands;

#[test]
fn commands_are_those_of_the_lab() {
    let count = check_commands("stepwell-lab");
    assert!(count > 10, "{count} commands");
}
