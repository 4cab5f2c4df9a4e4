//! Every file of kernels compiles for the architectures in use, to instructions with the bits of a
//! processor. This needs only the compiler, not a device.
#![cfg(feature = "cuda")]

use std::fs;

use stepwell_device::cuda::compile::{Compiler, Target, VARIABLE, files};

/// Architectures in use: Ampere, Hopper, Blackwell.
const ARCHITECTURES: [u32; 3] = [80, 90, 100];

/// The compiler without a cache, if available.
fn compiler() -> Option<Compiler> {
    match Compiler::find() {
        Ok(compiler) => Some(compiler.with_cache(None)),
        Err(lacks) => {
            // If a path is given, it must work.
            let named = std::env::var_os(VARIABLE).filter(|path| fs::exists(path).unwrap_or(false));
            assert!(named.is_none(), "{lacks}");
            stepwell_skip::skipped(lacks);
            None
        }
    }
}

/// Instructions of a PTX text whose bits would differ from a processor's, or vary.
fn faults(ptx: &str) -> Vec<String> {
    let is_fault = |line: &str| {
        let word = line.split_whitespace().find(|word| !word.starts_with(['@', '{']));
        let mut parts = word.unwrap_or_default().trim_end_matches(';').split('.');
        let name = parts.next().unwrap_or_default();
        let parts: Vec<&str> = parts.collect();
        let has = |part: &str| parts.contains(&part);
        let is_float =
            ["f16", "f16x2", "bf16", "bf16x2", "f32", "f64"].iter().any(|kind| has(kind));
        let fused = name == "fma" || name == "mad" && is_float;
        let atomic = ["atom", "red"].contains(&name) && is_float;
        fused || atomic || has("ftz") || has("approx")
    };
    ptx.lines().map(str::trim).filter(|line| is_fault(line)).map(str::to_owned).collect()
}

#[test]
fn every_file_compiles_for_every_architecture() {
    let Some(compiler) = compiler() else { return };
    for architecture in ARCHITECTURES {
        assert_eq!(compiler.target(architecture), Ok(Target::Cubin(architecture)));
        for file in files() {
            let cubin = compiler.file(file, Target::Cubin(architecture));
            let cubin = cubin.unwrap_or_else(|why| panic!("sm_{architecture}: {why}"));
            assert_eq!(&cubin[..4], b"\x7fELF", "{file}");
        }
    }
}

#[test]
fn every_instruction_has_a_processors_bits() {
    let Some(compiler) = compiler() else { return };
    for file in files() {
        let ptx = String::from_utf8(compiler.file(file, Target::Ptx(90)).unwrap()).unwrap();
        assert_eq!(faults(&ptx), [""; 0], "{file}");
        let names = stepwell_kernels::kernels().iter().filter(|kernel| kernel.file == file);
        for kernel in names {
            assert!(ptx.contains(&format!(".entry {}(", kernel.name)), "{}", kernel.name);
        }
    }
}

#[test]
fn what_has_other_bits_is_found() {
    let ptx = "
        mad.lo.s32      %r1, %r2, %r3, %r4;
        fma.rn.f32      %f1, %f2, %f3, %f4;
        @%p1 fma.rn.f64 %d1, %d2, %d3, %d4;
        mul.ftz.f32     %f1, %f2, %f3;
        div.approx.f32  %f1, %f2, %f3;
        div.rn.f32      %f1, %f2, %f3;
        atom.global.add.f32 %f1, [%rd1], %f2;
        red.global.add.f64 [%rd1], %d2;
        atom.global.cas.b64 %rd2, [%rd1], %rd3, %rd4;
        st.global.f32   [%rd1], %f1;";
    let found = faults(ptx);
    let names: Vec<&str> = found.iter().map(|line| line.split(' ').next().unwrap()).collect();
    let wanted = ["fma.rn.f32", "@%p1", "mul.ftz.f32", "div.approx.f32", "atom.global.add.f32"];
    assert_eq!(names[..5], wanted);
    assert_eq!(names[5..], ["red.global.add.f64"]);
}

const TEXT: &str = "extern \"C\" __global__ void axpy(float* y, const float* x, float a) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = a * x[i] / 3.0f + sqrtf(y[i]);
}";

#[test]
fn a_text_is_compiled_once_and_damage_is_compiled_away() {
    let Some(compiler) = compiler() else { return };
    let plain = compiler.text("axpy.cu", TEXT, Target::Cubin(90)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let compiler = compiler.with_cache(Some(folder.path().join("kernels")));
    let compiled = || compiler.text("axpy.cu", TEXT, Target::Cubin(90)).unwrap();
    assert_eq!(compiled(), plain);
    let files: Vec<_> = fs::read_dir(folder.path().join("kernels")).unwrap().collect();
    let [file] = &files[..] else { panic!("{files:?}") };
    let path = file.as_ref().unwrap().path();
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    assert_eq!(compiled(), plain, "half of it");
    assert_eq!(fs::read(&path).unwrap(), whole, "it is whole again");
    // Cached images are read.
    let another = compiler.text("axpy.cu", TEXT, Target::Cubin(80)).unwrap();
    assert_ne!(another, plain);
    let count = fs::read_dir(folder.path().join("kernels")).unwrap().count();
    assert_eq!(count, 2);
    // An impossible cache is ignored.
    let compiler = compiler.with_cache(Some(path.join("below a file")));
    assert_eq!(compiler.text("axpy.cu", TEXT, Target::Cubin(90)).unwrap(), plain);
}

#[test]
fn what_is_wrong_with_a_text_is_said_with_its_line() {
    let Some(compiler) = compiler() else { return };
    let text = TEXT.replace("sqrtf", "square_root");
    let why = compiler.text("axpy.cu", &text, Target::Cubin(90)).unwrap_err();
    assert!(why.starts_with("axpy.cu: nvrtcCompileProgram: "), "{why}");
    assert!(why.contains("axpy.cu(3): error:") && why.contains("square_root"), "{why}");
}

#[test]
fn hardware_that_is_newer_than_the_compiler_gets_what_a_driver_compiles() {
    let Some(compiler) = compiler() else { return };
    let newest = *compiler.architectures().last().unwrap();
    assert_eq!(compiler.target(newest + 10), Ok(Target::Ptx(newest)));
    let why = compiler.target(20).unwrap_err();
    assert!(why.contains("does not compile for sm_20"), "{why}");
    let ptx = compiler.text("axpy.cu", TEXT, Target::Ptx(90)).unwrap();
    assert_eq!(faults(&String::from_utf8(ptx).unwrap()), [""; 0]);
}

#[test]
fn a_compiler_that_is_not_there_is_said_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path().to_owned(), folder.path().join("none.so")] {
        let why = Compiler::at(&path, None).unwrap_err();
        assert_eq!(why.lines().count(), 1, "{why}");
    }
    let no_library = folder.path().join("libnvrtc.so.13");
    fs::write(&no_library, b"no library").unwrap();
    assert!(Compiler::at(folder.path(), None).is_err());
}
