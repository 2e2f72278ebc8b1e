#pragma once
// How fast the matrix products are on this machine, beside what its memory can deliver: `drafthorse bench kernels`.

#include <cstdint>
#include <string>
#include <vector>

#include "core/result.h"

namespace drafthorse {

struct BenchKernelsOptions {
  // Names: q4_0 … q6_k, iq4_nl, iq4_xs, mxfp4, nvfp4, mxfp8, f16, bf16, f32, or affineBITS-GROUP (affine4-64).
  std::vector<std::string> formats = {"q4_1", "affine4-64", "q4_k", "q5_0", "q6_k", "q8_0"};
  std::vector<int> rows = {1, 2, 4, 8, 512};
  int64_t inputs = 1536, outputs = 8960;
  int threads = 0;  // 0: as many as are usable
  std::string isa = "auto";
  uint64_t bytes = 400 << 20;  // weights at least, so that no cache holds them
  int repeats = 7;             // the median is reported
};

struct BenchKernelsRow {
  std::string format;
  int64_t inputs = 0, outputs = 0;
  int rows = 0;
  double microseconds = 0;          // one product
  double gigabytes_per_second = 0;  // of packed weights
  double bandwidth_share = 0;       // of BenchKernelsReport::read_gigabytes_per_second
  double relative_cost = 0;         // to 1 row of the same format (0: 1 row was not measured)
  double gmacs_per_second = 0;      // multiply-adds, all threads
};

struct BenchKernelsReport {
  std::string isa;
  int threads = 0;
  double read_gigabytes_per_second = 0;  // plain read of the same amount of memory with the same threads
  std::vector<BenchKernelsRow> rows;
};

// Error: invalid_argument (a format, size or isa by name).
Result<BenchKernelsReport> bench_kernels(const BenchKernelsOptions& options);
// The report as a table of text.
std::string format_report(const BenchKernelsReport& report);

}  // namespace drafthorse
