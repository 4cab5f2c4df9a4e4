//! Tests of sources through the public API, in one program.

#[cfg(test)]
mod adverse;
#[cfg(test)]
mod any_file;
#[cfg(test)]
mod common;
#[cfg(test)]
mod criteo;
#[cfg(test)]
mod data_cache;
#[cfg(test)]
mod dresses;
#[cfg(test)]
mod formats;
#[cfg(test)]
mod guesses;
#[cfg(test)]
mod hashed_lists;
#[cfg(test)]
mod lists;
#[cfg(test)]
mod malformed;
#[cfg(test)]
mod names;
#[cfg(test)]
mod packed;
#[cfg(test)]
mod packed_damage;
#[cfg(test)]
mod passes;
#[cfg(test)]
mod path_columns;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod rows;
#[cfg(test)]
mod shares;
#[cfg(test)]
mod sign_hash;
#[cfg(test)]
mod soft_labels;
#[cfg(test)]
mod sources;
#[cfg(test)]
mod stages;
#[cfg(test)]
mod statistics;
#[cfg(test)]
mod typed;
#[cfg(test)]
mod types;
#[cfg(test)]
mod values;
