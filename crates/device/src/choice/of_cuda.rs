//! Offers of NVIDIA's devices, chosen explicitly or automatically.

use super::offer::{Offer, Wanted, said};
use crate::cuda::{self, Found, FoundDevice, Settings};
use crate::device::Device;

fn offer(devices: &[&FoundDevice]) -> Offer {
    // Libraries and other processes need memory, too.
    let reserve = Settings::default().reserve_bytes;
    let free = |device: &&FoundDevice| device.free_bytes.unwrap_or(0).saturating_sub(reserve);
    let free: Vec<u64> = devices.iter().map(free).collect();
    Offer {
        names: devices.iter().map(|device| device.about.name.clone()).collect(),
        memory_bytes: free.iter().min().copied().unwrap_or(0),
        emulated: false,
        numbers: devices.iter().map(|device| device.about.number).collect(),
        free,
    }
}

/// The devices with these numbers; none given means all.
pub(super) fn cuda_offer(numbers: &[usize]) -> Result<Offer, String> {
    let Found { devices, .. } = cuda::look_at(numbers)?;
    let chosen: Vec<&FoundDevice> = devices.iter().collect();
    for device in &chosen {
        if let Some(lacks) = &device.lacks {
            return Err(format!("{} cannot be used: {lacks}", device.about.name));
        }
    }
    Ok(offer(&chosen))
}

/// All usable devices, if any; `note` receives the reasons why the others aren't usable.
pub(super) fn any_cuda(note: &dyn Fn(String)) -> Option<Offer> {
    let found = cuda::look_for_any().map_err(|why| note(format!("no GPU is used: {why}")));
    let Found { devices, .. } = found.ok()??;
    let (usable, others): (Vec<&FoundDevice>, Vec<&FoundDevice>) =
        devices.iter().partition(|device| device.lacks.is_none());
    // All may lack the same thing.
    for (index, device) in others.iter().enumerate() {
        if others[..index].iter().any(|other| other.lacks == device.lacks) {
            continue;
        }
        let alike = others.iter().filter(|other| other.lacks == device.lacks);
        let names: Vec<String> = alike.map(|device| device.about.name.clone()).collect();
        let are = if names.len() > 1 { "are" } else { "is" };
        let lacks = device.lacks.as_deref().unwrap_or_default();
        note(format!("{} {are} not used: {lacks}", said(&names)));
    }
    (!usable.is_empty()).then(|| offer(&usable))
}

pub(super) fn open_cuda(numbers: &[usize], wanted: Wanted) -> Result<Vec<Device>, String> {
    let Wanted { memory_bytes, pinned_bytes, .. } = wanted;
    let numbers = numbers.to_vec();
    let memory_bytes = Some(memory_bytes);
    cuda::find(&Settings { numbers, memory_bytes, pinned_bytes, ..Settings::default() })
}

/// Why they don't multiply, if they don't.
pub(super) fn check_can_multiply() -> Result<(), String> {
    cuda::blas_version().map(drop)
}
