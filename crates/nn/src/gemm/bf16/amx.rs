//! Tile unit in hardware: AMX with its BF16 extension, one instruction per method.
//!
//! - **Invariants.**
//!   - NN-I3: tile registers are used only while a [`Tiles`] exists, on one thread. The compiler
//!     keeps nothing in them (it has no type for them), so they keep their contents between two
//!     blocks of assembly; the system saves them when it switches threads.
//!   - NN-I4: a [`Tiles`] exists only if [`is_here`] is true: the processor has the instructions,
//!     and the system lets this process use the registers.
//!   - NN-I5: while a [`Tiles`] exists, all eight registers have 16 lines of 64 bytes. So a load
//!     reads exactly the 1 KiB of a [`Tile`], in lines 64 bytes apart, and a store writes 64 bytes
//!     of each of 16 lines.

use std::arch::asm;
use std::arch::x86_64::__cpuid_count;
use std::sync::OnceLock;

use super::panel::{Panel, Unit};
use super::tiles::{ByTiles, TileUnit};
use crate::gemm::tile::{LINES, Tile};

/// Bytes between lines of a tile in memory.
const STRIDE: usize = 4 * LINES;

#[derive(Debug)]
pub(super) struct Amx;

impl Unit for Amx {
    #[expect(unsafe_code, reason = "calls a function with instructions that not every CPU has")]
    fn run(&self, panel: Panel<'_>) {
        assert!(is_here(), "NN-I4");
        // SAFETY: the assertion above.
        unsafe { run(panel) }
    }
}

/// The sums use AVX-512 vectors, which every processor with tiles has.
#[target_feature(enable = "avx512f")]
fn run(panel: Panel<'_>) {
    panel.run(&mut ByTiles(Tiles::new()));
}

/// Whether this machine has the unit and this process may use it; asks the system once.
pub(super) fn is_here() -> bool {
    static IS_HERE: OnceLock<bool> = OnceLock::new();
    *IS_HERE.get_or_init(|| {
        let vectors = is_x86_feature_detected!("avx512f");
        vectors && has_instructions() && saves_registers() && is_permitted()
    })
}

/// Whether the processor has AMX-BF16 and AMX-TILE, and a palette of eight registers of 16 lines of
/// 64 bytes.
fn has_instructions() -> bool {
    const BF16: u32 = 1 << 22;
    const TILE: u32 = 1 << 24;
    let leaves = __cpuid_count(0, 0).eax;
    if leaves < 0x1d || __cpuid_count(7, 0).edx & (BF16 | TILE) != BF16 | TILE {
        return false;
    }
    let palette = __cpuid_count(0x1d, 1);
    let (line_bytes, registers) = (palette.ebx & 0xffff, palette.ebx >> 16);
    line_bytes as usize >= STRIDE && registers >= 8 && palette.ecx & 0xffff >= LINES as u32
}

/// Whether the system saves tile registers: bits 17 and 18 of XCR0.
#[expect(unsafe_code, reason = "reads a control register")]
fn saves_registers() -> bool {
    const OSXSAVE: u32 = 1 << 27;
    const TILES: u32 = 0b11 << 17;
    if __cpuid_count(1, 0).ecx & OSXSAVE == 0 {
        return false;
    }
    let low: u32;
    // SAFETY: OSXSAVE was checked, so any program may read XCR0; memory isn't accessed.
    unsafe {
        asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") _,
            options(nomem, nostack, preserves_flags));
    }
    low & TILES == TILES
}

/// Requests permission from Linux to use tile registers in all threads of the process.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "a system call without a wrapper in the standard library")]
fn is_permitted() -> bool {
    const ARCH_PRCTL: usize = 158;
    const ARCH_REQ_XCOMP_PERM: usize = 0x1023;
    const XTILEDATA: usize = 18;
    let result: usize;
    // SAFETY: the call takes two numbers and only changes a permission; the instruction overwrites
    // rcx and r11.
    unsafe {
        asm!("syscall", inlateout("rax") ARCH_PRCTL => result, in("rdi") ARCH_REQ_XCOMP_PERM,
            in("rsi") XTILEDATA, out("rcx") _, out("r11") _, options(nostack));
    }
    result == 0
}

#[cfg(not(target_os = "linux"))]
fn is_permitted() -> bool {
    false
}

/// Operand of `ldtilecfg`: palette, then bytes per line and lines of each register.
#[repr(C, align(64))]
struct Shapes {
    palette: u8,
    start_line: u8,
    reserved: [u8; 14],
    line_bytes: [u16; 16],
    lines: [u8; 16],
}

static SHAPES: Shapes = {
    let (used, unused) = (STRIDE as u16, 0);
    Shapes {
        palette: 1,
        start_line: 0,
        reserved: [0; 14],
        line_bytes: [
            used, used, used, used, used, used, used, used, unused, unused, unused, unused, unused,
            unused, unused, unused,
        ],
        lines: [16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0],
    }
};

/// The configured registers of this thread; released on drop.
struct Tiles(());

impl Tiles {
    #[expect(unsafe_code, reason = "an instruction that not every CPU has")]
    fn new() -> Self {
        assert!(is_here(), "NN-I4");
        // SAFETY: NN-I4. The instruction reads the 64 bytes of `SHAPES`, which are a shape of
        // palette 1 within the limits that `has_instructions` checked.
        unsafe {
            asm!("ldtilecfg [{shapes}]", shapes = in(reg) &raw const SHAPES,
                options(readonly, nostack, preserves_flags));
        }
        Self(())
    }
}

impl Drop for Tiles {
    #[expect(unsafe_code, reason = "an instruction that not every CPU has")]
    fn drop(&mut self) {
        // SAFETY: NN-I4. Memory isn't accessed, and by NN-I3 nothing reads the registers after
        // this.
        unsafe { asm!("tilerelease", options(nomem, nostack, preserves_flags)) }
    }
}

impl TileUnit for Tiles {
    #[expect(unsafe_code, reason = "an instruction that not every CPU has")]
    #[inline(always)]
    fn zero<const T: u8>(&mut self) {
        // SAFETY: NN-I4, NN-I5. Changes a register that this value owns by NN-I3.
        unsafe { asm!("tilezero tmm{t}", t = const T, options(nomem, nostack, preserves_flags)) }
    }

    #[expect(unsafe_code, reason = "an instruction that not every CPU has")]
    #[inline(always)]
    fn load<const T: u8>(&mut self, tile: &Tile) {
        // SAFETY: NN-I4. By NN-I5 it reads the bytes of `tile`, and changes a register that this
        // value owns by NN-I3.
        unsafe {
            asm!("tileloadd tmm{t}, [{tile} + 1 * {stride}]", t = const T,
                tile = in(reg) &raw const *tile, stride = in(reg) STRIDE,
                options(readonly, nostack, preserves_flags));
        }
    }

    #[expect(unsafe_code, reason = "an instruction that not every CPU has")]
    #[inline(always)]
    fn dot<const D: u8, const L: u8, const R: u8>(&mut self) {
        // SAFETY: NN-I4, NN-I5 (the three shapes match). Changes a register that this value owns by
        // NN-I3.
        unsafe {
            asm!("tdpbf16ps tmm{d}, tmm{l}, tmm{r}", d = const D, l = const L, r = const R,
                options(nomem, nostack, preserves_flags));
        }
    }

    #[expect(unsafe_code, reason = "an instruction that not every CPU has")]
    #[inline(always)]
    fn store<const T: u8>(&mut self, lanes: &mut [f32], stride: usize) {
        assert!(lanes.len() >= (LINES - 1) * stride + LINES, "NN-I1: a tile inside its matrix");
        // SAFETY: NN-I4. By NN-I5 it writes 16 lines of 64 bytes, `stride` numbers apart; by the
        // assertion, the last one ends inside `lanes`, which is borrowed for writing.
        unsafe {
            asm!("tilestored [{lanes} + 1 * {stride}], tmm{t}", t = const T,
                lanes = in(reg) lanes.as_mut_ptr(), stride = in(reg) stride * size_of::<f32>(),
                options(nostack, preserves_flags));
        }
    }
}

const _: () = assert!(size_of::<Shapes>() == 64 && size_of::<Tile>() == STRIDE * LINES);
