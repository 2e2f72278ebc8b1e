#pragma once
// Speed of a model as loaded: `drafthorse bench model` and the documents' figures.

#include "backend/backend.h"
#include "backend/read_bandwidth.h"

namespace drafthorse {

struct ModelBenchOptions {
  int tokens = 32;         // tokens of one decode measurement
  int depth = 0;           // positions held before the decode
  int prefill_rows = 512;  // tokens of one prefill measurement
  int repeats = 3;         // each figure is the median of so many measurements
};

struct ModelBench {
  double decode_tokens_per_second = 0;   // one sequence, one row a step, at `depth`
  double prefill_tokens_per_second = 0;  // `prefill_rows` rows in one run, from an empty state
  // That one decode step moves: weights (of a mixture those of a token's own experts) and KV read, recurrent states read
  // and written.
  uint64_t bytes_per_token = 0;
  double read_bytes_per_second = 0;    // bytes_per_token * decode_tokens_per_second
  double bandwidth = 0;                // measure_read_bandwidth of as many threads, bytes a second
  double bandwidth_share = 0;          // read_bytes_per_second / bandwidth
  std::vector<TimePart> decode_parts;  // seconds of one decode step by part, where the backend measures them
};

// `threads`: of the model, for the bandwidth measurement. Error: context_length when depth and tokens do not fit,
// out_of_memory when the KV pool cannot hold them.
Result<ModelBench> bench_model(const Network& network, Model& model, int threads, const ModelBenchOptions& options);

}  // namespace drafthorse
