#include "backend/cpu/bench_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "backend/cpu/kernels.h"
#include "backend/cpu/matmul.h"
#include "backend/read_bandwidth.h"
#include "core/topology.h"
#include "weights/tensor.h"

namespace drafthorse {
namespace {

constexpr int kPrefillRows = 16;  // from here on the product is bound by arithmetic; fewer matrices suffice

Error bad_format(const std::string& text) {
  return {ErrorKind::invalid_argument,
          fmt::format("\"{}\" is not a weight format that can be measured (examples: q4_k, affine4-64)", text),
          "formats"};
}

// A source matrix of the format; `bytes` owns what the view shows.
struct Source {
  TensorView view;
  std::vector<std::byte> data, scales;
};

Result<Source> make_source(const std::string& text, int64_t outputs, int64_t inputs) {
  Source source;
  TensorView& w = source.view;
  w.name = text;
  w.shape = {outputs, inputs};
  int64_t data = 0, scales = 0;
  if (text.starts_with("affine")) {
    const size_t dash = text.find('-');
    if (dash != 7 || text.size() > 11) return bad_format(text);
    w.format = Format::affine;
    w.bits = text[6] - '0';
    w.group_size = std::atoi(text.c_str() + 8);
    if (w.bits < 2 || w.bits > 8 || w.group_size < 16) return bad_format(text);
    data = outputs * (inputs / 8) * w.bits, scales = outputs * (inputs / w.group_size) * 2;
  } else {
    bool found = false;
    for (int f = 0; f <= static_cast<int>(Format::nvfp4) && !found; f++) {
      w.format = static_cast<Format>(f);
      found = name(w.format) == text;
    }
    if (!found) return bad_format(text);
    const bool mlx = w.format == Format::mxfp4 || w.format == Format::nvfp4 || w.format == Format::mxfp8;
    if (mlx) {
      w.scale_format = Format::u8;
      data = outputs * inputs / (w.format == Format::mxfp8 ? 1 : 2);
      scales = outputs * inputs / (w.format == Format::nvfp4 ? 16 : 32);
    } else {
      Result<size_t> count = byte_count(w.format, w.shape);
      if (!count) return count.error();
      data = static_cast<int64_t>(*count);
    }
  }
  // Bytes 0x20..0x2f are small normal numbers in every float format, so no operation meets a subnormal or NaN.
  uint32_t state = 1;
  auto fill = [&](std::vector<std::byte>& bytes, int64_t count) {
    bytes.resize(count);
    for (std::byte& b : bytes) b = static_cast<std::byte>(0x20 | (state = state * 1664525u + 1013904223u) >> 28);
  };
  fill(source.data, data);
  fill(source.scales, scales);
  w.data = source.data;
  w.scales = source.scales;
  if (w.format == Format::affine) w.biases = source.scales;
  return source;
}

// A matrix of the same bytes at other addresses.
PackedLinear copy_of(const PackedLinear& linear) {
  PackedLinear copy;
  copy.outputs = linear.outputs, copy.inputs = linear.inputs, copy.activations = linear.activations;
  copy.layout = linear.layout, copy.scale_type = linear.scale_type, copy.steps_per_tile = linear.steps_per_tile;
  copy.block_bytes = linear.block_bytes, copy.segment_bytes = linear.segment_bytes;
  copy.data = PageBuffer(linear.data.size());
  std::memcpy(copy.data.data(), linear.data.data(), linear.data.size());
  return copy;
}

template <class F>
double seconds(F&& f) {
  auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<int64_t>(values.size()) / 2, values.end());
  return values[values.size() / 2];
}

// Bytes a second of reading everything once, in shares as the products have them.
double read_bandwidth(const std::vector<PackedLinear>& matrices, ThreadPool& pool, int repeats) {
  std::vector<std::span<const uint8_t>> parts;
  for (const PackedLinear& m : matrices) parts.emplace_back(m.data.data(), m.data.size());
  return measure_read_bandwidth(pool, parts, repeats);
}

struct Bench {
  const BenchKernelsOptions& options;
  const Kernels& kernels;
  ThreadPool& pool;

  // Seconds of one product.
  double product(const std::vector<PackedLinear>& matrices, int rows) const {
    const PackedLinear& first = matrices.front();
    Activations activations(first.inputs, rows, {&first});
    activations.resize(rows);
    std::vector<float> x(first.inputs), y(rows * first.outputs);
    for (int r = 0; r < rows; r++) {
      for (size_t k = 0; k < x.size(); k++)
        x[k] = static_cast<float>((k * 37 + static_cast<size_t>(r) * 11) % 61) - 30.0f;
      activations.set_row(kernels, r, x.data());
    }
    const size_t count = rows < kPrefillRows ? matrices.size() : std::min<size_t>(matrices.size(), 2);
    std::vector<double> times;
    for (int i = 0; i < options.repeats; i++) {
      times.push_back(seconds([&] {
                        for (size_t m = 0; m < count; m++) {
                          const MatmulJob job{&matrices[m], y.data(), first.outputs};
                          pool.parallel_for(first.blocks(), blocks_per_chunk({&job, 1}, rows, pool.workers()),
                                            [&](int, int64_t begin, int64_t end) {
                                              matmul(kernels, {&job, 1}, activations, 0, rows, begin, end);
                                            });
                        }
                      }) /
                      static_cast<double>(count));
    }
    return median(times);
  }

  Status measure(const std::string& format, BenchKernelsReport& report) const {
    Result<Source> source = make_source(format, options.outputs, options.inputs);
    if (!source) return source.error();
    Result<PackedLinear> packed = pack(source->view, pool);
    if (!packed) return packed.error();
    std::vector<PackedLinear> matrices;
    matrices.push_back(std::move(*packed));
    const uint64_t bytes = matrices.front().bytes();
    while (matrices.size() * bytes < options.bytes) matrices.push_back(copy_of(matrices.front()));
    const double read = read_bandwidth(matrices, pool, options.repeats);
    report.read_gigabytes_per_second = std::max(report.read_gigabytes_per_second, read / 1e9);
    double one = 0;
    for (int rows : options.rows) {
      const double time = product(matrices, rows);
      if (rows == 1) one = time;
      const double rate = static_cast<double>(bytes) / time;
      report.rows.push_back(
          {format, options.inputs, options.outputs, rows, time * 1e6, rate / 1e9, rate / read, one > 0 ? time / one : 0,
           static_cast<double>(rows) * static_cast<double>(options.inputs * options.outputs) / time / 1e9});
    }
    return {};
  }
};

}  // namespace

Result<BenchKernelsReport> bench_kernels(const BenchKernelsOptions& options) {
  if (options.inputs < 1 || options.inputs > 1 << 20 || options.outputs < 1 || options.outputs > 1 << 20 ||
      options.repeats < 1) {
    return Error{ErrorKind::invalid_argument, "inputs and outputs must be 1 to 1048576, repeats at least 1", "inputs"};
  }
  for (int rows : options.rows) {
    if (rows < 1 || rows > 4096)
      return Error{ErrorKind::invalid_argument, fmt::format("{} rows; expected 1 to 4096", rows), "rows"};
  }
  Result<const Kernels*> kernels = select_kernels(options.isa);
  if (!kernels) return kernels.error();
  ThreadPool pool(options.threads > 0 ? options.threads : read_cpu_limits().workers());
  BenchKernelsReport report;
  report.isa = isa_name(**kernels);
  report.threads = pool.workers();
  for (const std::string& format : options.formats) {
    if (Status status = Bench{options, **kernels, pool}.measure(format, report); !status) return status.error();
  }
  return report;
}

std::string format_report(const BenchKernelsReport& report) {
  std::string text = fmt::format("{}, {} thread{}, plain read {:.1f} GB/s\n", report.isa, report.threads,
                                 report.threads == 1 ? "" : "s", report.read_gigabytes_per_second);
  text += fmt::format("{:<12} {:>6} {:>6} {:>5} {:>10} {:>7} {:>10} {:>7} {:>8}\n", "format", "inputs", "out", "rows",
                      "us", "GB/s", "of read", "cost", "GMAC/s");
  for (const BenchKernelsRow& r : report.rows) {
    text += fmt::format("{:<12} {:>6} {:>6} {:>5} {:>10.1f} {:>7.2f} {:>9.0f}% {:>6.2f}x {:>8.1f}\n", r.format,
                        r.inputs, r.outputs, r.rows, r.microseconds, r.gigabytes_per_second, 100 * r.bandwidth_share,
                        r.relative_cost, r.gmacs_per_second);
  }
  return text;
}

}  // namespace drafthorse
