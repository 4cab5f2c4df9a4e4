//! All settings as one JSON object, as reports and checkpoints keep them.

use serde_json::{Map, Value};

use crate::config::Config;
use crate::find::find;
use crate::given::Given;
use crate::table::SETTINGS;

/// All settings of `config` as one flat JSON object.
pub fn to_json(config: &Config) -> Value {
    let pairs = SETTINGS.iter().map(|setting| (setting.key.to_owned(), setting.get(config)));
    Value::Object(pairs.collect::<Map<String, Value>>())
}

/// Settings as [`to_json`] wrote them.
///
/// # Errors
/// When one cannot be read by this build.
pub fn from_json(value: &Value) -> Result<Config, String> {
    let mut config = Config::default();
    for (key, value) in value.as_object().into_iter().flatten() {
        let setting = find(key)?;
        match value {
            Value::Array(values) => {
                let parts: Vec<String> = values.iter().map(text_of).collect();
                setting.give(&mut config, Given::List(&parts))?;
            }
            value => setting.set(&mut config, &text_of(value))?,
        }
    }
    Ok(config)
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}
