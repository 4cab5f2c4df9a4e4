//! Requests of all ranks to an owner, and their union, which the owner plans.

use stepwell_base::Key;
use stepwell_fabric::{Error, Malformed, Message, Reader};

use super::routes::{Routes, counts};
use crate::request::{Grouper, Request};
use crate::table_spec::TableSpec;
use crate::working_set::Part;

/// Adds to `message` the request to rank `owner` for one table, in the format of [`unite`].
pub fn put_ask(
    message: &mut Message,
    table: &TableSpec,
    request: &Request,
    (routes, owner): (&Routes, usize),
) {
    let keys: &mut [u64] = message.room(routes.of(owner).len());
    keys.iter_mut().zip(routes.keys(owner, request)).for_each(|(place, key)| *place = key.0);
    if !counts(table) {
        return message.put::<u32>(&[]);
    }
    let of_owner = message.room(routes.of(owner).len());
    of_owner
        .iter_mut()
        .zip(routes.of(owner))
        .for_each(|(count, row)| *count = routes.occurs[*row as usize]);
}

/// Makes the parts that the owner plans, by table, from the rest of each rank's message.
///
/// Keys are in the order in which one rank would meet them: blocks of ranks are adjacent and
/// ordered, and so are their requests.
///
/// # Errors
/// Names the rank that sent an invalid message.
pub fn unite(
    grouper: &mut Grouper,
    tables: &[TableSpec],
    mut readers: Vec<Reader<'_>>,
    parts: &mut [Part],
) -> Result<(), Error> {
    let mut keys: Vec<Key> = Vec::new();
    for (table, part) in tables.iter().zip(parts) {
        part.clear();
        keys.clear();
        for (rank, reader) in readers.iter_mut().enumerate() {
            let wrong = |why| Error::malformed(rank, why);
            let of_rank: &[u64] = reader.take().map_err(wrong)?;
            let count = if counts(table) { of_rank.len() } else { 0 };
            part.askers.counts.extend_from_slice(reader.take_exactly(count).map_err(wrong)?);
            keys.extend(of_rank.iter().copied().map(Key));
            let all = u32::try_from(keys.len());
            part.askers.ends.push(all.map_err(|_| wrong(Malformed::Wrong("too many rows")))?);
        }
        part.request.ends.extend(1..=keys.len() as u32);
        // The keys are salted already.
        grouper.group_into(&keys, 0, &mut part.request);
    }
    for (rank, reader) in readers.into_iter().enumerate() {
        reader.end().map_err(|why| Error::malformed(rank, why))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use stepwell_optim::{RowOptimizer, Rule};

    use super::*;
    use crate::life::{Admission, Life};
    use crate::request::Bags;

    fn table() -> TableSpec {
        TableSpec::new(0, "t", 2, RowOptimizer::new(Rule::sgd(0.1)).unwrap())
    }

    /// Requests of ranks for `table`.
    fn asks(of_ranks: &[&[u64]], table: &TableSpec) -> Vec<Message> {
        let ask = |keys: &&[u64]| {
            let keys = keys.iter().copied().map(Key).collect();
            let request = Grouper::default().group(&Bags { keys, ..Bags::default() });
            let mut routes = Routes::default();
            routes.find(table, &request, 1);
            let mut message = Message::new();
            put_ask(&mut message, table, &request, (&routes, 0));
            message
        };
        of_ranks.iter().map(ask).collect()
    }

    fn readers(messages: &[Message]) -> Vec<Reader<'_>> {
        messages.iter().map(Message::reader).collect()
    }

    #[test]
    fn the_union_is_in_the_order_of_one_rank() {
        let life = Life { admission: Admission::After(3), expire_after: 0 };
        let table = TableSpec { life: Some(life), ..table() };
        let messages = asks(&[&[5, 6, 5], &[], &[7, 6, 6, 6]], &table);
        let mut parts = vec![Part::default()];
        for _ in 0..2 {
            let tables = std::slice::from_ref(&table);
            unite(&mut Grouper::default(), tables, readers(&messages), &mut parts).unwrap();
            let Part { request, askers, .. } = &parts[0];
            assert_eq!(request.distinct, [5, 6, 7].map(Key));
            assert_eq!(request.occurrence_rows, [0, 1, 2, 1]);
            assert_eq!((&askers.ends[..], &askers.counts[..]), (&[2, 2, 4][..], &[2, 1, 1, 3][..]));
            assert_eq!((askers.range(0), askers.range(1), askers.range(2)), (0..2, 2..2, 2..4));
        }
    }

    #[test]
    fn a_message_that_makes_no_sense_names_its_rank() {
        let table = table();
        let whole = asks(&[&[5, 6], &[7]], &table);
        let words = whole[1].words();
        let mut too_long = words.to_vec();
        too_long.push(0);
        let cut = (0..words.len()).map(|length| words[..length].to_vec());
        for wrong in cut.chain([too_long]) {
            let messages = [whole[0].clone(), Message::from_words(wrong)];
            let tables = std::slice::from_ref(&table);
            let parts = &mut [Part::default()];
            let error =
                unite(&mut Grouper::default(), tables, readers(&messages), parts).unwrap_err();
            assert!(matches!(error, Error::Malformed { rank: 1, .. }), "{error}");
        }
    }
}
