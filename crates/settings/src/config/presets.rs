//! Layouts of well-known data sets.

use super::{ColumnConfig, ColumnType, TransformKind};

/// A named layout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PresetKind {
    /// Criteo's click logs: a label, 13 numbers and 26 ids, separated by tabs.
    #[default]
    Criteo,
    /// Census income of UCI (`adult.data`).
    Adult,
    /// Avazu's click logs (`train.csv` of the Kaggle contest).
    Avazu,
    /// MovieLens (`ratings.csv`): whether a film is rated 4 or better.
    MovieLens,
}

impl PresetKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Criteo, Self::Adult, Self::Avazu, Self::MovieLens];

    /// Name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Criteo => "criteo",
            Self::Adult => "adult",
            Self::Avazu => "avazu",
            Self::MovieLens => "movielens",
        }
    }
}

/// The columns of a data set, and how its files are read.
pub(super) struct Preset {
    pub(super) columns: Vec<ColumnConfig>,
    pub(super) trim: bool,
    pub(super) missing: &'static [&'static str],
}

/// Columns with the same settings: names and ranges, type, rule.
struct Alike(&'static [&'static str], ColumnType, Rule);

enum Rule {
    Plain,
    Positive(&'static [&'static str]),
    Log1p,
    /// Means and deviations.
    Standardise(&'static [f64], &'static [f64]),
}

use ColumnType::{Dense, Id, Ignored, Label};
use Rule::{Log1p, Plain, Positive, Standardise};

const CRITEO: &[Alike] = &[
    Alike(&["label"], Label, Plain),
    Alike(&["I1-I13"], Dense, Log1p),
    Alike(&["C1-C26"], Id, Plain),
];

/// In the order of `adult.data`, which has no header. The statistics are over its 32,561 rows.
const ADULT: &[Alike] = &[
    Alike(&["age"], Dense, Standardise(&[38.58], &[13.64])),
    Alike(&["workclass"], Id, Plain),
    Alike(&["fnlwgt"], Ignored, Plain),
    Alike(&["education"], Id, Plain),
    Alike(&["education-num"], Dense, Standardise(&[10.08], &[2.573])),
    Alike(&["marital-status", "occupation", "relationship", "race", "sex"], Id, Plain),
    Alike(&["capital-gain", "capital-loss"], Dense, Log1p),
    Alike(&["hours-per-week"], Dense, Standardise(&[40.44], &[12.35])),
    Alike(&["native-country"], Id, Plain),
    Alike(&["income"], Label, Positive(&[">50K", ">50K."])),
];

const AVAZU: &[Alike] = &[
    Alike(&["id"], Ignored, Plain),
    Alike(&["click"], Label, Plain),
    Alike(&["hour"], Ignored, Plain),
    Alike(&["C1", "banner_pos", "site_id", "site_domain", "site_category"], Id, Plain),
    Alike(&["app_id", "app_domain", "app_category"], Id, Plain),
    Alike(&["device_id", "device_ip", "device_model", "device_type"], Id, Plain),
    Alike(&["device_conn_type", "C14-C21"], Id, Plain),
];

const MOVIELENS: &[Alike] = &[
    Alike(&["userId", "movieId"], Id, Plain),
    Alike(&["rating"], Label, Positive(&["4", "4.0", "4.5", "5", "5.0"])),
    Alike(&["timestamp"], Ignored, Plain),
];

/// The preset of this kind.
pub(super) fn of(kind: PresetKind) -> Preset {
    let (columns, trim, missing): (_, _, &[&str]) = match kind {
        PresetKind::Criteo => (CRITEO, false, &[]),
        PresetKind::Adult => (ADULT, true, &["?"]),
        PresetKind::Avazu => (AVAZU, false, &[]),
        PresetKind::MovieLens => (MOVIELENS, false, &[]),
    };
    Preset { columns: columns.iter().map(Alike::config).collect(), trim, missing }
}

impl Alike {
    fn config(&self) -> ColumnConfig {
        let Self(names, kind, rule) = self;
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let mut config = ColumnConfig { names: texts(names), kind: *kind, ..Default::default() };
        match rule {
            Plain => {}
            Positive(positive) => config.positive = texts(positive),
            Log1p => config.transform = TransformKind::Log1p,
            Standardise(mean, deviation) => {
                config.transform = TransformKind::Standardise;
                (config.mean, config.deviation) = (mean.to_vec(), deviation.to_vec());
            }
        }
        config
    }
}
