#pragma once
// The CPU backend: packed weights, a KV pool, and one pass over the blocks for all rows of a batch.

#include <map>
#include <memory>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/attend.h"
#include "backend/cpu/kv_pool.h"
#include "backend/cpu/packed_network.h"
#include "backend/cpu/row_kernels.h"
#include "core/thread_pool.h"

namespace drafthorse::cpu {

class CpuModel final : public Model {
 public:
  // kv_blocks, context: what load.cc worked out of options and budget.
  static Result<std::unique_ptr<Model>> load(const Network& network, const BackendOptions& options, KvLayout layout,
                                             int kv_blocks, int context, const Progress& progress);

  int vocab() const override { return vocab_; }
  int context() const override { return context_; }
  std::string description() const override;
  std::vector<MemoryPart> memory() const override;
  std::unique_ptr<State> new_state() override { return std::make_unique<KvState>(kv_); }
  Status reserve(State& state, int positions) override;
  RunOutput run(std::span<const BatchItem> batch, const std::function<bool()>& cancelled) override;

 private:
  // At most this many rows go through the blocks together; longer batches go in pieces.
  static constexpr int kMaxRows = 512;

  struct Row {
    int32_t token;
    int position;
    bool logits;
  };
  // Intermediate results for `capacity` rows.
  struct Buffers {
    int capacity = 0;
    std::vector<float> x, y, q, k, v, attended, gate, up;
    std::vector<std::vector<float>> cos, sin;    // by rope: [rows, dims / 2]
    std::map<int64_t, Activations> activations;  // by number of inputs
    size_t bytes = 0;
  };

  CpuModel(const Network& network, const BackendOptions& options, const Kernels& kernels, const RowKernels& rows);

  void make_buffers(int rows);
  bool piece(std::span<const Row> rows, std::span<const SequenceRows> sequences, float* logits,
             const std::function<bool()>& cancelled);
  void embed(std::span<const Row> rows);
  void mixer(int layer, std::span<const Row> rows, std::span<const SequenceRows> sequences);
  void ffn(int layer, int rows);
  void gate_and_up(const PackedMlp& mlp, int rows);
  void head(std::span<const Row> rows, float* logits);

  void norm_and_quantise(const PackedNorm& norm, int row);
  void add_result(const PackedLayer& layer, const std::optional<PackedNorm>& after, int row);
  void place_row(int layer, const PackedAttention& attention, const Row& row, int r, const KvState& state);
  void multiply(std::span<const MatmulJob> jobs, const Activations& activations);
  template <class Function>
  void for_rows(int rows, int64_t width, Function&& fn);
  Activations& activations(int64_t inputs) { return buffers_.activations.at(inputs); }

  // What the network says, without its tensors but the embedding.
  std::shared_ptr<const Checkpoint> checkpoint_;
  TensorView embedding_;
  float embedding_scale_, logit_softcap_;
  int hidden_, vocab_, context_ = 0;

  const Kernels& kernels_;
  const RowKernels& row_kernels_;
  ThreadPool pool_;
  PackedNetwork network_;
  std::shared_ptr<KvPool> kv_;
  std::unique_ptr<Attend> attend_;
  Buffers buffers_;
  std::vector<float> head_rows_;  // rows that want logits, normed
  std::vector<float> logits_;
};

}  // namespace drafthorse::cpu
