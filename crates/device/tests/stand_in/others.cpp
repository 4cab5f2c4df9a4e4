// What Stepwell calls of cuBLASLt and of NVRTC: products by a plain loop over matrices that go by
// columns, and a compiler that makes nothing.

#include "device.h"

#include <vector>

namespace {

const int WRONG = 7;

struct Described {
    bool left_turned = false;
    bool right_turned = false;
};

struct Layout {
    uint64_t rows;
    uint64_t columns;
    int64_t stride;
    int batches = 1;
    int64_t apart = 0;
};

struct Chosen {
    uint64_t workspace = 0;
    unsigned alignment[4] = {256, 256, 256, 256};
};

// As the library's: 64 bytes of an algorithm, of which these are some.
struct Algorithm {
    unsigned alignment[4];
    uint64_t rest[6];
};

struct Result {
    Algorithm algorithm;
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
};

float at(const float* matrix, const Layout& layout, bool turned, uint64_t row, uint64_t column) {
    return turned ? matrix[row * layout.stride + column] : matrix[column * layout.stride + row];
}

}  // namespace

extern "C" {

size_t cublasLtGetVersion() { return 120400; }

const char* cublasLtGetStatusString(int) { return "something is wrong"; }

int cublasLtCreate(void** handle) {
    *handle = new int;
    return 0;
}

int cublasLtDestroy(void* handle) {
    delete static_cast<int*>(handle);
    return 0;
}

int cublasLtMatmulDescCreate(Described** described, int compute, int scale) {
    if ((compute != 68 && compute != 75 && compute != 77) || scale != 0) {
        return WRONG;
    }
    *described = new Described;
    return 0;
}

int cublasLtMatmulDescDestroy(Described* described) {
    delete described;
    return 0;
}

int cublasLtMatmulDescSetAttribute(Described* described, int which, const void* value, size_t n) {
    int number = 0;
    if (n != sizeof number || (which != 3 && which != 4)) {
        return WRONG;
    }
    memcpy(&number, value, n);
    (which == 3 ? described->left_turned : described->right_turned) = number == 1;
    return 0;
}

int cublasLtMatrixLayoutCreate(Layout** layout, int type, uint64_t rows, uint64_t columns,
                               int64_t stride) {
    if (type != 0 || rows == 0 || columns == 0 || stride < static_cast<int64_t>(rows)) {
        return WRONG;
    }
    *layout = new Layout{rows, columns, stride};
    return 0;
}

int cublasLtMatrixLayoutDestroy(Layout* layout) {
    delete layout;
    return 0;
}

int cublasLtMatrixLayoutSetAttribute(Layout* layout, int which, const void* value, size_t n) {
    if (which == 5 && n == sizeof layout->batches) {
        memcpy(&layout->batches, value, n);
    } else if (which == 6 && n == sizeof layout->apart) {
        memcpy(&layout->apart, value, n);
    } else {
        return WRONG;
    }
    return 0;
}

int cublasLtMatmulPreferenceCreate(Chosen** chosen) {
    *chosen = new Chosen;
    return 0;
}

int cublasLtMatmulPreferenceDestroy(Chosen* chosen) {
    delete chosen;
    return 0;
}

int cublasLtMatmulPreferenceSetAttribute(Chosen* chosen, int which, const void* value, size_t n) {
    if (which == 1 && n == sizeof chosen->workspace) {
        memcpy(&chosen->workspace, value, n);
    } else if (which >= 5 && which <= 8 && n == sizeof(unsigned)) {
        memcpy(chosen->alignment + which - 5, value, n);
    } else {
        return WRONG;
    }
    return 0;
}

int cublasLtMatmulAlgoGetHeuristic(void*, Described*, Layout*, Layout*, Layout*, Layout*,
                                   Chosen* chosen, int wanted, Result* results, int* count) {
    if (wanted != 1 || chosen->workspace == 0) {
        return WRONG;
    }
    *results = Result{};
    memcpy(results->algorithm.alignment, chosen->alignment, sizeof chosen->alignment);
    *count = 1;
    return 0;
}

int cublasLtMatmul(void*, Described* described, const float* alpha, const float* a, Layout* a_of,
                   const float* b, Layout* b_of, const float* beta, const float* c, Layout* c_of,
                   float* d, Layout* d_of, const Algorithm* algorithm, void* workspace, size_t,
                   Stream* stream) {
    const void* addresses[4] = {a, b, c, d};
    for (int i = 0; i < 4; ++i) {
        if (reinterpret_cast<uintptr_t>(addresses[i]) % algorithm->alignment[i] != 0) {
            return WRONG;
        }
    }
    const uint64_t rows = d_of->rows, columns = d_of->columns;
    const uint64_t depth = described->left_turned ? a_of->rows : a_of->columns;
    const bool fits = (described->left_turned ? a_of->columns : a_of->rows) == rows &&
                      (described->right_turned ? b_of->rows : b_of->columns) == columns &&
                      (described->right_turned ? b_of->columns : b_of->rows) == depth &&
                      a_of->batches == d_of->batches && b_of->batches == d_of->batches;
    if (!fits || c != d || c_of != d_of || *alpha != 1.0f || !workspace) {
        return WRONG;
    }
    const Described turned = *described;
    const Layout left = *a_of, right = *b_of, into = *d_of;
    const float added = *beta;
    stream->push([=] {
        memset(workspace, 0xee, 1 << 20);
        for (int batch = 0; batch < into.batches; ++batch) {
            const float* of_left = a + batch * left.apart;
            const float* of_right = b + batch * right.apart;
            for (uint64_t column = 0; column < columns; ++column) {
                for (uint64_t row = 0; row < rows; ++row) {
                    float sum = 0;
                    for (uint64_t i = 0; i < depth; ++i) {
                        sum += at(of_left, left, turned.left_turned, row, i) *
                               at(of_right, right, turned.right_turned, i, column);
                    }
                    float* to = d + batch * into.apart + column * into.stride + row;
                    *to = added != 0 ? added * *to + sum : sum;
                }
            }
        }
    });
    return 0;
}

int nvrtcVersion(int* major, int* minor) {
    *major = 12;
    *minor = 4;
    return 0;
}

const char* nvrtcGetErrorString(int) { return "something is wrong"; }

int nvrtcGetNumSupportedArchs(int* count) {
    *count = 2;
    return 0;
}

int nvrtcGetSupportedArchs(int* all) {
    all[0] = 80;
    all[1] = 90;
    return 0;
}

int nvrtcCreateProgram(int** program, const char*, const char*, int, void*, void*) {
    *program = new int;
    return 0;
}

int nvrtcDestroyProgram(int** program) {
    delete *program;
    return 0;
}

int nvrtcCompileProgram(int*, int, void*) { return 0; }

int nvrtcGetProgramLogSize(int*, size_t* bytes) {
    *bytes = 1;
    return 0;
}

int nvrtcGetProgramLog(int*, char* log) {
    *log = 0;
    return 0;
}

int nvrtcGetCUBINSize(int*, size_t* bytes) {
    *bytes = 4;
    return 0;
}

int nvrtcGetCUBIN(int*, char* cubin) {
    memcpy(cubin, "\x7f" "ELF", 4);
    return 0;
}

int nvrtcGetPTXSize(int*, size_t* bytes) {
    *bytes = 5;
    return 0;
}

int nvrtcGetPTX(int*, char* ptx) {
    memcpy(ptx, "// a", 5);
    return 0;
}

}  // extern "C"
