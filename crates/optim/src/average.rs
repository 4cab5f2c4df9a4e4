//! Exponential moving averages of parameters.

/// Weight of new values in an exponential moving average with this decay.
pub fn gain(decay: f64) -> f32 {
    (1.0 - decay) as f32
}

/// Moves `mean` towards `values`: `mean += (1 - decay) (values - mean)`.
///
/// # Panics
/// If the lengths differ.
pub fn average(mean: &mut [f32], values: &[f32], decay: f64) {
    assert_eq!(mean.len(), values.len(), "a mean of each value");
    let gain = gain(decay);
    mean.iter_mut().zip(values).for_each(|(mean, value)| *mean += gain * (value - *mean));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_follows_its_values_as_in_f64() {
        let (mut mean, mut wide) = ([1.0f32, -2.0, 0.0], [1.0f64, -2.0, 0.0]);
        for step in 0..300 {
            let values = [0.5, 3.0, (step % 7) as f32];
            average(&mut mean, &values, 0.99);
            for (wide, value) in wide.iter_mut().zip(values) {
                *wide = 0.99 * *wide + 0.01 * f64::from(value);
            }
        }
        for (mean, wide) in mean.iter().zip(wide) {
            assert!((f64::from(*mean) - wide).abs() < 1e-5, "{mean} {wide}");
        }
        let mut last = [1.0, 2.0];
        average(&mut last, &[3.0, -4.0], 0.0);
        assert_eq!(last, [3.0, -4.0]);
        average(&mut last, &[5.0, -8.0], 0.75);
        assert_eq!(last, [3.5, -5.0]);
    }
}
