//! Counts of things in messages.

/// `1 page`, `2 pages`.
pub fn counted(count: u64, thing: &str) -> String {
    let end = if count == 1 { "" } else { "s" };
    format!("{count} {thing}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular() {
        let said = [0, 1, 2].map(|count| counted(count, "damaged place"));
        assert_eq!(said, ["0 damaged places", "1 damaged place", "2 damaged places"]);
    }
}
