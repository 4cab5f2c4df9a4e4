//! Matrix products with cuBLASLt.
//!
//! - **How.** The library's matrices are column-major, ours row-major: a row-major matrix read as
//!   column-major is its transpose, so `into = left · right` becomes `intoᵀ = rightᵀ · leftᵀ`, with
//!   the operands swapped and no data moved.
//! - **Bits.** The library's heuristic chooses an algorithm for each product once; the same product
//!   at addresses of the same alignment then always uses it, with the same bits. The heuristic gets
//!   [`Product::chosen_for`] as the number of matrices: an algorithm computes each matrix by
//!   separate blocks of threads, so their number doesn't affect the bits. Sums are f32. With `F32`,
//!   operands aren't rounded; otherwise the library may round operands accordingly, and usually
//!   does.
//! - **Library.** It is searched for where the system does; [`VARIABLE`] names another.

#![expect(unsafe_code, reason = "functions of a foreign library are called")]

use std::collections::HashMap;
use std::ffi::{CStr, OsStr, c_void};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use cudarc::cublaslt::sys::{
    self, cublasComputeType_t as ComputeType, cublasLtMatmulDescAttributes_t as OfProduct,
    cublasLtMatmulPreferenceAttributes_t as OfChoice, cublasLtMatrixLayoutAttribute_t as OfLayout,
    cublasStatus_t as Status, cudaDataType_t as Kind,
};
use libloading::os::unix;

use super::calls::{Handle, Stream};
use super::version::Version;
use crate::product::{Layout, Precision, Product};

/// Environment variable with the path of the library or its folder.
const VARIABLE: &str = "STEPWELL_CUBLASLT";

/// Possible names of the library.
const NAMES: [&str; 3] = ["libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"];

/// Memory for a stream's products, as the vendor recommends.
pub(super) const WORKSPACE_BYTES: usize = 32 << 20;

const _: () = assert!(WORKSPACE_BYTES as u64 <= crate::product::WORKSPACE_BYTES_MAX);

/// Operations on operands, by cuBLAS's numbers.
const PLAIN: i32 = 0;
const TRANSPOSED: i32 = 1;

/// Maximum alignment of addresses that algorithms require.
const ALIGNMENT_MAX: u64 = 256;

fn check(call: &'static str, status: Status) -> Result<(), String> {
    if status == Status::CUBLAS_STATUS_SUCCESS {
        return Ok(());
    }
    // SAFETY: accepts any status.
    let text = unsafe { sys::cublasLtGetStatusString(status) };
    if text.is_null() {
        return Err(format!("{call}: {status:?}"));
    }
    // SAFETY: the text belongs to the library and ends with a zero.
    let text = unsafe { CStr::from_ptr(text) };
    Err(format!("{call}: {}", text.to_string_lossy()))
}

/// Whether the library is available; otherwise, what is missing.
fn find() -> Result<(), String> {
    static FOUND: OnceLock<Result<(), String>> = OnceLock::new();
    let find = || {
        if let Some(named) = std::env::var_os(VARIABLE).filter(|named| !named.is_empty()) {
            open(Path::new(&named))
                .map_err(|why| format!("no cuBLASLt at {VARIABLE}={}: {why}", named.display()))?;
        }
        // SAFETY: opening NVIDIA's library runs its initializers, which have no requirements.
        let present = unsafe { sys::is_culib_present() };
        let lacks = format!(
            "no cuBLASLt, needed for matrix products (CUDA's package libcublas, or pip install \
             nvidia-cublas and {VARIABLE}=the folder of its libcublasLt.so)"
        );
        present.then_some(()).ok_or(lacks)
    };
    FOUND.get_or_init(find).clone()
}

/// Opens a library; later searches by its name find it.
fn open(path: &Path) -> Result<(), String> {
    let within = NAMES.map(|name| path.join(name));
    let file: &OsStr = match within.iter().find(|file| file.exists()) {
        Some(file) => file.as_os_str(),
        None => path.as_os_str(),
    };
    let flags = unix::RTLD_NOW | unix::RTLD_GLOBAL;
    // SAFETY: as for any of NVIDIA's libraries.
    let library = unsafe { unix::Library::open(Some(file), flags) };
    let library = library.map_err(|error| error.to_string())?;
    // The library stays open until the process ends.
    let _ = library.into_raw();
    Ok(())
}

/// Version of the library, if available.
pub(super) fn version() -> Result<Version, String> {
    find()?;
    // SAFETY: has no arguments.
    let version = unsafe { sys::cublasLtGetVersion() } as u32;
    Ok(Version { major: version / 10_000, minor: version % 10_000 / 100 })
}

/// A product, and the alignments of its addresses: left, right, result.
type Which = (Product, [u64; 3]);

/// The library on one device.
#[derive(Debug)]
pub(super) struct Blas {
    handle: Handle<sys::cublasLtContext>,
    /// Plan of each product.
    plans: Mutex<HashMap<Which, Arc<Plan>>>,
}

/// How a product is computed.
#[derive(Debug)]
struct Plan {
    product: Described<sys::cublasLtMatmulDescOpaque_t>,
    layouts: Layouts,
    algorithm: sys::cublasLtMatmulAlgo_t,
}

/// Layouts of the right matrices, the left ones, and the result.
type Layouts = [Described<sys::cublasLtMatrixLayoutOpaque_t>; 3];

/// A description made by the library; destroyed on drop.
#[derive(Debug)]
struct Described<T> {
    handle: Handle<T>,
    destroy: unsafe fn(*mut T) -> Status,
}

impl<T> Drop for Described<T> {
    fn drop(&mut self) {
        // SAFETY: it was created, and has no more users.
        let _ = unsafe { (self.destroy)(self.handle.0) };
    }
}

impl Blas {
    /// The library on the device of the thread's current context.
    ///
    /// # Errors
    /// What is missing, or the library's message.
    pub(super) fn new() -> Result<Self, String> {
        find()?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the target is valid.
        check("cublasLtCreate", unsafe { sys::cublasLtCreate(&raw mut handle) })?;
        Ok(Self { handle: Handle(handle), plans: Mutex::default() })
    }

    /// Submits a product of matrices at these addresses (left, right, result) to `stream`.
    pub(super) fn product(
        &self,
        product: &Product,
        addresses: [u64; 3],
        workspace: u64,
        stream: Stream,
    ) -> Result<(), String> {
        let plan = self.plan(product, addresses)?;
        let [left, right, into] = addresses.map(|address| address as usize as *mut c_void);
        let (alpha, beta): (f32, f32) = (1.0, if product.adds { 1.0 } else { 0.0 });
        let [of_right, of_left, of_into] = &plan.layouts;
        // SAFETY: ranges were checked when the product was made, and the operation keeps memory and
        // workspace alive until it is over; factors are read before the call returns.
        let status = unsafe {
            sys::cublasLtMatmul(
                self.handle.0,
                plan.product.handle.0,
                (&raw const alpha).cast(),
                right.cast_const(),
                of_right.handle.0,
                left.cast_const(),
                of_left.handle.0,
                (&raw const beta).cast(),
                into.cast_const(),
                of_into.handle.0,
                into,
                of_into.handle.0,
                &raw const plan.algorithm,
                workspace as usize as *mut c_void,
                WORKSPACE_BYTES,
                stream.0.cast(),
            )
        };
        check("cublasLtMatmul", status)
    }

    /// The plan of a product, chosen once.
    fn plan(&self, product: &Product, addresses: [u64; 3]) -> Result<Arc<Plan>, String> {
        let alignment = |address: u64| ALIGNMENT_MAX.min(1 << address.trailing_zeros().min(8));
        let key = (*product, addresses.map(alignment));
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plan) = plans.get(&key) {
            return Ok(Arc::clone(plan));
        }
        let plan = Arc::new(self.choose(product, key.1)?);
        plans.insert(key, Arc::clone(&plan));
        Ok(plan)
    }

    fn choose(&self, product: &Product, alignments: [u64; 3]) -> Result<Plan, String> {
        let described = described(product)?;
        let choice = choice(alignments)?;
        let [right, left, into] = &layouts(product, product.chosen_for)?;
        let mut found: [sys::cublasLtMatmulHeuristicResult_t; 1] = [NO_RESULT];
        let mut count = 0;
        // SAFETY: all arguments are valid, and there is room for one result.
        let status = unsafe {
            sys::cublasLtMatmulAlgoGetHeuristic(
                self.handle.0,
                described.handle.0,
                right.handle.0,
                left.handle.0,
                into.handle.0,
                into.handle.0,
                choice.handle.0,
                1,
                found.as_mut_ptr(),
                &raw mut count,
            )
        };
        check("cublasLtMatmulAlgoGetHeuristic", status)?;
        let [found] = found;
        if count == 0 {
            return Err(format!("cuBLASLt has no algorithm for {product:?}"));
        }
        check("cublasLtMatmulAlgoGetHeuristic", found.state)?;
        let layouts = layouts(product, product.shape.batches)?;
        Ok(Plan { product: described, layouts, algorithm: found.algo })
    }
}

impl Drop for Blas {
    fn drop(&mut self) {
        let plans = self.plans.get_mut().unwrap_or_else(PoisonError::into_inner);
        plans.clear();
        // SAFETY: it was created, and all streams that used it have ended.
        let _ = unsafe { sys::cublasLtDestroy(self.handle.0) };
    }
}

const NO_RESULT: sys::cublasLtMatmulHeuristicResult_t = sys::cublasLtMatmulHeuristicResult_t {
    algo: sys::cublasLtMatmulAlgo_t { data: [0; 8] },
    workspaceSize: 0,
    state: Status::CUBLAS_STATUS_SUCCESS,
    wavesCount: 0.0,
    reserved: [0; 4],
};

/// Describes operands and precision; left and right are swapped.
fn described(product: &Product) -> Result<Described<sys::cublasLtMatmulDescOpaque_t>, String> {
    let precision = match product.precision {
        Precision::F32 => ComputeType::CUBLAS_COMPUTE_32F,
        Precision::Tf32 => ComputeType::CUBLAS_COMPUTE_32F_FAST_TF32,
        Precision::Bf16 => ComputeType::CUBLAS_COMPUTE_32F_FAST_16BF,
    };
    let mut handle = std::ptr::null_mut();
    // SAFETY: the target is valid.
    let status =
        unsafe { sys::cublasLtMatmulDescCreate(&raw mut handle, precision, Kind::CUDA_R_32F) };
    check("cublasLtMatmulDescCreate", status)?;
    let described = Described { handle: Handle(handle), destroy: sys::cublasLtMatmulDescDestroy };
    let operands = [
        (OfProduct::CUBLASLT_MATMUL_DESC_TRANSA, product.right.transposed),
        (OfProduct::CUBLASLT_MATMUL_DESC_TRANSB, product.left.transposed),
    ];
    for (attribute, transposed) in operands {
        let value = if transposed { TRANSPOSED } else { PLAIN };
        let (place, bytes) = ((&raw const value).cast(), size_of_val(&value));
        // SAFETY: the description is valid, and the value is a number of this many bytes.
        let status =
            unsafe { sys::cublasLtMatmulDescSetAttribute(handle, attribute, place, bytes) };
        check("cublasLtMatmulDescSetAttribute", status)?;
    }
    Ok(described)
}

/// Layouts of this many right matrices, left ones and results.
fn layouts(product: &Product, batches: usize) -> Result<Layouts, String> {
    let shape = product.shape;
    Ok([
        layout(&product.right, shape.depth, shape.columns, batches)?,
        layout(&product.left, shape.rows, shape.depth, batches)?,
        layout(&product.into, shape.rows, shape.columns, batches)?,
    ])
}

/// Layout of matrices of `rows` and `columns`, read as column-major.
fn layout(
    layout: &Layout,
    rows: usize,
    columns: usize,
    batches: usize,
) -> Result<Described<sys::cublasLtMatrixLayoutOpaque_t>, String> {
    let (rows, columns) = if layout.transposed { (columns, rows) } else { (rows, columns) };
    // The stride of a single row doesn't matter, but the library checks it.
    let stride = layout.row_stride.max(columns) as i64;
    let mut handle = std::ptr::null_mut();
    // SAFETY: the target is valid.
    let status = unsafe {
        let (rows, columns) = (rows as u64, columns as u64);
        sys::cublasLtMatrixLayoutCreate(&raw mut handle, Kind::CUDA_R_32F, columns, rows, stride)
    };
    check("cublasLtMatrixLayoutCreate", status)?;
    let described = Described { handle: Handle(handle), destroy: sys::cublasLtMatrixLayoutDestroy };
    let count = i32::try_from(batches).map_err(|_| format!("{batches} products in one"))?;
    let (count_at, count_bytes) = ((&raw const count).cast(), size_of_val(&count));
    // SAFETY: the description is valid, and the value is a number of this many bytes.
    let status = unsafe {
        let attribute = OfLayout::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT;
        sys::cublasLtMatrixLayoutSetAttribute(handle, attribute, count_at, count_bytes)
    };
    check("cublasLtMatrixLayoutSetAttribute", status)?;
    let apart = layout.batch_stride as i64;
    let (apart_at, apart_bytes) = ((&raw const apart).cast(), size_of_val(&apart));
    // SAFETY: as above.
    let status = unsafe {
        let attribute = OfLayout::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET;
        sys::cublasLtMatrixLayoutSetAttribute(handle, attribute, apart_at, apart_bytes)
    };
    check("cublasLtMatrixLayoutSetAttribute", status)?;
    Ok(described)
}

/// Restricts algorithms to these alignments: left, right, result.
fn choice(
    [left, right, into]: [u64; 3],
) -> Result<Described<sys::cublasLtMatmulPreferenceOpaque_t>, String> {
    let mut handle = std::ptr::null_mut();
    // SAFETY: the target is valid.
    let status = unsafe { sys::cublasLtMatmulPreferenceCreate(&raw mut handle) };
    check("cublasLtMatmulPreferenceCreate", status)?;
    let described =
        Described { handle: Handle(handle), destroy: sys::cublasLtMatmulPreferenceDestroy };
    let set = |attribute, value: *const c_void, bytes| {
        // SAFETY: the description is valid, and so is a number of this many bytes.
        let status =
            unsafe { sys::cublasLtMatmulPreferenceSetAttribute(handle, attribute, value, bytes) };
        check("cublasLtMatmulPreferenceSetAttribute", status)
    };
    let workspace = WORKSPACE_BYTES as u64;
    let attribute = OfChoice::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
    set(attribute, (&raw const workspace).cast(), size_of_val(&workspace))?;
    let alignments = [
        (OfChoice::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, right),
        (OfChoice::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, left),
        (OfChoice::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, into),
        (OfChoice::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, into),
    ];
    for (attribute, alignment) in alignments {
        let alignment = alignment as u32;
        set(attribute, (&raw const alignment).cast(), size_of_val(&alignment))?;
    }
    Ok(described)
}
