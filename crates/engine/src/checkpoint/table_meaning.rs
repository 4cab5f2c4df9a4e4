//! Meaning of a table's rows in `checkpoint.json`: everything needed to determine a key's weights,
//! whether it has a row or not.
//!
//! - **Why.** A program that serves, splits or inspects a checkpoint doesn't have the settings of
//!   the run that wrote it, and a row alone doesn't show where its weights end.
//! - **How.** Each entry of `tables[]` has every field of a [`TableSpec`]. Numbers have enough
//!   digits to identify them among all 64-bit ones, with an f32 converted to f64, so they are read
//!   with the same bits.
//! - **Failure.** Numbers that JSON can't represent are rejected on writing. Fields that are
//!   missing, as in checkpoints of earlier builds, or invalid are named.

use serde_json::{Map, Value, json};
use stepwell_base::initial::Initial;
use stepwell_base::{TableId, random};
use stepwell_optim::{Regularization, RowOptimizer, RowRule, Storage};

use super::reader::Checkpoint;
use crate::life::{Admission, Life};
use crate::table_spec::TableSpec;
use crate::{Error, Result};

/// Maximum number of weights of a row; such a row has 128 MiB or more.
const WEIGHTS_MAX: u64 = 1 << 25;

/// Result of reading a field.
type Field<T> = std::result::Result<T, String>;

/// The entry of a table whose rows are in the directory `rows`.
pub(super) fn to_json(spec: &TableSpec, rows: &str) -> Field<Value> {
    let name = &spec.name;
    let number = |what: &str, value: f64| {
        let known = Value::from(value);
        let why = || format!("table '{name}': {what} is {value}, which is not a number");
        if known.is_null() { Err(why()) } else { Ok(known) }
    };
    let of_name = ("name".to_owned(), spec.optimizer.rule().name().into());
    let mut optimizer = Map::from_iter([of_name]);
    for (setting, value) in spec.optimizer.settings() {
        optimizer.insert(setting.to_owned(), number(setting, value)?);
    }
    let life = spec.life.map(|life| {
        let admission = match life.admission {
            Admission::AtOnce => json!({ "name": "at once" }),
            Admission::After(times) => json!({ "name": "after", "times": times }),
            Admission::Chance(probability) => {
                let probability = number("the probability of admission", probability)?;
                json!({ "name": "chance", "probability": probability })
            }
        };
        Ok::<_, String>(json!({ "admission": admission, "expire_after": life.expire_after }))
    });
    let lanes = spec.parts();
    let lanes = lanes
        .iter()
        .map(|part| json!({ "name": part.name, "count": part.lanes, "holds": part.holds }));
    let (initial, value) = match spec.initial {
        Initial::Uniform { range } => ("init_range", range),
        Initial::Normal { std } => ("init_std", std),
        Initial::Constant { value } => ("init_value", value),
    };
    Ok(json!({
        "id": spec.id.0,
        "name": name,
        "dim": spec.dim,
        "wide": spec.wide,
        "storage": spec.storage.name(),
        "seed": spec.seed,
        initial: number(initial, f64::from(value))?,
        "optimizer": optimizer,
        "life": life.transpose()?,
        "lanes": lanes.collect::<Vec<Value>>(),
        "row_lanes": spec.row_lanes(),
        "salt": format!("{:016x}", spec.salt()),
        "tag": spec.shared.then(|| spec.tag()),
        "rows": rows,
    }))
}

impl Checkpoint {
    /// The description of table `number`.
    ///
    /// # Errors
    /// If the checkpoint has no such table, or was written by a build that didn't describe it
    /// completely, or by one with another initialization.
    pub fn table(&self, number: usize) -> Result<TableSpec> {
        let wrong = |why| Error::Checkpoint { path: self.path.clone(), why };
        let (ours, field) = (random::initializer_name(), &self.meta["initial_values"]);
        if field.as_str() != Some(&ours) {
            return Err(wrong(format!(
                "its initial values are made by {field}, but this build makes them by '{ours}'; \
                 use the build that wrote it"
            )));
        }
        let table = &self.meta["tables"][number];
        if table.is_null() {
            return Err(wrong(format!("has no table {number}")));
        }
        TableSpec::from_meta(table)
            .map_err(|why| wrong(format!("checkpoint.json, table {}: {why}", table["name"])))
    }
}

impl TableSpec {
    /// The table that an entry of `tables[]` in `checkpoint.json` describes.
    ///
    /// # Errors
    /// Names a field that is missing or invalid.
    pub fn from_meta(table: &Value) -> std::result::Result<Self, String> {
        let weights = |field: &str| {
            let count = unsigned(table, field)?;
            if count > WEIGHTS_MAX {
                return Err(format!("{field} is {count}, more than {WEIGHTS_MAX}"));
            }
            Ok(count as usize)
        };
        let id = unsigned(table, "id")?;
        let spec = Self {
            id: TableId(u32::try_from(id).map_err(|_| format!("id is {id}, not a u32"))?),
            name: text(table, "name")?.to_owned(),
            dim: weights("dim")?,
            wide: weights("wide")?,
            storage: storage(text(table, "storage")?)?,
            optimizer: optimizer(present(table, "optimizer")?)?,
            initial: initial(table)?,
            seed: unsigned(table, "seed")?,
            life: life(present(table, "life")?)?,
            // Tables of earlier builds each had a store.
            shared: table.get("tag").is_some_and(|tag| !tag.is_null()),
        };
        if spec.weight_count() == 0 {
            return Err("dim and wide are 0: a row has at least one weight".to_owned());
        }
        let (said, is) = (unsigned(table, "row_lanes")?, spec.row_lanes());
        if said != is as u64 {
            return Err(format!("row_lanes is {said}, but the other fields make it {is}"));
        }
        Ok(spec)
    }
}

fn present<'a>(of: &'a Value, field: &str) -> Field<&'a Value> {
    of.get(field).ok_or_else(|| {
        format!("has no {field}; an earlier build wrote it: use the settings of its run")
    })
}

fn unsigned(of: &Value, field: &str) -> Field<u64> {
    let value = present(of, field)?;
    value.as_u64().ok_or_else(|| format!("{field} is {value}, not an unsigned number"))
}

fn float(of: &Value, field: &str) -> Field<f64> {
    let value = present(of, field)?;
    value.as_f64().ok_or_else(|| format!("{field} is {value}, not a number"))
}

fn text<'a>(of: &'a Value, field: &str) -> Field<&'a str> {
    let value = present(of, field)?;
    value.as_str().ok_or_else(|| format!("{field} is {value}, not a string"))
}

fn initial(table: &Value) -> Field<Initial> {
    let single = |field| {
        let value = float(table, field)?;
        let same = f64::from(value as f32).to_bits() == value.to_bits();
        if same {
            Ok(value as f32)
        } else {
            Err(format!("{field} is {value}, not a 32-bit number"))
        }
    };
    if table.get("init_std").is_some() {
        return Ok(Initial::Normal { std: single("init_std")? });
    }
    if table.get("init_value").is_some() {
        return Ok(Initial::Constant { value: single("init_value")? });
    }
    Ok(Initial::Uniform { range: single("init_range")? })
}

fn storage(name: &str) -> Field<Storage> {
    let known = Storage::ALL.into_iter().find(|storage| storage.name() == name);
    known.ok_or_else(|| format!("storage '{name}' is not known; use the build that wrote it"))
}

fn optimizer(value: &Value) -> Field<RowOptimizer> {
    let name = text(value, "name")?;
    // A session may have been saved at a rate of 0, with which no optimizer begins.
    let has_rate = name != RowRule::Frozen.name();
    let lr = if has_rate { float(value, "lr")? } else { 0.0 };
    let setting = |setting| match setting {
        "lr" if lr == 0.0 => Ok(1.0),
        _ => float(value, setting),
    };
    let rule = RowRule::of_settings(name, setting)
        .ok_or_else(|| format!("optimizer '{name}' is not known; use the build that wrote it"))??;
    let given = |setting| value.get(setting).map_or(Ok(0.0), |_| float(value, setting));
    let regularization = Regularization::of_settings(given)?;
    let optimizer =
        RowOptimizer::new(rule).and_then(|of| of.regularized(regularization)?.with_lr(lr));
    optimizer.map_err(|error| error.to_string())
}

fn life(value: &Value) -> Field<Option<Life>> {
    if value.is_null() {
        return Ok(None);
    }
    let admission = present(value, "admission")?;
    let admission = match text(admission, "name")? {
        "at once" => Admission::AtOnce,
        "after" => {
            let times = unsigned(admission, "times")?;
            let known = u8::try_from(times).ok().filter(|times| *times > 0);
            Admission::After(known.ok_or_else(|| format!("times is {times}, not 1 to 255"))?)
        }
        "chance" => Admission::Chance(float(admission, "probability")?),
        name => {
            return Err(format!("admission '{name}' is not known; use the build that wrote it"));
        }
    };
    Ok(Some(Life { admission, expire_after: unsigned(value, "expire_after")? }))
}

#[cfg(test)]
mod tests {
    use stepwell_base::random::Stream;
    use stepwell_optim::{Adagrad, Adam, Ftrl, Momentum, Rule, Sgd};

    use super::*;

    /// Every optimizer, storage and life, with settings drawn for each.
    fn specs() -> Vec<TableSpec> {
        let mut dice = Stream::named(1, b"specs");
        let mut specs = Vec::new();
        for round in 0..40 {
            for storage in Storage::ALL {
                for rule in 0..9 {
                    for life in 0..5 {
                        specs.push(spec(&mut dice, (round, storage, rule, life)));
                    }
                }
            }
        }
        specs
    }

    fn spec(
        dice: &mut Stream,
        (round, storage, rule, life): (u64, Storage, u64, u64),
    ) -> TableSpec {
        let wide = (round % 2) as usize;
        // Any bits, except for signs, NaN, infinity, and zero in f32.
        let mut positive = || loop {
            let value = f64::from_bits(dice.next_u64() >> 1);
            if value.is_finite() && value as f32 > 0.0 {
                return value;
            }
        };
        let (lr, eps, initial_sum) = (positive(), positive(), positive());
        let size = f32::from_bits(positive().to_bits() as u32 & 0x7F7F_FFFF);
        let initial = match round % 5 {
            0..3 => Initial::Uniform { range: size },
            3 => Initial::Normal { std: size },
            _ => Initial::Constant { value: -size },
        };
        let (beta1, beta2) = (dice.next_f64(), dice.next_f64());
        let rule = match rule {
            0 => Rule::sgd(lr).into(),
            1 => Rule::Adagrad(Adagrad { lr, eps, initial: initial_sum }).into(),
            2 => Rule::Adam(Adam { lr, beta1, beta2, eps }).into(),
            3 => Rule::Momentum(Momentum { lr, momentum: beta1 }).into(),
            4 => RowRule::Ftrl(Ftrl { lr, beta: eps, l1: beta2, initial: initial_sum }),
            5 => RowRule::RowWiseAdam(Adam { lr, beta1, beta2, eps }),
            6 => RowRule::Frozen,
            7 => RowRule::CfSgd(Sgd { lr }),
            _ => RowRule::RowWiseAdagrad(Adagrad { lr, eps, initial: initial_sum }),
        };
        let regularization = Regularization {
            l2: [0.0, 0.5][round as usize % 2],
            weight_decay: [0.0, 0.0, 0.01][round as usize % 3],
            clip_norm: [0.0, 0.0, 0.0, 2.5][round as usize % 4],
            max_norm: [0.0, 1.5, 0.0][round as usize % 3],
        };
        let optimizer = RowOptimizer::new(rule).unwrap();
        let expire_after = if round % 3 == 0 { 0 } else { dice.next_u64() };
        let lives = |admission| Some(Life { admission, expire_after });
        TableSpec {
            id: TableId(dice.next_u64() as u32),
            name: format!("table \"{round}\""),
            dim: (round as usize % 9) + 1 - wide,
            wide,
            storage,
            optimizer: optimizer.regularized(regularization).unwrap(),
            initial,
            seed: dice.next_u64(),
            life: match life {
                0 => None,
                1 => lives(Admission::AtOnce),
                2 => lives(Admission::After((dice.next_u64() % 255) as u8 + 1)),
                3 => lives(Admission::Chance(dice.next_f64())),
                _ => lives(Admission::Chance(0.1)),
            },
            shared: false,
        }
    }

    fn written(spec: &TableSpec) -> Value {
        let text = format!("{:#}", to_json(spec, "rows-0").unwrap());
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn whatever_was_written_is_read_with_the_same_bits() {
        for spec in specs() {
            let json = written(&spec);
            let read = TableSpec::from_meta(&json).unwrap();
            assert_eq!(read, spec, "{json:#}");
            assert_eq!(format!("{:?}", read.initial), format!("{:?}", spec.initial));
            let settings = [&read, &spec].map(|spec| spec.optimizer.settings());
            for ((name, read), (_, wrote)) in settings[0].iter().zip(&settings[1]) {
                assert_eq!(read.to_bits(), wrote.to_bits(), "{name}");
            }
        }
    }

    #[test]
    fn the_parts_of_a_row_are_all_of_its_lanes() {
        for spec in specs() {
            let lanes: usize = spec.parts().iter().map(|part| part.lanes).sum();
            assert_eq!(lanes, spec.row_lanes(), "{spec:?}");
            let json = written(&spec);
            let counts = json["lanes"].as_array().unwrap().iter();
            let counts = counts.map(|part| part["count"].as_u64().unwrap());
            assert_eq!(counts.sum::<u64>(), lanes as u64);
        }
    }

    #[test]
    fn what_is_no_number_is_refused_when_it_is_written() {
        for range in [f32::NAN, f32::INFINITY] {
            let spec = TableSpec { initial: Initial::Uniform { range }, ..specs().remove(0) };
            let why = to_json(&spec, "rows-0").unwrap_err();
            assert!(why.contains("init_range is") && why.contains("not a number"), "{why}");
        }
    }

    #[test]
    fn what_is_missing_or_makes_no_sense_is_named() {
        let is_uniform = |spec: &TableSpec| matches!(spec.initial, Initial::Uniform { .. });
        let spec = specs().into_iter().rfind(is_uniform).unwrap();
        for field in written(&spec).as_object().unwrap().keys() {
            let mut json = written(&spec);
            json.as_object_mut().unwrap().remove(field);
            let read = TableSpec::from_meta(&json);
            match field.as_str() {
                // For readers that don't use this type.
                "lanes" | "rows" | "salt" | "tag" => assert_eq!(read, Ok(spec.clone())),
                _ => {
                    let why = read.unwrap_err();
                    assert!(why.contains(&format!("has no {field}; an earlier build")), "{why}");
                }
            }
        }
        let wrong = |pointer: &str, value: Value| {
            let mut json = written(&spec);
            *json.pointer_mut(pointer).unwrap() = value;
            let why = TableSpec::from_meta(&json).unwrap_err();
            assert_eq!(why.lines().count(), 1);
            why
        };
        assert!(wrong("/dim", json!(1u64 << 40)).contains("dim is 1099511627776, more than"));
        assert!(wrong("/dim", json!(77)).contains("row_lanes is"));
        assert!(wrong("/id", json!(1u64 << 32)).contains("id is 4294967296, not a u32"));
        assert!(wrong("/storage", json!("f8")).contains("storage 'f8' is not known"));
        assert!(wrong("/optimizer/name", json!("magic")).contains("'magic' is not known"));
        assert!(wrong("/optimizer/lr", json!(-1)).contains("lr is -1: give a number above 0"));
        assert!(wrong("/optimizer/lr", Value::Null).contains("lr is null, not a number"));
        assert!(wrong("/init_range", json!(0.1)).contains("not a 32-bit number"));
        assert!(wrong("/seed", json!(-1)).contains("seed is -1, not an unsigned number"));
        assert!(wrong("/life/admission/name", json!("vote")).contains("'vote' is not known"));
        let mut none = written(&TableSpec { dim: 0, wide: 1, ..spec.clone() });
        none["wide"] = json!(0);
        assert!(TableSpec::from_meta(&none).unwrap_err().contains("dim and wide are 0"));
    }
}
