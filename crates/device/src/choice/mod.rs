//! The choice of devices for a process, and the search for the available ones.

#[cfg(feature = "cuda")]
mod of_cuda;
mod offer;

use std::fmt::{Display, Formatter};
use std::str::FromStr;
use std::sync::Arc;

use tracing::{info, warn};

#[cfg(feature = "cuda")]
use self::of_cuda::{any_cuda, check_can_multiply, cuda_offer, open_cuda};
pub use self::offer::{Offer, Wanted, said};
use crate::device::Device;
use crate::emulated;
use crate::product::Products;

/// Maximum number of devices of one process.
pub const DEVICES_MAX: usize = 64;

/// The devices that a process uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// All usable CUDA devices, if any.
    #[default]
    Auto,
    /// No devices: everything runs on the host.
    Host,
    /// CUDA devices with these numbers; empty means all.
    Cuda(Vec<usize>),
    /// This number of emulated devices.
    Emulated(usize),
}

impl Choice {
    /// The forms of a choice in settings.
    pub const FORMS: &str = "auto, host, cuda, cuda:0,1 or emulated:2";
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("give {}", Self::FORMS);
        let number = |text: &str| text.trim().parse::<usize>().map_err(|_| wrong());
        let (kind, of) = text.split_once(':').map_or((text, None), |(kind, of)| (kind, Some(of)));
        match (kind, of) {
            ("auto", None) => Ok(Self::Auto),
            ("host", None) => Ok(Self::Host),
            ("cuda", None) => Ok(Self::Cuda(Vec::new())),
            ("cuda", Some(of)) => {
                let numbers: Vec<usize> = of.split(',').map(number).collect::<Result<_, _>>()?;
                let twice = |(index, number)| numbers[..index].contains(number);
                if numbers.iter().enumerate().any(twice) {
                    return Err("give each device only once".to_owned());
                }
                Ok(Self::Cuda(numbers))
            }
            ("emulated", None) => Ok(Self::Emulated(1)),
            ("emulated", Some(of)) => match number(of)? {
                count @ 1..=DEVICES_MAX => Ok(Self::Emulated(count)),
                _ => Err(format!("give 1 to {DEVICES_MAX} emulated devices")),
            },
            _ => Err(wrong()),
        }
    }
}

impl Display for Choice {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Host => f.write_str("host"),
            Self::Cuda(numbers) if numbers.is_empty() => f.write_str("cuda"),
            Self::Cuda(numbers) => {
                let numbers: Vec<String> = numbers.iter().map(usize::to_string).collect();
                write!(f, "cuda:{}", numbers.join(","))
            }
            Self::Emulated(count) => write!(f, "emulated:{count}"),
        }
    }
}

impl Choice {
    /// Finds the chosen devices; `None` for the host alone, or if `Auto` finds none. With `Auto`,
    /// `note` receives the reasons why existing devices cannot be used.
    ///
    /// # Errors
    /// One line about what is missing, if devices were requested explicitly.
    pub fn offer(&self, note: &dyn Fn(String)) -> Result<Option<Offer>, String> {
        let note = |why: String| {
            warn!("{why}");
            note(why);
        };
        let offer = match self {
            Self::Host => Ok(None),
            Self::Emulated(count) => Ok(Some(Offer::emulated(*count))),
            Self::Cuda(numbers) => cuda_offer(numbers).map(Some),
            Self::Auto => Ok(any_cuda(&note)),
        };
        match &offer {
            Ok(Some(found)) => {
                info!(devices = found.said(), memory_bytes = found.memory_bytes, "devices found");
            }
            Ok(None) => info!(device = %self, "no device: rows and the dense part on the host"),
            Err(error) => warn!(device = %self, error, "device refused"),
        }
        offer
    }
}

impl Offer {
    /// Checks that the devices can compute the dense part, which needs products.
    ///
    /// # Errors
    /// One line about what is missing.
    pub fn check_can_multiply(&self) -> Result<(), String> {
        if self.emulated { Ok(()) } else { check_can_multiply() }
    }

    /// Opens the devices; emulated ones multiply with `products`.
    ///
    /// # Errors
    /// One line about what is missing.
    pub fn open(&self, wanted: Wanted, products: Arc<dyn Products>) -> Result<Vec<Device>, String> {
        if !self.emulated {
            return open_cuda(&self.numbers, wanted);
        }
        let Wanted { memory_bytes, pinned_bytes, workers } = wanted;
        let devices = self.len();
        let settings = emulated::Settings {
            devices,
            memory_bytes,
            pinned_bytes,
            workers,
            products,
            ..Default::default()
        };
        Ok(emulated::Machine::new(settings).devices().to_vec())
    }
}

#[cfg(not(feature = "cuda"))]
fn cuda_offer(_numbers: &[usize]) -> Result<Offer, String> {
    Err("this program was built without CUDA (cargo's feature cuda)".to_owned())
}

#[cfg(not(feature = "cuda"))]
fn any_cuda(_note: &dyn Fn(String)) -> Option<Offer> {
    None
}

#[cfg(not(feature = "cuda"))]
fn open_cuda(numbers: &[usize], _wanted: Wanted) -> Result<Vec<Device>, String> {
    cuda_offer(numbers).map(|_| Vec::new())
}

#[cfg(not(feature = "cuda"))]
fn check_can_multiply() -> Result<(), String> {
    cuda_offer(&[]).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PlainProducts;

    #[test]
    fn a_choice_is_read_as_it_is_shown() {
        for text in ["auto", "host", "cuda", "cuda:0", "cuda:2,0,5", "emulated:1", "emulated:64"] {
            assert_eq!(text.parse::<Choice>().unwrap().to_string(), text);
        }
        assert_eq!("emulated".parse(), Ok(Choice::Emulated(1)));
        assert_eq!("cuda:1, 3".parse(), Ok(Choice::Cuda(vec![1, 3])));
    }

    #[test]
    fn what_names_no_devices_is_refused() {
        for text in ["", "gpu", "cuda:", "cuda:x", "cuda:-1", "host:1", "auto:0", "emulated:"] {
            assert_eq!(text.parse::<Choice>(), Err(format!("give {}", Choice::FORMS)), "{text}");
        }
        for text in ["emulated:0", "emulated:65", "cuda:1,1"] {
            assert!(text.parse::<Choice>().is_err(), "{text}");
        }
    }

    #[test]
    fn ranks_share_devices_that_are_there() {
        let offer = Offer { emulated: false, ..Offer::emulated(4) };
        let second = offer.clone().part(1, 2).unwrap();
        assert_eq!(second.names, ["emulated:2", "emulated:3"]);
        let uneven = Offer { free: vec![1, 2, 4, 3], ..offer.clone() };
        let parts = [0, 1].map(|part| uneven.clone().part(part, 2).unwrap().memory_bytes);
        assert_eq!((uneven.only(0..4).memory_bytes, parts), (1, [1, 3]), "others' are not its own");
        assert!(offer.clone().part(0, 3).is_err() && offer.part(0, 8).is_err());
        assert_eq!(Offer::emulated(2).part(3, 4), Ok(Offer::emulated(2)));
    }

    #[test]
    fn emulated_devices_are_opened() {
        let wanted = Wanted { memory_bytes: 1 << 20, pinned_bytes: 1 << 16, workers: 1 };
        let devices = Offer::emulated(2).open(wanted, Arc::new(PlainProducts)).unwrap();
        let names: Vec<&str> = devices.iter().map(|device| &*device.about().name).collect();
        assert_eq!(names, ["emulated:0", "emulated:1"]);
    }
}
