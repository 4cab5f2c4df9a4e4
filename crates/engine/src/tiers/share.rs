//! Divides memory among tables: tables with an assigned amount get it; the others divide the rest
//! by the bytes of rows that an example touches.

/// Memory request of one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Want {
    /// Bytes assigned to the table; `None` for a share of the rest.
    pub(super) given: Option<u64>,
    /// Bytes of the table's rows that an example is expected to touch (ids times bytes of a slot
    /// with metadata), in any unit common to all tables.
    pub(super) touched: u64,
}

/// Bytes for each of `wants`; they sum to `total`, or less if all were assigned.
///
/// # Errors
/// If the assigned bytes exceed `total`: their sum.
pub(super) fn share(total: u64, wants: &[Want]) -> Result<Vec<u64>, u64> {
    let given = wants.iter().filter_map(|want| want.given);
    let given = given.fold(0u64, u64::saturating_add);
    let left = total.checked_sub(given).ok_or(given)?;
    let rest = wants.iter().filter(|want| want.given.is_none());
    let touched: u128 = rest.map(|want| u128::from(want.touched)).sum();
    // Shares end at rounded prefix sums, so rounding loses no byte.
    let (mut before, mut end) = (0u128, 0u64);
    let of = |want: &Want| {
        if let Some(given) = want.given {
            return given;
        }
        before += u128::from(want.touched);
        let start = end;
        end = (u128::from(left).saturating_mul(before) / touched.max(1)) as u64;
        end - start
    };
    Ok(wants.iter().map(of).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn want(given: impl Into<Option<u64>>, touched: u64) -> Want {
        Want { given: given.into(), touched }
    }

    #[test]
    fn what_is_left_goes_by_the_bytes_that_an_example_touches() {
        assert_eq!(share(100, &[want(None, 7)]), Ok(vec![100]));
        assert_eq!(share(100, &[want(None, 1), want(None, 3)]), Ok(vec![25, 75]));
        let wants = [want(None, 2), want(40, 9), want(None, 1)];
        assert_eq!(share(100, &wants), Ok(vec![40, 40, 20]));
        let half = u64::MAX / 2;
        assert_eq!(share(u64::MAX, &[want(None, 1), want(None, 1)]), Ok(vec![half, half + 1]));
        assert_eq!(share(100, &[]), Ok(Vec::new()));
        assert_eq!(share(100, &[want(None, 0), want(None, 0)]), Ok(vec![0, 0]));
    }

    #[test]
    fn no_byte_is_lost_where_parts_are_rounded() {
        for total in [0, 1, 2, 65_535, 65_536, 1 << 40] {
            for parts in [&[1, 1, 1][..], &[3, 0, 7, 11], &[1; 26], &[u64::MAX; 3]] {
                let wants: Vec<Want> = parts.iter().map(|part| want(None, *part)).collect();
                let shares = share(total, &wants).unwrap();
                assert_eq!(shares.iter().sum::<u64>(), total, "{parts:?} of {total}");
            }
        }
    }

    #[test]
    fn more_than_there_is_cannot_be_given() {
        assert_eq!(share(100, &[want(60, 1), want(41, 1)]), Err(101));
        assert_eq!(share(100, &[want(60, 1), want(40, 1), want(None, 1)]), Ok(vec![60, 40, 0]));
        assert_eq!(share(1, &[want(u64::MAX, 1), want(9, 1)]), Err(u64::MAX));
    }
}
