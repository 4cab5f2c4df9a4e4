//! Examples with ids of known frequency, so that the best possible cache is known.

use std::path::Path;

use stepwell_base::Key;
use stepwell_base::random::{Stream, finalize};
use stepwell_data::{Chunk, PackedOptions, PackedWriter, Schema, SynthOptions, Zipf};

use crate::{Error, Result};

/// Examples made at once.
const CHUNK: u64 = 4096;
/// Share of clicks.
const CLICKS: f64 = 0.25;

/// Ids of all slots with their frequencies.
#[derive(Clone, Debug)]
pub(crate) struct Ids {
    /// Number of ids of each slot.
    pub(super) vocabularies: Vec<u64>,
    /// Exponent of the ids' frequencies.
    pub(super) skew: f64,
}

impl Ids {
    /// About `rows` ids in 26 slots: equally many, or in the proportions of `criteo_tb_80k`.
    pub(crate) fn new(rows: u64, equal: bool, skew: f64) -> Self {
        let sample = SynthOptions { vocab_scale: 1.0, ..SynthOptions::default() }.vocabularies();
        let total: u64 = sample.iter().sum();
        let scaled = |ids: &u64| ((u128::from(*ids) * u128::from(rows)) / u128::from(total)) as u64;
        let vocabularies = match equal {
            true => vec![(rows / sample.len() as u64).max(1); sample.len()],
            false => sample.iter().map(|ids| scaled(ids).max(1)).collect(),
        };
        Self { vocabularies, skew }
    }

    /// Number of ids of all slots.
    pub(super) fn count(&self) -> u64 {
        self.vocabularies.iter().sum()
    }

    /// Key of the `rank`-th most frequent id of a slot, from 1: a bijection.
    pub(crate) fn key(slot: usize, rank: u64) -> Key {
        Key(finalize(((slot as u64 + 1) << 48) | rank))
    }

    /// Key of id `number` of all ids.
    pub(super) fn key_of(&self, mut number: u64) -> Key {
        for (slot, ids) in self.vocabularies.iter().enumerate() {
            if number < *ids {
                return Self::key(slot, number + 1);
            }
            number -= ids;
        }
        unreachable!("a number below `count`")
    }

    /// Draws the ids of `examples` examples, with the distribution of written examples.
    pub(super) fn draw(&self, examples: u64, take: &mut dyn FnMut(Key)) {
        let zipfs = self.zipfs();
        let mut dice = Stream::from_state(11);
        for _ in 0..examples {
            for (slot, zipf) in zipfs.iter().enumerate() {
                take(Self::key(slot, zipf.rank(dice.next_u64(), dice.next_u64())));
            }
        }
    }

    /// Distribution of each slot's ids.
    pub(crate) fn zipfs(&self) -> Vec<Zipf> {
        self.vocabularies.iter().map(|ids| Zipf::new(*ids, self.skew)).collect()
    }

    /// Writes `examples` examples to a packed file.
    pub(super) fn write(&self, examples: u64, path: &Path) -> Result<()> {
        let schema = Schema::CRITEO;
        let data = |error: stepwell_data::DataError| Error::Arguments(error.to_string());
        let mut writer = PackedWriter::new(path, &PackedOptions::new(schema)).map_err(data)?;
        let zipfs = self.zipfs();
        let mut dice = Stream::from_state(7);
        let mut chunk = Chunk::new(schema);
        for first in (0..examples).step_by(CHUNK as usize) {
            chunk.clear();
            chunk.first_line = first;
            for example in 0..CHUNK.min(examples - first) {
                chunk.lines.push(example as u32);
                chunk.labels.push(f32::from(u8::from(dice.next_f64() < CLICKS)));
                chunk.dense.extend((0..schema.dense).map(|_| dice.next_f32()));
                for (slot, zipf) in zipfs.iter().enumerate() {
                    let rank = zipf.rank(dice.next_u64(), dice.next_u64());
                    chunk.keys.push(Self::key(slot, rank));
                    chunk.bag_ends.push(chunk.keys.len() as u32);
                }
            }
            writer.add(&chunk).map_err(data)?;
        }
        writer.finish().map_err(data)?;
        Ok(())
    }
}
