//! Owners of the rows of a request.

use stepwell_base::Key;
use stepwell_base::owner::owner;

use crate::request::Request;
use crate::table_spec::TableSpec;

/// Whether owners count how often keys of `table` occur.
pub(super) fn counts(table: &TableSpec) -> bool {
    table.life.is_some()
}

/// The rows of a request by their owners.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routes {
    /// Rows by owner, each owner's in the order of the request. // (rows)
    rows: Vec<u32>,
    /// Where each owner's rows end. // (ranks)
    ends: Vec<u32>,
    /// How often each row occurs, if owners count that. // (rows)
    pub(super) occurs: Vec<u32>,
}

impl Routes {
    /// Finds the owners, among `ranks` ranks, of the rows of `request` in `table`.
    pub fn find(&mut self, table: &TableSpec, request: &Request, ranks: usize) {
        self.occurs.clear();
        if counts(table) {
            self.occurs.resize(request.distinct.len(), 0);
            request.occurrence_rows.iter().for_each(|row| self.occurs[*row as usize] += 1);
        }
        let owners: Vec<u8> = request.distinct.iter().map(|key| owner(*key, ranks) as u8).collect();
        self.ends.clear();
        self.ends.resize(ranks, 0);
        owners.iter().for_each(|owner| self.ends[usize::from(*owner)] += 1);
        // `ends` starts as where each owner's rows begin; each placed row advances it.
        let mut before = 0;
        for count in &mut self.ends {
            before += std::mem::replace(count, before);
        }
        self.rows.clear();
        self.rows.resize(owners.len(), 0);
        for (row, owner) in owners.iter().enumerate() {
            let place = &mut self.ends[usize::from(*owner)];
            self.rows[*place as usize] = row as u32;
            *place += 1;
        }
    }

    /// The rows whose owner is rank `owner`.
    pub fn of(&self, owner: usize) -> &[u32] {
        let start = if owner == 0 { 0 } else { self.ends[owner - 1] };
        &self.rows[start as usize..self.ends[owner] as usize]
    }

    /// Keys of the rows whose owner is rank `owner`.
    pub(super) fn keys<'a>(
        &'a self,
        owner: usize,
        request: &'a Request,
    ) -> impl ExactSizeIterator<Item = Key> + 'a {
        self.of(owner).iter().map(|row| request.distinct[*row as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_goes_to_its_owner_in_order() {
        let distinct: Vec<Key> = (0..1000).map(|n| Key(n * 7919)).collect();
        let request = Request { distinct, ..Request::default() };
        let rule = stepwell_optim::Rule::sgd(0.1);
        let optimizer = stepwell_optim::RowOptimizer::new(rule).unwrap();
        let table = TableSpec::new(0, "t", 2, optimizer);
        let mut routes = Routes::default();
        for ranks in [1, 2, 3, 8, 256] {
            routes.find(&table, &request, ranks);
            let mut rows = Vec::new();
            for rank in 0..ranks {
                assert!(routes.of(rank).is_sorted());
                assert!(routes.keys(rank, &request).all(|key| owner(key, ranks) == rank));
                rows.extend_from_slice(routes.of(rank));
            }
            rows.sort_unstable();
            assert!(rows.iter().copied().eq(0..1000));
        }
    }
}
