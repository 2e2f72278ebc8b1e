#include "backend/cpu/delta_net.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/math.h"

namespace drafthorse::cpu {
namespace {

// Committed rows that go through a head's stripes together: their q and k share the nearest caches with a stripe. The
// tentative rows all go with the last of them, so that what they start from is at hand.
constexpr int kChunkRows = 32;
constexpr int kMostRows = kChunkRows + kMostTentative;

}  // namespace

// One key head of one sequence.
struct DeltaMixer::Task {
  const RowKernels& kernels;
  const PackedDelta& layer;
  const SequenceRows& sequence;
  const RowsOf& rows;
  Scratch& w;
  const RecurrentLayout::Layer& places;
  const int key_head;

  const DeltaShape& shape = layer.shape;
  const int values = shape.values_per_key(), kernel = shape.kernel;
  const int64_t key_dim = shape.key_dim, value_dim = shape.value_dim;
  const int committed = sequence.rows - sequence.tentative;
  // Whether the recurrent memory is written; else it stays what it is, and zeros where it is fresh.
  const bool commits = committed > 0 || sequence.replay > 0;
  float* const history = sequence.state->record(places.histories[key_head]);
  float* const tape = history + shape.tape_start();

  int64_t row_of(int row) const { return sequence.first_row + row; }
  const float* u(int row) const { return rows.u + row_of(row) * shape.channels(); }

  // f(first channel in a row of u, first channel in the group, channels): q, k, then the value heads.
  template <class F>
  void segments(F f) const {
    const int64_t keys = shape.key_heads * key_dim;
    f(key_head * key_dim, int64_t{0}, key_dim);
    f(keys + key_head * key_dim, key_dim, key_dim);
    for (int j = 0; j < values; ++j) {
      f(2 * keys + shape.value_head(key_head, j) * value_dim, 2 * key_dim + j * value_dim, value_dim);
    }
  }

  void gather(int row, float* group) const {
    segments([&](int64_t channel, int64_t at, int64_t n) {
      std::memcpy(group + at, u(row) + channel, size_t(n) * sizeof(float));
    });
  }

  // The convolution's last inputs become those after `count` more rows, of which group(i, to) gives row i.
  template <class Group>
  void advance_inputs(int count, Group group) const {
    const int64_t width = shape.group_channels();
    const int held = kernel - 1;
    for (int i = 0; i < held; ++i) {
      const int from = count + i;
      if (from < held) {
        std::memcpy(history + i * width, history + from * width, size_t(width) * sizeof(float));
      } else {
        group(from - held, history + i * width);
      }
    }
  }

  void run() const {
    if (sequence.fresh) std::memset(history, 0, size_t((kernel - 1) * shape.group_channels()) * sizeof(float));
    if (sequence.replay > 0) {
      advance_inputs(sequence.replay, [&](int row, float* to) {
        std::memcpy(to, tape + row * shape.tape_row(), size_t(shape.group_channels()) * sizeof(float));
      });
    }
    int done = 0;
    do {
      const int count = std::min(kChunkRows, committed - done);
      chunk(done, count);
      done += count;
    } while (done < committed);
    if (committed > 0) {
      advance_inputs(committed, [&](int row, float* to) { gather(row, to); });
    }
    write_tape();
  }

  // Committed rows [first, first + count), and after the last of them the tentative rows.
  void chunk(int first, int count) const {
    const int tentative = first + count == committed ? sequence.tentative : 0;
    for (int i = 0; i < count + tentative; ++i) prepare(first + i, i);
    for (int j = 0; j < values; ++j) {
      for (int s = 0; s < shape.stripes(); ++s) stripe(j, s, first, count, tentative);
      for (int i = 0; i < count + tentative; ++i) finish(j, first + i);
    }
  }

  // q^, k^, v and gates of a row, into place i of the scratch.
  void prepare(int row, int i) const {
    const float* inputs[16];
    float* to[] = {&w.q[i * key_dim], &w.k[i * key_dim], nullptr};
    int n = 0;
    segments([&](int64_t channel, int64_t at, int64_t width) {
      for (int j = 0; j < kernel; ++j) {
        const int from = row + j - (kernel - 1);
        inputs[j] = from < 0 ? history + (kernel - 1 + from) * shape.group_channels() + at : u(from) + channel;
      }
      float* out = n < 2 ? to[n] : &w.v[(i * values + n - 2) * value_dim];
      kernels.conv_silu(inputs, layer.taps.data() + channel, shape.channels(), kernel, int(width), out);
      ++n;
    });
    kernels.l2_norm(to[0], 1.0f / std::sqrt(float(key_dim)), int(key_dim));
    kernels.l2_norm(to[1], 1.0f, int(key_dim));
    for (int j = 0; j < values; ++j) {
      const int head = shape.value_head(key_head, j);
      const int64_t at = row_of(row) * shape.value_heads + head;
      w.beta[i * values + j] = sigmoid_fixed(rows.b[at]);
      w.g[i * values + j] = exp_fixed(layer.decay[head] * softplus_fixed(rows.a[at] + layer.dt_bias[head]));
    }
  }

  // The j-th value head's rows through one stripe of its state.
  void stripe(int j, int s, int first, int count, int tentative) const {
    const int head = shape.value_head(key_head, j);
    const size_t bytes = size_t(key_dim) * kStripe * sizeof(float);
    float* state = sequence.state->record(places.stripes[head * shape.stripes() + s]);
    const int64_t lane = j * value_dim + s * kStripe;
    if (first == 0 && commits) {
      if (sequence.fresh) std::memset(state, 0, bytes);
      if (sequence.replay > 0) {
        kernels.delta_replay({sequence.replay, int(key_dim), tape + shape.tape_k(), tape + shape.tape_delta() + lane,
                              tape + shape.tape_g() + j, shape.tape_row()},
                             state);
      }
    }
    DeltaRows task;
    task.count = count, task.key_dim = int(key_dim);
    task.q = w.q.data(), task.k = w.k.data(), task.v = w.v.data() + lane;
    task.g = w.g.data() + j, task.beta = w.beta.data() + j;
    task.y = rows.y + row_of(first) * shape.values() + head * value_dim + s * kStripe;
    task.value_stride = values * value_dim, task.y_stride = shape.values(), task.gate_stride = values;
    kernels.delta_rows(task, state);
    if (tentative == 0) return;
    if (sequence.fresh && !commits) {
      std::memset(w.stripe.data(), 0, bytes);
    } else {
      std::memcpy(w.stripe.data(), state, bytes);
    }
    task.q += count * key_dim, task.k += count * key_dim, task.v += count * task.value_stride;
    task.g += count * values, task.beta += count * values, task.y += count * task.y_stride;
    task.count = tentative;
    task.delta = w.delta.data() + lane;
    kernels.delta_rows(task, w.stripe.data());
  }

  // Norm and gate of a row of the j-th value head.
  void finish(int j, int row) const {
    const int64_t at = row_of(row) * shape.values() + shape.value_head(key_head, j) * value_dim;
    float *y = rows.y + at, *z = rows.z + at;
    kernels.rms_norm(y, layer.norm.weight.data(), layer.norm.eps, int(value_dim), y);
    if (layer.gate == Activation::silu) {
      kernels.silu_times(z, y, int(value_dim));
    } else {
      kernels.sigmoid_times(z, y, int(value_dim), z);
    }
  }

  // After everything that reads the old tape. The tentative rows are in the scratch, after the last chunk's others.
  void write_tape() const {
    const int before = committed == 0 ? 0 : (committed - 1) % kChunkRows + 1;
    for (int t = 0; t < sequence.tentative; ++t) {
      float* row = tape + t * shape.tape_row();
      gather(committed + t, row);
      std::memcpy(row + shape.tape_k(), &w.k[(before + t) * key_dim], size_t(key_dim) * sizeof(float));
      std::memcpy(row + shape.tape_delta(), &w.delta[t * values * value_dim],
                  size_t(values * value_dim) * sizeof(float));
      std::memcpy(row + shape.tape_g(), &w.g[(before + t) * values], size_t(values) * sizeof(float));
    }
  }
};

void DeltaMixer::make_scratch(const DeltaShape& shape) {
  const size_t keys = size_t(shape.key_dim), heads = size_t(shape.values_per_key());
  const size_t values = heads * size_t(shape.value_dim);
  auto room = [](std::vector<float>& v, size_t n) {
    if (v.size() < n) v.resize(n);
  };
  if (scratch_.size() < size_t(pool_.workers())) scratch_.resize(size_t(pool_.workers()));
  for (Scratch& w : scratch_) {
    room(w.q, kMostRows * keys), room(w.k, kMostRows * keys), room(w.v, kMostRows * values);
    room(w.g, kMostRows * heads), room(w.beta, kMostRows * heads);
    room(w.delta, kMostTentative * values), room(w.stripe, keys * kStripe);
  }
}

void DeltaMixer::run(const PackedDelta& layer, std::span<const SequenceRows> sequences, const RowsOf& rows) {
  if (sequences.empty()) return;
  make_scratch(layer.shape);
  const int heads = layer.shape.key_heads;
  const RecurrentLayout::Layer& places = sequences[0].state->layout().recurrent.layers[layer.layer];
  pool_.parallel_for(int64_t(sequences.size()) * heads, 1, [&](int worker, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      Task{kernels_, layer, sequences[i / heads], rows, scratch_[worker], places, int(i % heads)}.run();
    }
  });
}

size_t DeltaMixer::bytes() const {
  size_t floats = 0;
  for (const Scratch& w : scratch_) {
    for (const std::vector<float>* v : {&w.q, &w.k, &w.v, &w.g, &w.beta, &w.delta, &w.stripe}) floats += v->capacity();
  }
  return floats * sizeof(float);
}

}  // namespace drafthorse::cpu
