//! Compiles id columns and their lists.

use stepwell_base::Namespace;

use crate::layout::column::{IdRule, ListRule};
use crate::layout::compiled::{Ids, Made};
use crate::layout::values::{List, Values};
use crate::moment::TimePart;

/// Most ids of a list.
const LIST_MAX: usize = 65_536;

/// Compiles the id column `name` with sources `of` and `values`.
pub(super) fn ids_of(
    name: &str,
    of: &[usize],
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
    let made = match (of, &rule.list, rule.buckets.as_slice()) {
        (_, Some(_), [_, ..]) => {
            return Err("has buckets and is a list: give one of them".to_owned());
        }
        ([source], Some(list), []) => Made::List(list_of(*source, list, values)?),
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
        (_, _, _) => {
            return Err(
                "is made of several columns, which are crossed: lists and buckets need a single \
                 column"
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
    Ok(List { source, separator: separator.clone().into_bytes(), most: *most, values })
}

/// Error for a setting that isn't a finite `f32`.
pub(super) fn no_f32(what: &str, number: f64) -> String {
    format!("{what} is {number:?}, not a finite 32-bit number: give one from -3.4e38 to 3.4e38")
}
