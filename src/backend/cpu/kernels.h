#pragma once
// The functions of one instruction set. Each is compiled in its own file with that set's flags.

#include <array>
#include <string_view>

#include "backend/cpu/layouts.h"

namespace drafthorse {

// Arguments as matmul() in matmul.h.
using MatmulFunction = void (*)(const PackedLinear&, const Activations&, int row_begin, int row_end, float* y,
                                int64_t ldy, int64_t block_begin, int64_t block_end);

// By PackedLayout.
using MatmulTable = std::array<MatmulFunction, kPackedLayouts>;

struct Kernels {
  std::string_view isa;
  MatmulTable matmul;
  // Quantises n inputs (1..512, a multiple of the group) into one segment, in groups of 32 or 64.
  void (*quantise)(const float* x, int n, int group, QuantisedSegment& out);
};

const Kernels& portable_kernels();
// Null where the build or the CPU lacks the instruction set.
const Kernels* avx2_kernels();
const Kernels* avx512_kernels();
const Kernels* neon_kernels();

}  // namespace drafthorse
