// Measures with plain CUDA how fast a GPU does what a training step needs: matrix products in the
// shapes of `deepfm`, with 429 and with 432 columns; kernels that read rows from pinned host memory;
// random reads of device memory; and launches, from a stream and from a graph.
//
//   nvcc -O3 -arch=native -o micro micro.cu -lcublasLt && ./micro > micro.tsv
//
// Prints one line per figure: what, size, figure, unit. Each is the median of nine rounds.

#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                              \
    do {                                                                         \
        auto status = (call);                                                    \
        if (status != 0) {                                                       \
            fprintf(stderr, "%s:%d: %s: %d\n", __FILE__, __LINE__, #call, (int)status); \
            exit(1);                                                             \
        }                                                                        \
    } while (0)

constexpr int ROUNDS = 9;
cudaStream_t stream;

// Seconds of one of `times` repetitions of `work`, by events on the stream.
template <typename Work>
double seconds(int times, Work work) {
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    std::vector<float> rounds;
    work();
    for (int round = 0; round < ROUNDS; ++round) {
        CHECK(cudaEventRecord(begin, stream));
        for (int time = 0; time < times; ++time) work();
        CHECK(cudaEventRecord(end, stream));
        CHECK(cudaEventSynchronize(end));
        float milliseconds;
        CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
        rounds.push_back(milliseconds / 1e3f / times);
    }
    CHECK(cudaEventDestroy(begin));
    CHECK(cudaEventDestroy(end));
    std::nth_element(rounds.begin(), rounds.begin() + ROUNDS / 2, rounds.end());
    return rounds[ROUNDS / 2];
}

// ---- products -----------------------------------------------------------------------------------

struct Kind {
    const char* name;
    cudaDataType_t type;
    cublasComputeType_t compute;
    size_t bytes;
};

const Kind KINDS[] = {
    {"f32", CUDA_R_32F, CUBLAS_COMPUTE_32F, 4},
    {"tf32", CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32, 4},
    {"bf16", CUDA_R_16BF, CUBLAS_COMPUTE_32F, 2},
};

// C (rows x columns) = op(A) op(B), all row major with `inner` in common, by the first algorithm of
// the heuristic. cuBLASLt counts by columns, so it is given B and A in turn.
void product(const Kind& kind, const char* what, int rows, int columns, int inner, bool a_transposed,
             bool b_transposed) {
    size_t count = size_t(4096) * 512;
    void *a, *b, *c, *room;
    size_t room_bytes = size_t(32) << 20;
    CHECK(cudaMalloc(&a, count * kind.bytes));
    CHECK(cudaMalloc(&b, count * kind.bytes));
    CHECK(cudaMalloc(&c, count * 4));
    CHECK(cudaMalloc(&room, room_bytes));
    CHECK(cudaMemset(a, 0x3c, count * kind.bytes));
    CHECK(cudaMemset(b, 0x3c, count * kind.bytes));

    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t plan;
    cublasLtMatrixLayout_t left, right, out;
    CHECK(cublasLtCreate(&handle));
    CHECK(cublasLtMatmulDescCreate(&plan, kind.compute, CUDA_R_32F));
    cublasOperation_t first = b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t second = a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    CHECK(cublasLtMatmulDescSetAttribute(plan, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first));
    CHECK(cublasLtMatmulDescSetAttribute(plan, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second));
    auto layout = [&](cublasLtMatrixLayout_t* of, int of_rows, int of_columns) {
        CHECK(cublasLtMatrixLayoutCreate(of, kind.type, of_columns, of_rows, of_columns));
    };
    b_transposed ? layout(&left, columns, inner) : layout(&left, inner, columns);
    a_transposed ? layout(&right, inner, rows) : layout(&right, rows, inner);
    CHECK(cublasLtMatrixLayoutCreate(&out, CUDA_R_32F, columns, rows, columns));

    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t found;
    int count_found = 0;
    CHECK(cublasLtMatmulPreferenceCreate(&preference));
    CHECK(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                               &room_bytes, sizeof room_bytes));
    int status = cublasLtMatmulAlgoGetHeuristic(handle, plan, left, right, out, out, preference, 1,
                                                &found, &count_found);
    if (status == 0 && count_found > 0) {
        float one = 1, zero = 0;
        double time = seconds(50, [&] {
            CHECK(cublasLtMatmul(handle, plan, &one, b, left, a, right, &zero, c, out, c, out,
                                 &found.algo, room, room_bytes, stream));
        });
        printf("product_%s_%s\t%dx%dx%d\t%.2f\tus\n", what, kind.name, rows, columns, inner, time * 1e6);
        printf("product_%s_%s\t%dx%dx%d\t%.1f\tTFLOP/s\n", what, kind.name, rows, columns, inner,
               2.0 * rows * columns * inner / time / 1e12);
    } else {
        printf("product_%s_%s\t%dx%dx%d\trefused\t\n", what, kind.name, rows, columns, inner);
    }
    CHECK(cublasLtMatmulPreferenceDestroy(preference));
    CHECK(cublasLtMatrixLayoutDestroy(left));
    CHECK(cublasLtMatrixLayoutDestroy(right));
    CHECK(cublasLtMatrixLayoutDestroy(out));
    CHECK(cublasLtMatmulDescDestroy(plan));
    CHECK(cublasLtDestroy(handle));
    for (void* memory : {a, b, c, room}) CHECK(cudaFree(memory));
}

void products() {
    const int examples = 4096;
    for (const Kind& kind : KINDS) {
        // The first layer: forward, the gradient of its weights, the gradient of its input.
        for (int columns : {429, 432}) {
            product(kind, "forward", examples, 512, columns, false, true);
            product(kind, "weights", 512, columns, examples, true, false);
            product(kind, "input", examples, columns, 512, false, false);
        }
        product(kind, "forward", examples, 256, 512, false, true);
        product(kind, "forward", examples, 128, 256, false, true);
    }
}

// ---- memory -------------------------------------------------------------------------------------

__device__ uint64_t mixed(uint64_t x) {
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdull;
    x ^= x >> 33;
    x *= 0xc4ceb9fe1a85ec53ull;
    return x ^ (x >> 33);
}

// Copies `rows` rows of `pieces` times 16 bytes, drawn among `among`, one after the other into `out`.
__global__ void lift(const uint4* from, uint4* out, uint64_t rows, uint64_t among, int pieces,
                     uint64_t seed) {
    uint64_t total = rows * pieces, step = uint64_t(gridDim.x) * blockDim.x;
    for (uint64_t at = uint64_t(blockIdx.x) * blockDim.x + threadIdx.x; at < total; at += step) {
        uint64_t row = at / pieces, piece = at % pieces;
        out[at] = from[(mixed(row + seed) % among) * pieces + piece];
    }
}

void rows(const char* what, const uint4* from, size_t bytes, uint64_t count, uint4* out) {
    uint64_t seed = 0;
    for (int pieces : {2, 4, 8, 9, 16, 32}) {
        uint64_t among = bytes / (16 * pieces);
        for (int blocks : {32, 132, 1056}) {
            double time = seconds(5, [&] {
                lift<<<blocks, 512, 0, stream>>>(from, out, count, among, pieces, seed += count);
            });
            printf("%s_%d_blocks\t%d\t%.2f\tGB/s\n", what, blocks, 16 * pieces,
                   count * 16.0 * pieces / time / 1e9);
        }
    }
    CHECK(cudaGetLastError());
}

// Reads sectors at random and writes hardly anything.
template <int PIECES>
__global__ void look(const uint4* from, uint64_t count, uint64_t among, uint64_t seed, uint* out) {
    uint64_t step = uint64_t(gridDim.x) * blockDim.x;
    uint sum = 0;
    for (uint64_t at = uint64_t(blockIdx.x) * blockDim.x + threadIdx.x; at < count * PIECES; at += step) {
        uint4 piece = from[(mixed(at / PIECES + seed) % among) * PIECES + at % PIECES];
        sum += piece.x ^ piece.y ^ piece.z ^ piece.w;
    }
    if (sum == 0x12345678) *out = sum;
}

template <int PIECES>
void sectors(const uint4* from, size_t bytes, uint* out) {
    uint64_t seed = 0, count = uint64_t(1) << 24;
    double time = seconds(5, [&] {
        look<PIECES><<<2112, 512, 0, stream>>>(from, count, bytes / (16 * PIECES), seed += count, out);
    });
    printf("sectors\t%d\t%.3f\tG/s\n", 16 * PIECES, count / time / 1e9);
    printf("sectors\t%d\t%.1f\tGB/s\n", 16 * PIECES, count * 16.0 * PIECES / time / 1e9);
}

void memory() {
    size_t bytes = size_t(4) << 30;
    uint4 *host, *device, *out;
    CHECK(cudaHostAlloc((void**)&host, bytes, cudaHostAllocMapped));
    CHECK(cudaMalloc((void**)&device, bytes));
    CHECK(cudaMalloc((void**)&out, size_t(1) << 30));
    for (size_t at = 0; at < bytes / 16; at += 256) host[at].x = at;
    CHECK(cudaMemset(device, 0, bytes));
    double time = seconds(2, [&] {
        CHECK(cudaMemcpyAsync(device, host, size_t(256) << 20, cudaMemcpyHostToDevice, stream));
    });
    printf("pinned_copy_up\t%d\t%.2f\tGB/s\n", 256 << 20, (256 << 20) / time / 1e9);
    rows("pinned_rows", host, bytes, 1 << 16, out);
    rows("pinned_rows_of_a_step", host, bytes, 4600, out);
    sectors<2>(device, bytes, (uint*)out);
    sectors<4>(device, bytes, (uint*)out);
    sectors<8>(device, bytes, (uint*)out);
    CHECK(cudaFreeHost(host));
    CHECK(cudaFree(device));
    CHECK(cudaFree(out));
}

// ---- launches -----------------------------------------------------------------------------------

__global__ void nothing(uint* out) {
    if (out == nullptr) __trap();
}

void launches() {
    const int nodes = 40;
    uint* out;
    CHECK(cudaMalloc((void**)&out, 256));
    auto all = [&] {
        for (int node = 0; node < nodes; ++node) nothing<<<1, 32, 0, stream>>>(out);
    };
    printf("launch_by_stream\t%d\t%.3f\tus\n", nodes, seconds(50, all) / nodes * 1e6);
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    all();
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&ready, graph, 0));
    double time = seconds(50, [&] { CHECK(cudaGraphLaunch(ready, stream)); });
    printf("launch_by_graph\t%d\t%.3f\tus\n", nodes, time / nodes * 1e6);
    CHECK(cudaGraphExecDestroy(ready));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaFree(out));
}

int main() {
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    launches();
    products();
    memory();
    return 0;
}
