//! A network that joins ranks on separate machines, in the notation `25Gbit,5us`.

use std::str::FromStr;

/// A link of each rank to all others, both ways at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Network {
    /// Rate of each rank's link, in each direction.
    pub bytes_per_second: f64,
    /// Time of an empty message from a link's end to its receiver.
    pub latency_seconds: f64,
}

const RATES: [(&str, f64); 4] = [("Gbit", 1e9), ("Mbit", 1e6), ("kbit", 1e3), ("bit", 1.0)];
/// Units per second; `s` comes last, since the others end with it.
const TIMES: [(&str, f64); 4] = [("ns", 1e9), ("us", 1e6), ("ms", 1e3), ("s", 1.0)];

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = || {
            let (rate, latency) = text.split_once(',')?;
            let rate = rate.trim();
            let (rate, unit) = value(rate.strip_suffix("/s").unwrap_or(rate), &RATES)?;
            let (latency, of_second) = value(latency.trim(), &TIMES)?;
            let (bytes_per_second, latency_seconds) = (rate * unit / 8.0, latency / of_second);
            let is_rate = RATE.contains(&(8.0 * bytes_per_second));
            let is_link = is_rate && latency_seconds <= LATENCY_MAX;
            is_link.then_some(Self { bytes_per_second, latency_seconds })
        };
        read().ok_or_else(|| {
            format!(
                "'{text}': write the rate of a link and its latency, such as 25Gbit,5us (bit, \
                 kbit, Mbit or Gbit, from 1 kbit to 1,000,000 Gbit; ns, us, ms or s, at most 60 s)"
            )
        })
    }
}

/// Allowed rates, in bits per second.
const RATE: std::ops::RangeInclusive<f64> = 1e3..=1e15;
/// The longest latency in seconds.
const LATENCY_MAX: f64 = 60.0;

/// A non-negative number and its unit, one of `units`.
fn value(text: &str, units: &[(&str, f64)]) -> Option<(f64, f64)> {
    let of_unit = |(unit, of): &(&str, f64)| Some((text.strip_suffix(unit)?, *of));
    let (number, unit) = units.iter().find_map(of_unit)?;
    let value = number.trim().parse::<f64>().ok()?;
    (value.is_finite() && value >= 0.0).then_some((value, unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_latencies_are_read() {
        let read = |text: &str| {
            let network: Network = text.parse().unwrap();
            (8.0 * network.bytes_per_second, network.latency_seconds)
        };
        assert_eq!(read("25Gbit,5us"), (25e9, 5e-6));
        assert_eq!(read(" 100 Mbit/s, 1.5 ms "), (1e8, 1.5e-3));
        assert_eq!(read("8kbit,200ns"), (8e3, 2e-7));
        assert_eq!(read("9000bit/s,0s"), (9e3, 0.0));
    }

    #[test]
    fn anything_else_is_one_line_that_says_how() {
        let wrong = [
            "1e-9bit,5us",
            "999bit,5us",
            "1Gbit,61s",
            "1e300Gbit,5us",
            "",
            "25Gbit",
            "5us",
            "5us,25Gbit",
            "25GB,5us",
            "25Gbit,5",
            "25,5us",
            "0Gbit,5us",
            "-1Gbit,5us",
            "1Gbit,-5us",
            "infGbit,5us",
            "NaNbit,5us",
            "1Gbit,5us,",
            "Gbit,us",
        ];
        for text in wrong {
            let error = text.parse::<Network>().unwrap_err();
            assert!(error.contains("such as 25Gbit,5us"), "{error}");
            assert_eq!(error.lines().count(), 1);
        }
    }
}
