//! Lists that describe a mini-batch to a device that pools and trains it.

use stepwell_kernels::{FREQUENT_BAGS, NONE, PoolTable, UpdateTable};
use stepwell_optim::Storage;

use super::exchange::firsts;
use crate::Result;
use crate::blocks::Blocks;
use crate::device::pool_asked::PoolAsked;
use crate::device::visits::Visit;
use crate::device_tier::describe::{SentTables, SlabAt, counts, describe, rounding, storage};
use crate::device_tier::pool_buffers::Pooled;
use crate::device_tier::tier::{DeviceTier, OneDevice};
use crate::device_tier::visitor::Visitor;
use crate::request::{BagsByRow, Request};
use crate::table_spec::TableSpec;

/// A sequence of lists under construction.
struct Words<'a> {
    words: &'a mut [u32],
    end: usize,
}

impl Words<'_> {
    /// Appends `values`; returns where they begin.
    fn put(&mut self, values: impl Iterator<Item = u32>) -> u32 {
        let first = self.end;
        for value in values {
            self.words[self.end] = value;
            self.end += 1;
        }
        first as u32
    }

    fn copy(&mut self, values: &[u32]) -> u32 {
        let first = self.end;
        self.end += values.len();
        self.words[first..self.end].copy_from_slice(values);
        first as u32
    }

    /// Appends the bits of `values` and returns where they begin; [`NONE`] if there are none.
    fn factors(&mut self, values: &[f32]) -> u32 {
        if values.is_empty() {
            return NONE;
        }
        self.put(values.iter().map(|value| value.to_bits()))
    }

    /// Aligns the end to an even word.
    fn make_even(&mut self) {
        self.end = self.end.next_multiple_of(2);
    }
}

/// Position of each row's weights among those of all devices, in units of `unit` lanes.
pub(super) struct Places {
    unit: usize,
    of_tables: Vec<Vec<u32>>, // (tables) of (rows)
}

/// How the examples of a mini-batch are laid out on devices that pool.
pub(super) struct Laid {
    blocks: Blocks,
    slot_rows: usize,
    /// Matrix row of each example; `None` if each is the example's own number.
    rows: Option<Vec<u32>>,
}

impl Laid {
    pub(super) fn new(blocks: Blocks, slot_rows: usize) -> Self {
        let starts = (0..blocks.count()).map(|block| (block, blocks.range(block)));
        let rows = starts.flat_map(|(block, range)| {
            (0..range.len()).map(move |at| (block * slot_rows + at) as u32)
        });
        let are_same = (0..blocks.count()).all(|block| {
            blocks.start(block) == block * slot_rows || blocks.range(block).is_empty()
        });
        Self { blocks, slot_rows, rows: (!are_same).then(|| rows.collect()) }
    }

    /// Appends the bag ends of `own` blocks, with `fields` bags per example, counted from the first
    /// occurrence there; bags of padding between blocks are empty.
    fn ends(&self, words: &mut Words<'_>, own: Blocks, fields: usize, request: &Request) -> u32 {
        let first = words.end as u32;
        let start = own.place().start;
        let before = request.occurrences_before(start * fields) as u32;
        for block in 0..own.count() {
            let range = own.range(block);
            let bags = (start + range.start) * fields..(start + range.end) * fields;
            let end = request.occurrences_before(bags.end) as u32 - before;
            words.put(request.ends[bags].iter().map(|end| end - before));
            let gap = (self.slot_rows - range.len()) * fields;
            words.put(std::iter::repeat_n(end, gap));
        }
        first
    }

    /// Appends the bags of one row, as numbered in the layout.
    fn bags(&self, words: &mut Words<'_>, fields: u32, bags: &[u32]) {
        match &self.rows {
            None => words.copy(bags),
            Some(rows) => words.put(bags.iter().map(|bag| {
                let example = bag / fields;
                rows[example as usize] * fields + (bag - example * fields)
            })),
        };
    }
}

impl DeviceTier {
    /// Positions of all rows' weights on every device, if there are several devices.
    pub(super) fn places(&self, visits: &[Vec<Visit<'_>>], asked: &PoolAsked<'_>) -> Places {
        let mut of_tables = vec![Vec::new(); asked.tables.len()];
        if self.is_alone() {
            return Places { unit: 1, of_tables };
        }
        for (rows, part) in of_tables.iter_mut().zip(asked.parts) {
            rows.resize(part.request.distinct.len(), NONE);
        }
        let all = || visits.iter().flatten();
        let is_four = all().all(|visit| visit.first_lane % 4 == 0 && visit.lanes % 4 == 0);
        let unit = if is_four { 4 } else { 1 };
        for (first, visits) in firsts(visits).zip(visits) {
            for visit in visits {
                for (index, row) in visit.on.rows.iter().enumerate() {
                    let lane = first + visit.first_lane + index * visit.lanes;
                    of_tables[visit.table][*row as usize] = (lane / unit) as u32;
                }
            }
        }
        Places { unit, of_tables }
    }

    /// Builds all lists of a mini-batch for device `device`.
    pub(super) fn list_all(
        &self,
        visitor: &mut Visitor,
        device: usize,
        visits: &[Vec<Visit<'_>>],
        places: &Places,
        laid: &Laid,
        asked: &PoolAsked<'_>,
    ) -> Result<()> {
        let (one, own) = (&self.devices[device], &visits[device]);
        visitor.begin(self, device, asked.parts)?;
        let sizes = self.pool_sizes();
        let (slots, _) = Visit::end(own);
        let Visitor { lists_host, tables_host, pool: Some(room), .. } = &mut *visitor else {
            panic!("this device does not pool")
        };
        let lists = lists_host.len();
        let words = Words { words: lists_host.write(lists)?, end: slots };
        let mut listing = Listing { words, laid, asked };
        let mut described = Vec::new();
        if let Some(step) = asked.step {
            described = listing.describe_all(one, own, step);
        }
        let pools = room.pools_host.write(asked.tables.len())?;
        if device < sizes.devices {
            let blocks = asked.blocks.part(device, sizes.devices);
            for (table, pool) in pools.iter_mut().enumerate() {
                let visit = visit_of(own, table);
                let at = match self.is_alone() {
                    true => Rows::In(visit.slots, one.slabs[visit.group]),
                    false => Rows::At(places.unit, &places.of_tables[table]),
                };
                *pool = listing.pool_table(table, at, blocks);
            }
        }
        let end = listing.words.end;
        room.words = end;
        let items: u32 = described.iter().map(|table| table.items() as u32).sum();
        room.pooled = asked.step.map(|_| Pooled {
            number: asked.number,
            tables: SentTables {
                words: end,
                tables: described.len(),
                items,
                frequent: described.iter().map(|table| table.frequent_rows).sum(),
                counts: counts(&described),
            },
            rows: own.iter().map(|visit| visit.rows_at(one)).collect(),
            examples: asked.blocks.count() * sizes.slot_rows,
        });
        tables_host.write(described.len())?.copy_from_slice(&described);
        let mut sent = visitor.list(one, own)?;
        visitor.listed = Some(asked.number);
        visitor.stream.record(&visitor.fetched)?;
        visitor.lists_up(slots..end)?;
        sent += end - slots;
        let room = visitor.pool();
        let (stream, count) = (&visitor.stream, asked.tables.len());
        stream.up(&room.pools_host, 0..count, &room.pools, 0)?;
        if !described.is_empty() {
            stream.up(&visitor.tables_host, 0..described.len(), &visitor.tables, 0)?;
        }
        self.copied_up(sent);
        Ok(())
    }
}

/// The lists of a mini-batch for one device, under construction.
struct Listing<'a> {
    words: Words<'a>,
    laid: &'a Laid,
    asked: &'a PoolAsked<'a>,
}

impl Listing<'_> {
    /// Describes all tables whose rows a device updates in step `step`, in order.
    fn describe_all(&mut self, one: &OneDevice, own: &[Visit<'_>], step: u64) -> Vec<UpdateTable> {
        let Self { laid, asked, .. } = *self;
        let blocks = laid.blocks.count();
        let block_ends = (1..=blocks).map(|block| (block * laid.slot_rows) as u32);
        let mut first_item = 0;
        let tables = asked.tables.iter().zip(asked.parts).enumerate();
        let described = tables.map(|(number, (spec, part))| {
            let visit = visit_of(own, number);
            let mut table = describe(spec, one.slabs[visit.group], visit.on.slots.len());
            table.slots = visit.slots as u32;
            if spec.storage != Storage::F32 {
                self.words.make_even();
                table.rounding = self.words.put(rounding(spec, &visit.on.keys, step));
            }
            let fields = &asked.columns.of_fields[number];
            table.fields = fields.len() as u32;
            table.columns = self.words.put(fields.iter().map(|field| field.column as u32));
            table.block_ends = self.words.put(block_ends.clone());
            table.blocks = blocks as u32;
            self.put_bags(&mut table, &part.rows.bags, &visit.on.rows);
            table.first_item = first_item;
            first_item += table.items() as u32;
            table
        });
        described.collect()
    }

    /// Describes table `table`, whose bags in `own` blocks are pooled.
    fn pool_table(&mut self, table: usize, rows: Rows<'_>, own: Blocks) -> PoolTable {
        let Self { words, laid, asked } = self;
        let (spec, request): (&TableSpec, &Request) =
            (&asked.tables[table], &asked.parts[table].request);
        let fields = asked.columns.of_fields[table].len();
        let (slots, at) = match rows {
            Rows::In(slots, at) => (slots as u32, (at.first_lane as u64, at.row_lanes as u32)),
            Rows::At(unit, places) => (words.copy(places), (0, unit as u32)),
        };
        let place = own.place();
        let occurrences = request.occurrences_before(place.start * fields)
            ..request.occurrences_before(place.end * fields);
        let factors = match request.is_weighed() {
            true => &request.factors[occurrences.clone()],
            false => &[],
        };
        PoolTable {
            slab: at.0,
            row_lanes: at.1,
            slots,
            occurrence_rows: words.copy(&request.occurrence_rows[occurrences]),
            ends: laid.ends(words, own, fields, request),
            factors: words.factors(factors),
            fields: fields as u32,
            dim: spec.dim as u32,
            wide: spec.wide as u32,
            storage: storage(spec.storage),
            padding: 0,
        }
    }

    /// Appends the bags of the rows with these numbers.
    fn put_bags(&mut self, table: &mut UpdateTable, bags: &BagsByRow, rows: &[u32]) {
        let Self { words, laid, .. } = self;
        let mut end = 0;
        let count = |row: &u32| bags.range(*row as usize).len() as u32;
        table.bag_ends = words.put(rows.iter().map(|row| {
            end += count(row);
            end
        }));
        let frequent = rows.iter().zip(0..).filter(|(row, _)| count(row) > FREQUENT_BAGS);
        table.frequent = words.put(frequent.map(|(_, index)| index));
        table.frequent_rows = words.end as u32 - table.frequent;
        table.bags = words.end as u32;
        if rows.len() == bags.ends.len() {
            laid.bags(words, table.fields, &bags.bags);
            table.bag_factors = words.factors(&bags.factors);
            return;
        }
        for row in rows {
            laid.bags(words, table.fields, bags.of(*row as usize));
        }
        if !bags.factors.is_empty() {
            table.bag_factors = words.end as u32;
            for row in rows {
                words.factors(&bags.factors[bags.range(*row as usize)]);
            }
        }
    }
}

/// Where the rows of a pooled table are: in slots listed from a word on, or at positions among the
/// weights of all devices.
enum Rows<'a> {
    In(usize, SlabAt),
    At(usize, &'a [u32]),
}

fn visit_of<'a, 'b>(visits: &'a [Visit<'b>], table: usize) -> &'a Visit<'b> {
    let visit = visits.iter().find(|visit| visit.table == table);
    visit.unwrap_or_else(|| panic!("table {table} is not on this device"))
}
