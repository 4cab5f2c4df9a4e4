//! The machine's limits, and the share of them that kernels and layers reach.
//!
//! `stepwell-lab bench cpu` measures the limits and writes them to a file; `train --limits FILE`
//! prints the rates of a run next to them.

use std::path::Path;

use serde::{Deserialize, Serialize};
use stepwell_nn::Precision;

use crate::profile::{Bound, KernelReport, LayerReport};
use crate::{Error, Result};

/// How to make a file of limits.
const MEASURE: &str = "measure here with `stepwell-lab bench cpu --json FILE`";

/// Rates that a number of threads reaches together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Number of threads.
    pub threads: usize,
    /// Fused multiply-adds of f32 in registers; each counts as two operations.
    pub fma_flops_per_second: f64,
    /// Products of two 1024 x 1024 f32 matrices, with the library that models use.
    pub gemm_flops_per_second: f64,
    /// Like `gemm_flops_per_second`, in bf16, with the kernel for this machine.
    pub bf16_gemm_flops_per_second: f64,
    /// Bytes copied from one large array to another.
    pub memcpy_bytes_per_second: f64,
    /// Bytes of rows with 17 lanes, read at random from 1 GiB per thread.
    pub gather_bytes_per_second: f64,
}

/// The part of the figures of `bench cpu` that is read.
#[derive(Debug, Deserialize)]
struct File {
    machine: Machine,
    limits: Vec<Limits>,
}

#[derive(Debug, Deserialize)]
struct Machine {
    cpu: String,
}

impl Limits {
    /// Reads the limits of one thread that `bench cpu` wrote to `path` on this machine.
    ///
    /// # Errors
    /// If the file cannot be read, or has no limits of one thread of this processor.
    pub fn read(path: &Path) -> Result<Self> {
        let text = stepwell_data::read_text(path)?;
        let fail = |why| Error::Limits { path: path.to_owned(), why };
        Self::of_one_thread(&text, &stepwell_base::processor()).map_err(fail)
    }

    /// Finds the limits of one thread in `text`, figures that a machine with `processor` wrote.
    fn of_one_thread(text: &str, processor: &str) -> std::result::Result<Self, String> {
        let file: File = serde_json::from_str(text).map_err(|error| {
            format!("not what `stepwell-lab bench cpu` writes ({error}); {MEASURE}")
        })?;
        if file.machine.cpu != processor {
            let there = file.machine.cpu;
            return Err(format!(
                "machine.cpu is '{there}', but this machine has '{processor}'; {MEASURE}"
            ));
        }
        let of_one = file.limits.into_iter().find(|limits| limits.threads == 1);
        let of_one = of_one.ok_or_else(|| {
            format!(
                "limits has no entry for 1 thread; {MEASURE}, --threads 1 and without --no-limits"
            )
        })?;
        for (field, rate) in [
            ("gemm_flops_per_second", of_one.gemm_flops_per_second),
            ("bf16_gemm_flops_per_second", of_one.bf16_gemm_flops_per_second),
            ("memcpy_bytes_per_second", of_one.memcpy_bytes_per_second),
            ("gather_bytes_per_second", of_one.gather_bytes_per_second),
        ] {
            if !(rate > 0.0 && rate.is_finite()) {
                return Err(format!("limits.{field} for 1 thread is {rate}; {MEASURE}"));
            }
        }
        Ok(of_one)
    }

    /// Operations per second of matrix products in `precision`.
    pub fn gemm(&self, precision: Precision) -> f64 {
        match precision {
            Precision::F32 => self.gemm_flops_per_second,
            Precision::Bf16 => self.bf16_gemm_flops_per_second,
        }
    }

    /// Sets the limit of each kernel and layer of a model of `precision`. Only limits of one thread
    /// make sense here.
    pub fn put_beside(
        &self,
        kernels: &mut [KernelReport],
        layers: &mut [LayerReport],
        precision: Precision,
    ) {
        let products = self.gemm(precision);
        let gemm = |flops: u64, rate| (flops > 0).then(|| bound("gemm", products, rate));
        for kernel in kernels {
            kernel.limit = match kernel.name.as_str() {
                "forward" | "backward" => gemm(kernel.flops, kernel.flops_per_second),
                "gather" | "rows" => {
                    Some(bound("gather", self.gather_bytes_per_second, kernel.bytes_per_second))
                }
                // A copied byte is read and written, and the kernel counts both.
                "dense" => {
                    let moved = 2.0 * self.memcpy_bytes_per_second;
                    Some(bound("memcpy", moved, kernel.bytes_per_second))
                }
                _ => None,
            };
        }
        for pass in layers.iter_mut().flat_map(|layer| [&mut layer.forward, &mut layer.backward]) {
            pass.limit = gemm(pass.flops, pass.flops_per_second);
        }
    }
}

fn bound(name: &'static str, per_second: f64, rate: f64) -> Bound {
    Bound { name, per_second, achieved: if per_second > 0.0 { rate / per_second } else { 0.0 } }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::profile::PassReport;

    fn limits() -> Limits {
        Limits {
            threads: 1,
            fma_flops_per_second: 80.0,
            gemm_flops_per_second: 40.0,
            bf16_gemm_flops_per_second: 100.0,
            memcpy_bytes_per_second: 6.0,
            gather_bytes_per_second: 4.0,
        }
    }

    fn figures() -> Value {
        let two = Limits { threads: 2, ..limits() };
        json!({ "machine": { "cpu": "A", "cores": 2 }, "limits": [two, limits()], "runs": [] })
    }

    fn read(figures: &Value) -> std::result::Result<Limits, String> {
        Limits::of_one_thread(&figures.to_string(), "A")
    }

    #[test]
    fn limits_of_one_thread_are_found() {
        assert_eq!(read(&figures()), Ok(limits()));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let wrong = |pointer: &str, value: Value| {
            let mut figures = figures();
            *figures.pointer_mut(pointer).unwrap() = value;
            let why = read(&figures).unwrap_err();
            assert!(why.ends_with(MEASURE) || why.contains("--threads 1"), "{why}");
            assert_eq!(why.lines().count(), 1, "{why}");
            why
        };
        assert!(wrong("/machine/cpu", json!("B")).contains("machine.cpu is 'B'"));
        assert!(wrong("/machine", Value::Null).contains("invalid type: null"));
        assert!(wrong("/limits", json!([])).contains("no entry for 1 thread"));
        assert!(wrong("/limits", json!([{ "threads": 1 }])).contains("missing field"));
        let rate = "limits.gemm_flops_per_second for 1 thread is 0";
        assert!(wrong("/limits/1/gemm_flops_per_second", json!(0.0)).contains(rate));
        let rate = "limits.gather_bytes_per_second for 1 thread is -1";
        assert!(wrong("/limits/1/gather_bytes_per_second", json!(-1.0)).contains(rate));
        let why = Limits::of_one_thread("[1", "A").unwrap_err();
        assert!(why.starts_with("not what `stepwell-lab bench cpu` writes"), "{why}");
    }

    fn reports() -> (Vec<KernelReport>, Vec<LayerReport>) {
        let kernel = |name: &str, flops: u64, bytes: u64| KernelReport {
            name: name.to_owned(),
            seconds: 1.0,
            flops,
            bytes,
            flops_per_second: flops as f64,
            bytes_per_second: bytes as f64,
            limit: None,
        };
        let pass = |flops: u64| PassReport {
            seconds: 1.0,
            flops,
            flops_per_second: flops as f64,
            limit: None,
        };
        let kernels = vec![
            kernel("gather", 0, 3),
            kernel("forward", 10, 0),
            kernel("loss", 0, 0),
            kernel("backward", 30, 0),
            kernel("rows", 0, 1),
            kernel("dense", 0, 9),
        ];
        let name = "joined".to_owned();
        (kernels, vec![LayerReport { name, forward: pass(20), backward: pass(0) }])
    }

    #[test]
    fn each_is_beside_what_bounds_it() {
        let (mut kernels, mut layers) = reports();
        limits().put_beside(&mut kernels, &mut layers, Precision::F32);
        let is = |name, per_second, achieved| Some(Bound { name, per_second, achieved });
        let found: Vec<_> = kernels.into_iter().map(|kernel| kernel.limit).collect();
        let expected = [
            is("gather", 4.0, 0.75),
            is("gemm", 40.0, 0.25),
            None,
            is("gemm", 40.0, 0.75),
            is("gather", 4.0, 0.25),
            is("memcpy", 12.0, 0.75),
        ];
        assert_eq!(found, expected);
        assert_eq!(layers[0].forward.limit, is("gemm", 40.0, 0.5));
        assert_eq!(layers[0].backward.limit, None);
    }

    #[test]
    fn products_in_bf16_have_a_limit_of_their_own() {
        let (mut kernels, mut layers) = reports();
        limits().put_beside(&mut kernels, &mut layers, Precision::Bf16);
        let is = |achieved| Some(Bound { name: "gemm", per_second: 100.0, achieved });
        assert_eq!(kernels[1].limit, is(0.1));
        assert_eq!(layers[0].forward.limit, is(0.2));
        assert_eq!(kernels[5].limit.as_ref().map(|limit| limit.per_second), Some(12.0));
    }
}
