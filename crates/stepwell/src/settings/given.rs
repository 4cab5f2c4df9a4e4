//! What people give a setting, read as what it means.

use std::fmt::{self, Display};
use std::str::FromStr;

use stepwell_base::ByteCount;
use stepwell_mem::PolicyKind;
use stepwell_nn::Precision;
use stepwell_optim::Storage;
use stepwell_train::config::{ModelKind, OptimizerConfig, OptimizerKind};

/// What a setting is given: a text, or a list where it comes as one.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Given<'a> {
    /// From a flag, or one value of a file; of a list its parts with commas between them.
    Text(&'a str),
    /// From a file.
    List(&'a [String]),
}

impl Given<'_> {
    /// One value.
    pub(super) fn text(&self) -> Result<&str, String> {
        match self {
            Self::Text(text) => Ok(text),
            Self::List(_) => Err("give one value, not a list".to_owned()),
        }
    }
}

impl Display for Given<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::List(parts) => write!(f, "[{}]", parts.join(", ")),
        }
    }
}

pub(super) fn number<T: FromStr>(given: Given<'_>) -> Result<T, String> {
    of_text(given.text()?)
}

fn of_text<T: FromStr>(text: &str) -> Result<T, String> {
    let plain = text.replace('_', "");
    plain.parse().map_err(|_| {
        let kind = match std::any::type_name::<T>() {
            "f64" => "a number",
            "bool" => "true or false",
            "u8" => "a whole number up to 255",
            _ if plain.bytes().all(|byte| byte.is_ascii_digit()) && !plain.is_empty() => {
                "a whole number up to 18446744073709551615"
            }
            _ => "a whole number",
        };
        format!("give {kind}")
    })
}

pub(super) fn bytes(given: Given<'_>) -> Result<ByteCount, String> {
    let parsed = given.text()?.parse();
    parsed.map_err(|error: stepwell_base::bytes::ByteCountError| error.to_string())
}

pub(super) fn list(given: Given<'_>) -> Vec<String> {
    match given {
        Given::Text(text) => {
            let parts = text.split(',').map(str::trim);
            parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
        }
        Given::List(parts) => parts.to_vec(),
    }
}

/// Widths of layers: `64,32`, or as files have them and messages show them, `[64, 32]`.
pub(super) fn widths(given: Given<'_>) -> Result<Vec<usize>, String> {
    let given = match given {
        Given::Text(text) => {
            let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
            Given::Text(inner.unwrap_or(text))
        }
        given => given,
    };
    let widths: Result<Vec<usize>, String> = list(given).iter().map(|one| of_text(one)).collect();
    widths.map_err(|why| format!("{why} for each layer, such as 512,256; none for no layer"))
}

const OPTIMIZERS: [(&str, OptimizerKind); 3] = [
    ("sgd", OptimizerKind::Sgd),
    ("adagrad", OptimizerKind::Adagrad),
    ("adam", OptimizerKind::Adam),
];

/// The model of this name.
pub(crate) fn model(given: Given<'_>) -> Result<ModelKind, String> {
    named(&ModelKind::ALL.map(|kind| (kind.name(), kind)), given)
}

pub(super) fn precision(given: Given<'_>) -> Result<Precision, String> {
    named(&Precision::ALL.map(|precision| (precision.name(), precision)), given)
}

pub(super) fn policy(given: Given<'_>) -> Result<PolicyKind, String> {
    named(&PolicyKind::ALL.map(|kind| (kind.name(), kind)), given)
}

pub(super) fn storage(given: Given<'_>) -> Result<Storage, String> {
    named(&Storage::ALL.map(|storage| (storage.name(), storage)), given)
}

pub(super) fn optimizer(given: Given<'_>) -> Result<OptimizerKind, String> {
    named(&OPTIMIZERS, given)
}

pub(super) fn optimizer_name(config: &OptimizerConfig) -> &'static str {
    OPTIMIZERS.iter().find(|(_, known)| *known == config.kind).map_or("", |(name, _)| name)
}

fn named<T: Copy>(known: &[(&str, T)], given: Given<'_>) -> Result<T, String> {
    let text = given.text()?;
    known.iter().find(|(name, _)| *name == text).map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        format!("give one of {}", names.join(", "))
    })
}
