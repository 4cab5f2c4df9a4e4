//! Prints `docs/settings.md`.

#![expect(clippy::print_stdout, reason = "it is what this does")]

fn main() {
    print!("{}", stepwell_settings::page());
}
