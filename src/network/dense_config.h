#pragma once
// DenseConfig from the two kinds of settings: config.json and GGUF metadata.

#include "network/config_reader.h"
#include "network/dense_decoder.h"
#include "network/gguf_reader.h"

namespace drafthorse {

// What a family's config.json says differently from others'.
struct HuggingFaceRules {
  double rope_base = 10000;       // when the file gives none
  double partial_rotary = 1;      // share of a head that is rotated, when the file gives none
  bool mixture = false;           // intermediate_size may be missing: experts have their own
  bool has_other_senses = false;  // also published with a vision tower: names of such classes, mrope for its positions
};

// Reads what every family has in config.json: sizes, eps, rope, activation, head. Biases, norms and windows are left to
// the family.
DenseConfig read_hugging_face_common(ConfigReader& reader, const HuggingFaceRules& rules);

// Windows by layer from `layer_types`, with `sliding_window` on the layers called "sliding_attention". Without
// layer_types: on every layer from `first_sliding` on. sliding_window 0: none anywhere.
std::vector<int> read_windows(ConfigReader& reader, int layers, int sliding_window, int first_sliding);

// Qwen's rule: a window only with use_sliding_window, on the layers from max_window_layers on or those of layer_types.
std::vector<int> read_qwen_windows(ConfigReader& reader, int layers);

// Reads what every family has in GGUF metadata; `mixture`: feed_forward_length may be missing.
DenseConfig read_gguf_common(GgufReader& reader, bool mixture);

// Reads everything from GGUF metadata under "{architecture}."; biases are those the file has.
// Errors: corrupt, and unsupported for keys that are not understood, by name.
Result<DenseConfig> read_gguf_config(const Checkpoint& checkpoint, const std::string& architecture);

// config.json's path, for messages.
std::string config_place(const Checkpoint& checkpoint);

}  // namespace drafthorse
