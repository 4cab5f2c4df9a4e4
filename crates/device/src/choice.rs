//! Which devices a process is to use, as people say it, and what there is of them.

use std::fmt::{Display, Formatter};
use std::str::FromStr;
use std::sync::Arc;

use crate::{Device, Products, emulated};

/// Most devices that one process uses.
pub const DEVICES_MAX: usize = 64;
/// Bytes of memory that an emulated device offers.
const EMULATED_BYTES: u64 = 1 << 30;

/// Which devices a process is to use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// All CUDA devices where they can be used; otherwise none.
    #[default]
    Auto,
    /// None.
    Host,
    /// CUDA devices: those of these numbers, or all.
    Cuda(Vec<usize>),
    /// So many emulated ones.
    Emulated(usize),
}

impl Choice {
    /// How to write one.
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
                    return Err("name each device once".to_owned());
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

/// Devices that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Their names.
    pub names: Vec<String>,
    /// Bytes of memory that each of them offers: as many as the one that has least.
    pub memory_bytes: u64,
    /// Whether that is memory of the host.
    pub emulated: bool,
    numbers: Vec<usize>,
    /// Bytes of memory that each offers.
    free: Vec<u64>,
}

/// What of an offer is wanted.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Bytes of memory of each device.
    pub memory_bytes: u64,
    /// Bytes of the host's memory that each copies to and from.
    pub pinned_bytes: u64,
    /// Threads that kernels of emulated devices run on.
    pub workers: usize,
}

impl Choice {
    /// What there is of it: none where nothing but the host is wanted, or there is nothing else.
    /// `note` is told why devices that are there cannot be used, where nobody asked for them.
    ///
    /// # Errors
    /// One line that says what is missing, where somebody did.
    pub fn offer(&self, note: &dyn Fn(String)) -> Result<Option<Offer>, String> {
        match self {
            Self::Host => Ok(None),
            Self::Emulated(count) => Ok(Some(Offer::emulated(*count))),
            Self::Cuda(numbers) => cuda_offer(numbers).map(Some),
            Self::Auto => Ok(any_cuda(note)),
        }
    }
}

/// Devices of these names, as messages have them: one by one, or the first and the last of many.
pub fn said(names: &[String]) -> String {
    /// More are not listed one by one.
    const LISTED_MAX: usize = 8;
    match names {
        [first, .., last] if names.len() > LISTED_MAX => {
            format!("{} devices from {first} to {last}", names.len())
        }
        names => names.join(", "),
    }
}

impl Offer {
    /// So many emulated devices.
    pub fn emulated(count: usize) -> Self {
        Self {
            names: (0..count).map(|number| format!("emulated:{number}")).collect(),
            memory_bytes: EMULATED_BYTES,
            emulated: true,
            numbers: (0..count).collect(),
            free: vec![EMULATED_BYTES; count],
        }
    }

    /// Bytes of memory that each offers, in their order.
    pub fn free(&self) -> &[u64] {
        &self.free
    }

    /// Those at these places alone.
    pub fn only(&self, places: impl IntoIterator<Item = usize>) -> Self {
        let places: Vec<usize> = places.into_iter().collect();
        let free: Vec<u64> = places.iter().map(|place| self.free[*place]).collect();
        Self {
            names: places.iter().map(|place| self.names[*place].clone()).collect(),
            memory_bytes: free.iter().min().copied().unwrap_or(0),
            emulated: self.emulated,
            numbers: places.iter().map(|place| self.numbers[*place]).collect(),
            free,
        }
    }

    /// Whether they can compute the dense part, which takes products.
    ///
    /// # Errors
    /// One line that says what is missing.
    pub fn multiplies(&self) -> Result<(), String> {
        if self.emulated { Ok(()) } else { multiplies() }
    }

    /// How many devices.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Their names, as messages have them.
    pub fn said(&self) -> String {
        said(&self.names)
    }

    /// The name of the one that offers least memory; of emulated ones, which are alike, all.
    pub fn least(&self) -> String {
        let is_least = |(_, free): &(_, &u64)| **free == self.memory_bytes;
        let least = self.names.iter().zip(&self.free).find(is_least).filter(|_| !self.emulated);
        least.map_or_else(|| self.said(), |(name, _)| name.clone())
    }

    /// Whether there is no device.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Part `part` of `parts`, for ranks that are threads of one process: emulated devices are as
    /// many for each, others are shared out in order.
    ///
    /// # Errors
    /// When there are fewer than parts, or some would have more than others.
    pub fn part(self, part: usize, parts: usize) -> Result<Self, String> {
        if self.emulated || parts == 1 {
            return Ok(self);
        }
        let each = self.len() / parts;
        if each == 0 || !self.len().is_multiple_of(parts) {
            let (count, names) = (self.len(), self.said());
            return Err(format!(
                "{parts} ranks cannot have as many of {count} devices each ({names}): give a \
                 number of ranks that divides them, or choose device = \"host\""
            ));
        }
        Ok(self.only(part * each..(part + 1) * each))
    }

    /// Takes the devices; those that are emulated multiply by `products`.
    ///
    /// # Errors
    /// One line that says what is missing.
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
fn multiplies() -> Result<(), String> {
    cuda_offer(&[]).map(drop)
}

#[cfg(feature = "cuda")]
use self::of_cuda::{any_cuda, cuda_offer, multiplies, open_cuda};

#[cfg(feature = "cuda")]
mod of_cuda;

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
