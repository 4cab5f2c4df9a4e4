//! The trainer through its public interface.

mod absurd_settings;
mod batch_norm;
mod common;
mod dense_on_devices;
mod devices;
mod din;
mod dropout;
mod early_stopping;
mod last_step;
mod life;
mod most_used_on_devices;
mod negatives;
mod oracle;
mod out_of_step;
mod pooled_on_devices;
mod pretrained;
mod profile;
mod ranks;
mod rates_and_means;
mod session;
mod steps;
mod stop;
mod streams;
mod tables;
mod two_tower;
mod values;
