// RowKernels without instruction set extensions.
#include "backend/cpu/attention_impl.h"
#include "backend/cpu/row_kernels_tables.h"

namespace drafthorse::cpu {
namespace {

struct Portable {
  static constexpr int width = 4;
  static Lanes<4> load_half(const uint16_t* p) {
    return Lanes<4>{half_to_float(p[0]), half_to_float(p[1]), half_to_float(p[2]), half_to_float(p[3])};
  }
  static void store_half(uint16_t* p, Lanes<4> v) {
    for (int i = 0; i < 4; ++i) p[i] = float_to_half(v[i]);
  }
};

constexpr RowKernels kTable = table<Portable>("portable");

}  // namespace

const RowKernels* const kPortableRows = &kTable;

}  // namespace drafthorse::cpu
