//! Compiles id columns and their lists.

use stepwell_base::Namespace;

use crate::layout::column::{IdRule, ListRule};
use crate::layout::compiled::{Hashed, Ids, Made};
use crate::layout::values::{List, Values};
use crate::moment::TimePart;
use crate::sign_hash::OneSignHash;

/// Most ids of a list.
const LIST_MAX: usize = 65_536;

/// Compiles the id column `name` with sources `of`, which are the data columns `names`, and
/// `values`.
pub(super) fn ids_of(
    name: &str,
    (of, names): (&[usize], &[String]),
    rule: &IdRule,
    values: Values,
) -> Result<Ids, String> {
    let namespace = rule.namespace.as_deref().unwrap_or(name);
    let namespace = Namespace::new(namespace).map_err(|error| error.to_string())?;
    if rule.part != TimePart::Whole {
        let ([source], None, []) = (of, &rule.list, rule.buckets.as_slice()) else {
            let why = "is a part of a time, which is one value: give it no buckets, no list and \
                       one column";
            return Err(why.to_owned());
        };
        let made = Made::Part(*source, rule.part);
        return Ok(Ids { namespace, made, skip_missing: rule.skip_missing });
    }
    if rule.bins.is_some() && rule.list.is_none() {
        return Err("has bins, which are for lists: give it the type ids".to_owned());
    }
    let made = match (of, &rule.list, rule.buckets.as_slice()) {
        (_, Some(_), [_, ..]) => {
            return Err("has buckets and is a list: give one of them".to_owned());
        }
        ([source], Some(list), []) => {
            Made::List(List { hash: hash_of(rule)?, ..list_of(*source, list, values)? })
        }
        ([source], None, []) => Made::Text(*source),
        ([source], None, bounds) => {
            if let Some(bound) = bounds.iter().find(|bound| !(**bound as f32).is_finite()) {
                return Err(no_f32("a bucket", *bound));
            }
            let are_one = |pair: &&[f64]| pair[0] < pair[1] && pair[0] as f32 == pair[1] as f32;
            if let Some(pair) = bounds.windows(2).find(are_one) {
                return Err(format!(
                    "its buckets {:?} and {:?} are the same 32-bit number: remove one",
                    pair[0], pair[1]
                ));
            }
            let bounds: Vec<f32> = bounds.iter().map(|bound| *bound as f32).collect();
            let ascends = bounds.windows(2).all(|pair| pair[0] < pair[1]);
            if !ascends {
                return Err("its buckets do not ascend: give numbers in ascending order".to_owned());
            }
            let key = |number: usize| namespace.key_of(number.to_string().as_bytes());
            let keys = (0..=bounds.len()).map(key).collect();
            Made::Buckets { source: *source, bounds, keys }
        }
        (several, None, []) => Made::Cross(several.to_vec()),
        (several, Some(list), []) if rule.bins.is_some() => {
            Made::Hashed(hashed_of((several, names), list, rule)?)
        }
        (_, _, _) => {
            return Err(
                "is made of several columns, which are crossed: lists and buckets need a single \
                 column, unless a list has bins"
                    .to_owned(),
            );
        }
    };
    Ok(Ids { namespace, made, skip_missing: rule.skip_missing })
}

/// Compiles a list in `source` whose ids have `values`.
fn list_of(source: usize, rule: &ListRule, values: Values) -> Result<List, String> {
    let ListRule { separator, most, .. } = rule;
    if separator.is_empty() || separator.contains(['\n', '\r']) {
        return Err("nothing separates its ids: give a separator, such as |".to_owned());
    }
    if let Values::Within(mark) = values
        && separator.contains(char::from(mark))
    {
        let mark = char::from(mark);
        return Err(format!(
            "its separator contains {mark}, which separates an id from its value: give another one"
        ));
    }
    if !(1..=LIST_MAX).contains(most) {
        return Err(format!("a list has {most} ids at most: give 1 to {LIST_MAX}"));
    }
    Ok(List { source, separator: separator.clone().into_bytes(), most: *most, values, hash: None })
}

/// The hash of a list, which is the same for all lists with as many bins.
fn hash_of(rule: &IdRule) -> Result<Option<OneSignHash>, String> {
    let hash = rule.bins.map(|bins| OneSignHash::new(bins, 0));
    hash.transpose().map_err(|error| error.to_string())
}

/// Compiles a list of the ids of several columns.
fn hashed_of(
    (of, names): (&[usize], &[String]),
    list: &ListRule,
    rule: &IdRule,
) -> Result<Hashed, String> {
    if list.values.is_some() {
        return Err("is made of several columns, whose ids have no values: remove them".to_owned());
    }
    let repeated = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name));
    if let Some((_, name)) = repeated {
        return Err(format!("is made of {name} twice: name it once"));
    }
    if of.len() > list.most {
        let (count, most) = (of.len(), list.most);
        return Err(format!("is made of {count} columns, but takes {most} ids: raise its ids"));
    }
    let sources = of.iter().zip(names).map(|(source, name)| {
        let namespace = Namespace::new(name).map_err(|error| error.to_string())?;
        Ok((*source, namespace))
    });
    let sources = sources.collect::<Result<_, String>>()?;
    let hash = hash_of(rule)?.ok_or("has no bins")?;
    Ok(Hashed { sources, hash })
}

/// Error for a setting that isn't a finite `f32`.
pub(super) fn no_f32(what: &str, number: f64) -> String {
    format!("{what} is {number:?}, not a finite 32-bit number: give one from -3.4e38 to 3.4e38")
}
