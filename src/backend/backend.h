#pragma once
// What the engine asks of a backend: load a Network, keep sequences' states, run ragged batches of rows.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/result.h"
#include "network/network.h"

namespace drafthorse {

struct BackendOptions {
  std::string backend = "auto";       // auto | cpu | reference (| cuda | mlx, where built)
  int threads = 0;                    // 0: as many as the affinity mask, cgroup quota and real cores allow
  uint64_t kv_bytes = 0;              // budget of the KV pool; 0: room for one full context
  int context = 0;                    // positions a sequence may have; 0: the model's own
  std::string isa = "auto";           // cpu: auto | portable | avx2 | avx512 | neon (tests compare them)
  bool quantised_activations = true;  // reference: false gives fp32 activations (the oracle for transformers)
};

// The state of one sequence: KV blocks by position. Made by a Model and used with that Model only.
class State {
 public:
  virtual ~State() = default;
  virtual int length() const = 0;  // positions held: the single source of truth
  // The shortest length above 0 that truncate can go back to. 1 where every part of the state rolls back by length;
  // with recurrent parts, the position that the last run's tentative rows started from.
  virtual int earliest() const { return 1; }
  // Forgets positions >= length: 0, or earliest() <= length <= this->length(). Memory past it is given back, but for what
  // the last Model::reserve keeps.
  virtual void truncate(int length) = 0;
};

// Most rows of one item that a run may be asked to keep takeable back.
inline constexpr int kMostTentative = 16;

// Which rows of an item get logits.
enum class LogitRows { none, last, all };

// `tokens` of one sequence, at positions state->length() .. + tokens.size() - 1.
struct BatchItem {
  State* state = nullptr;
  std::span<const int32_t> tokens;
  LogitRows logits = LogitRows::last;
  // The last `tentative` tokens (at most kMostTentative, fewer than all of them or all) may be taken back by truncate.
  // Recurrent parts leave them out of the committed state and keep a tape of them, from which the next run of this state
  // replays those that are still there, bit for bit (deferred commit).
  int tentative = 0;
  Hidden hidden = Hidden::none;  // asks for the hidden vectors of this item's rows
  // For a network with a joined input: h of every token, [tokens, hidden].
  std::span<const float> joined = {};
  bool hidden_last = false;  // hidden: of the last row only; rows that give nothing need not be computed to the end
  // Logits of the first so many tokens of the vocabulary are enough; 0: of all. A run gives the most that an item asks.
  int columns = 0;
};

// Valid until the next run.
struct RunOutput {
  std::span<const float> logits = {};  // [rows, columns] fp32, the items' rows one after another in item order
  int rows = 0;
  int columns = 0;                     // vocab, or fewer where every item with logits was content with fewer
  std::span<const float> hidden = {};  // [rows that were asked for, hidden] fp32, in item order
  // `cancelled` stopped the run: no state was extended; one with recurrent parts that the run had touched is empty
  // (length 0). The same holds after an exception.
  bool stopped = false;
};

// Columns of logits that a run of `batch` gives.
int logit_columns(std::span<const BatchItem> batch, int vocab);

// A part of the memory a model holds, for the budget and for `inspect`.
struct MemoryPart {
  std::string name;  // "weights", "kv", "buffers"
  uint64_t bytes = 0;
};

// What a part of the blocks has taken since the model was loaded.
struct TimePart {
  std::string name;  // "attention", "gated delta rule", "feed-forward", "experts", "head"
  double seconds = 0;
};

class Model {
 public:
  virtual ~Model() = default;
  virtual int vocab() const = 0;
  virtual int context() const = 0;
  virtual int hidden() const { return 0; }      // width of hidden vectors
  virtual std::string description() const = 0;  // "cpu avx2, 2 threads"
  virtual std::vector<MemoryPart> memory() const = 0;
  // Where runs spend their time; empty where a backend does not measure it.
  virtual std::vector<TimePart> times() const { return {}; }

  virtual std::unique_ptr<State> new_state() = 0;
  // Keeps room for `positions` more positions of this state, through truncate, until the next call (0: gives it back).
  // A run within it cannot want for KV memory; one past it takes from the pool and is a bug when that is empty.
  // Error: out_of_memory with the numbers.
  virtual Status reserve(State& state, int positions) = 0;
  // Extends every item's state by its tokens and computes the asked logits. Every row's result depends only on its
  // sequence's tokens up to it: not on the other items, on how tokens are cut into calls, or on the thread count.
  // Items have distinct states, at least one token each, token ids in [0, vocab). `cancelled`, when set, is polled
  // between blocks; when it returns true the run stops.
  virtual RunOutput run(std::span<const BatchItem> batch, const std::function<bool()>& cancelled = {}) = 0;

  // Loads a drafter's network on this model's threads and memory pool; matrices whose tensors are this model's own (the
  // embedding, the head) are shared. The model must outlive it. Error: unsupported where the backend has none.
  virtual Result<std::unique_ptr<Model>> load_companion(const Network& network);
};

// What a sequence takes of a memory pool: bytes of one position more, and of its recurrent state.
struct SequenceBytes {
  uint64_t position = 0, fixed = 0;
};
// Errors: unsupported, where no backend has kernels for a part's shape; names the block.
Result<SequenceBytes> sequence_bytes(const Network& network);

using Progress = std::function<void(uint64_t done_bytes, uint64_t total_bytes)>;

// Loads (packs) the network's weights. Errors: unsupported names block and format; out_of_memory the numbers.
Result<std::unique_ptr<Model>> load_model(const Network& network, const BackendOptions& options,
                                          const Progress& progress = {});

}  // namespace drafthorse
