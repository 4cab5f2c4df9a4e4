//! Losses of a label and their gradients, computed in f64 with pure-Rust exp and ln.

/// Loss of one label of an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Loss {
    /// Binary cross entropy in nats, of a label in [0, 1] and the probability with this logit.
    #[default]
    LogLoss,
    /// Squared difference of the logit and the label, which may be any number.
    SquaredError,
}

/// Prediction, loss and derivative for one logit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Probability of a positive label, or the expected number.
    pub prediction: f64,
    /// Loss.
    pub loss: f64,
    /// Derivative of the loss by the logit.
    pub slope: f64,
}

impl Loss {
    /// All losses.
    pub const ALL: [Self; 2] = [Self::LogLoss, Self::SquaredError];

    /// Name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LogLoss => "log_loss",
            Self::SquaredError => "squared_error",
        }
    }

    /// Prediction and loss of an example with this `label`.
    ///
    /// The log loss uses e = exp(-|z|), which never overflows: p = 1/(1+e) for z ≥ 0, e/(1+e)
    /// below, and the loss is max(z, 0) - z y + ln(1+e).
    #[inline]
    pub fn outcome(self, logit: f64, label: f64) -> Outcome {
        match self {
            Self::LogLoss => {
                let e = libm::exp(-logit.abs());
                let p = if logit < 0.0 { e / (1.0 + e) } else { 1.0 / (1.0 + e) };
                let positive_part = if logit < 0.0 { 0.0 } else { logit };
                let loss = positive_part - logit * label + libm::log1p(e);
                Outcome { prediction: p, loss, slope: p - label }
            }
            Self::SquaredError => {
                let error = logit - label;
                Outcome { prediction: logit, loss: error * error, slope: 2.0 * error }
            }
        }
    }

    /// Prediction of a logit.
    pub fn prediction(self, logit: f32) -> f32 {
        self.outcome(f64::from(logit), 0.0).prediction as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        let half = Loss::LogLoss.outcome(0.0, 1.0);
        assert!((half.loss - std::f64::consts::LN_2).abs() < 1e-15 && half.prediction == 0.5);
        // ln(1 + exp(-2)) and 1 / (1 + exp(-2)).
        let two = Loss::LogLoss.outcome(2.0, 1.0);
        assert!((two.loss - 0.126_928_011_042_972_6).abs() < 1e-15);
        assert!((two.prediction - 0.880_797_077_977_882_3).abs() < 1e-15);
        let mirrored = Loss::LogLoss.outcome(-2.0, 0.0);
        assert!((mirrored.loss - two.loss).abs() < 1e-15);
        let squared = Loss::SquaredError.outcome(2.5, -1.0);
        assert_eq!((squared.prediction, squared.loss, squared.slope), (2.5, 12.25, 7.0));
    }

    #[test]
    fn extreme_logits_stay_finite() {
        for (logit, label, loss) in
            [(1e4, 1.0, 0.0), (1e4, 0.0, 1e4), (-1e4, 1.0, 1e4), (-1e4, 0.0, 0.0)]
        {
            assert_eq!(Loss::LogLoss.outcome(logit, label).loss, loss);
        }
        assert!(Loss::LogLoss.outcome(f64::NAN, 1.0).loss.is_nan());
        assert!(Loss::SquaredError.outcome(f64::NAN, 1.0).loss.is_nan());
    }
}
