#pragma once
// The CPU backend: packed weights, a pool of blocks for all states, and one pass over the blocks for all rows of a batch.
// model.cc cuts a batch into pieces and keeps the states' books; layers.cc runs a piece.

#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/attend.h"
#include "backend/cpu/buffers.h"
#include "backend/cpu/delta_net.h"
#include "backend/cpu/kv_pool.h"
#include "backend/cpu/moe.h"
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
  int hidden() const override { return hidden_; }
  std::string description() const override;
  std::vector<MemoryPart> memory() const override;
  std::vector<TimePart> times() const override;
  std::unique_ptr<State> new_state() override { return std::make_unique<KvState>(kv_); }
  Status reserve(State& state, int positions) override;
  RunOutput run(std::span<const BatchItem> batch, const std::function<bool()>& cancelled) override;
  Result<std::unique_ptr<Model>> load_companion(const Network& network) override;

 private:
  // At most this many rows go through the blocks together; longer batches go in pieces.
  static constexpr int kMaxRows = 512;

  struct Row {
    int32_t token = 0;
    int position = 0;
    int logits = -1;  // its place among the rows of the batch that ask for logits, or -1
    int hidden = -1;  // the same for hidden vectors
    Hidden hidden_kind = Hidden::none;
    const float* joined = nullptr;  // [hidden]
    bool wanted() const { return logits >= 0 || hidden >= 0; }
  };
  struct Piece {
    std::vector<Row> rows;
    std::vector<SequenceRows> sequences;
    int size() const { return int(rows.size()); }
    bool all_wanted() const;
  };
  enum class Part { attention, delta, mlp, experts, head };
  // Floats of each row of the piece, to be moved when rows go.
  struct RowsOf {
    float* data;
    int64_t width;
  };

  CpuModel(const Network& network, const Kernels& kernels, const RowKernels& rows, std::shared_ptr<ThreadPool> pool);
  static Result<std::unique_ptr<Model>> build(std::unique_ptr<CpuModel> model, const Network& network, KvLayout layout,
                                              int kv_blocks, int context, const Progress& progress,
                                              std::shared_ptr<const PackedLayer> head);

  Piece read_batch(std::span<const BatchItem> batch) const;
  Piece cut(const Piece& batch, int begin) const;
  void make_room(int rows);

  bool run_piece(Piece& piece, int columns, const std::function<bool()>& cancelled);
  void embed(const Piece& piece);
  void join(const Piece& piece);
  void mixer(int layer, Piece& piece);
  void attention(const PackedBlock& block, const PackedAttention& attention, Piece& piece, bool narrows);
  void delta_net(const PackedDelta& delta, Piece& piece, bool narrows);
  void project(const PackedLayer& out, const PackedBlock& block, int rows, const float* from);
  void ffn(int layer, int rows);
  void gate_and_up(const PackedMlp& mlp, int rows);
  void outputs(const Piece& piece);
  void head(const Piece& piece, int columns);

  // Keeps the rows that want an output, at the front of x, the ropes' tables and `also`.
  void narrow(Piece& piece, std::span<const RowsOf> also);
  void norm_and_quantise(const PackedNorm& norm, int row);
  void add_bias(const PackedLayer& layer, float* y, int rows);
  void add_result(const std::vector<float>& bias, const std::optional<PackedNorm>& after, int row);
  void place_query(const PackedAttention& attention, int row);
  void place_keys(const PackedAttention& attention, const Row& row, int r, const KvState& state);
  void multiply(std::span<const MatmulJob> jobs, const Activations& activations);
  template <class Function>
  void timed(Part part, Function&& fn);
  template <class Function>
  void for_rows(int rows, int64_t width, Function&& fn);
  Activations& activations(int64_t inputs) { return buffers_.activations.at(inputs); }
  void set_rows(int rows);

  // What the network says, without its tensors but the embedding.
  std::shared_ptr<const Checkpoint> checkpoint_;
  TensorView embedding_, head_;
  float embedding_scale_, logit_softcap_;
  int hidden_, vocab_, context_ = 0;

  const Kernels& kernels_;
  const RowKernels& row_kernels_;
  std::shared_ptr<ThreadPool> pool_;  // one for a model and its companions
  PackedNetwork network_;
  std::shared_ptr<KvPool> kv_;
  std::unique_ptr<Attend> attend_;
  DeltaMixer delta_;
  Mixture mixture_;
  Buffers buffers_;
  std::vector<float> head_rows_;   // rows that want logits, normed
  std::vector<float> logits_;      // [rows of the batch that ask, columns]
  double seconds_[5] = {};         // by Part
  std::vector<float> hidden_out_;  // [rows of the batch that ask, hidden]
};

}  // namespace drafthorse::cpu
