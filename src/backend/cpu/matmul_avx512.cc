#include "backend/cpu/kernels.h"
namespace drafthorse {
const Kernels* avx512_kernels() { return nullptr; }
}  // namespace drafthorse
