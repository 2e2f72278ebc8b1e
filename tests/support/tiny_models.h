#pragma once
// Tiny random checkpoints of each family in each container, for every room's tests.
//
//   TempFolder folder;
//   Network network = open_network(write_tiny_gguf(folder / "m.gguf", {.family = "llama"}, Format::q4_1));
//
// A tensor's plain values depend on the seed and its name only, so the f32 files of one TinyModel hold the same model in
// both containers. Files come with a byte-level tokeniser (ids 0..255 are bytes; the last id ends the text when
// vocab > 256).

#include <filesystem>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "network/network.h"
#include "support/random_weights.h"
#include "support/temp_folder.h"
#include "support/write_gguf.h"
#include "support/write_safetensors.h"

namespace drafthorse::test {

struct TinyModel {
  std::string family = "llama";  // llama, mistral, qwen2, qwen3
  int layers = 2, hidden = 64, heads = 4, kv_heads = 2, head_dim = 16, intermediate = 128, vocab = 256;
  int context = 512;
  bool tied = true;
  int window = 0;  // mistral only
  uint64_t seed = 1;
};

// One tensor of a tiny model, by its Hugging Face and its GGUF name.
struct TinyTensor {
  std::string name, gguf_name;
  std::vector<int64_t> shape;
  enum class Kind { matrix, norm, bias } kind = Kind::matrix;
  int permuted_heads = 0;  // > 0: GGUF llama stores the rows of this many heads for interleaved rope
};

inline std::vector<TinyTensor> tiny_tensors(const TinyModel& m) {
  using Kind = TinyTensor::Kind;
  std::vector<TinyTensor> list;
  const int q_size = m.heads * m.head_dim, kv_size = m.kv_heads * m.head_dim;
  const bool llama = m.family == "llama" || m.family == "mistral", biases = m.family == "qwen2";
  list.push_back({"model.embed_tokens.weight", "token_embd.weight", {m.vocab, m.hidden}});
  for (int i = 0; i < m.layers; ++i) {
    const std::string hf = "model.layers." + std::to_string(i) + ".", gguf = "blk." + std::to_string(i) + ".";
    const auto projection = [&](const char* name, const char* gguf_name, int64_t out, int64_t in, int heads,
                                bool bias) {
      list.push_back({hf + name + ".weight", gguf + gguf_name + ".weight", {out, in}, Kind::matrix, heads});
      if (bias) list.push_back({hf + name + ".bias", gguf + gguf_name + ".bias", {out}, Kind::bias, heads});
    };
    const auto norm = [&](const char* name, const char* gguf_name, int64_t size) {
      list.push_back({hf + name + ".weight", gguf + gguf_name + ".weight", {size}, Kind::norm});
    };
    norm("input_layernorm", "attn_norm", m.hidden);
    projection("self_attn.q_proj", "attn_q", q_size, m.hidden, llama ? m.heads : 0, biases);
    projection("self_attn.k_proj", "attn_k", kv_size, m.hidden, llama ? m.kv_heads : 0, biases);
    projection("self_attn.v_proj", "attn_v", kv_size, m.hidden, 0, biases);
    projection("self_attn.o_proj", "attn_output", m.hidden, q_size, 0, false);
    if (m.family == "qwen3") {
      norm("self_attn.q_norm", "attn_q_norm", m.head_dim);
      norm("self_attn.k_norm", "attn_k_norm", m.head_dim);
    }
    norm("post_attention_layernorm", "ffn_norm", m.hidden);
    projection("mlp.gate_proj", "ffn_gate", m.intermediate, m.hidden, 0, false);
    projection("mlp.up_proj", "ffn_up", m.intermediate, m.hidden, 0, false);
    projection("mlp.down_proj", "ffn_down", m.hidden, m.intermediate, 0, false);
  }
  list.push_back({"model.norm.weight", "output_norm.weight", {m.hidden}, Kind::norm});
  if (!m.tied) list.push_back({"lm_head.weight", "output.weight", {m.vocab, m.hidden}});
  return list;
}

// Root mean square of a matrix's values: rows then keep the size of their input; embeddings are larger, so that
// the tokens differ clearly.
inline double tiny_size(const TinyTensor& tensor) {
  const bool table = tensor.gguf_name == "token_embd.weight" || tensor.gguf_name == "output.weight";
  return table ? 0.3 : 1.2 / std::sqrt(static_cast<double>(tensor.shape.back()));
}

inline std::vector<float> tiny_values(const TinyModel& m, const TinyTensor& tensor) {
  Random random(m.seed, tensor.name);
  int64_t count = 1;
  for (const int64_t size : tensor.shape) count *= size;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) {
    const float normal = random.normal();
    if (tensor.kind == TinyTensor::Kind::matrix) value = static_cast<float>(tiny_size(tensor)) * normal;
    if (tensor.kind == TinyTensor::Kind::norm) value = 1 + 0.2f * normal;
    if (tensor.kind == TinyTensor::Kind::bias) value = 0.5f * normal;
  }
  return values;
}

// GGUF row h*d + 2i + s holds row h*d + s*d/2 + i (s in {0, 1}, i < d/2).
inline std::vector<float> permute_rows(std::span<const float> values, int64_t rows, int heads) {
  const int64_t columns = static_cast<int64_t>(values.size()) / rows, d = rows / heads;
  std::vector<float> result;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t head = row / d, i = row % d / 2, s = row % 2, source = head * d + s * d / 2 + i;
    result.insert(result.end(), values.begin() + source * columns, values.begin() + (source + 1) * columns);
  }
  return result;
}

// The byte-level alphabet: printable bytes stand for themselves, the others for code points from 256 on.
inline std::vector<std::string> byte_alphabet() {
  std::vector<std::string> letters;
  int next = 256;
  for (int b = 0; b < 256; ++b) {
    const bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
    const int code = printable ? b : next++;
    if (code < 128) {
      letters.push_back(std::string(1, static_cast<char>(code)));
    } else {
      letters.push_back({static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 63))});
    }
  }
  return letters;
}

inline std::vector<std::string> tiny_vocabulary(int vocab) {
  std::vector<std::string> tokens = byte_alphabet();
  tokens.resize(static_cast<size_t>(std::min(vocab, 256)));
  while (static_cast<int>(tokens.size()) < vocab - 1) tokens.push_back("<unused" + std::to_string(tokens.size()) + ">");
  if (static_cast<int>(tokens.size()) < vocab) tokens.push_back("<|endoftext|>");
  return tokens;
}

inline boost::json::object tiny_config(const TinyModel& m) {
  boost::json::object config = {{"model_type", m.family},
                                {"hidden_size", m.hidden},
                                {"num_hidden_layers", m.layers},
                                {"num_attention_heads", m.heads},
                                {"num_key_value_heads", m.kv_heads},
                                {"head_dim", m.head_dim},
                                {"intermediate_size", m.intermediate},
                                {"vocab_size", m.vocab},
                                {"max_position_embeddings", m.context},
                                {"rms_norm_eps", 1e-5},
                                {"rope_theta", 10000.0},
                                {"hidden_act", "silu"},
                                {"tie_word_embeddings", m.tied},
                                {"torch_dtype", "float32"}};
  if (m.window > 0) config["sliding_window"] = m.window;
  if (m.vocab > 256) config["eos_token_id"] = m.vocab - 1;
  return config;
}

inline void write_tiny_tokenizer(const std::filesystem::path& folder, const TinyModel& m) {
  boost::json::object vocab;
  boost::json::array added;
  const auto tokens = tiny_vocabulary(m.vocab);
  for (size_t id = 0; id < tokens.size(); ++id) {
    vocab[tokens[id]] = id;
    if (id >= 256) added.push_back(boost::json::object{{"id", id}, {"content", tokens[id]}, {"special", true}});
  }
  const boost::json::object byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
  const boost::json::object tokenizer = {
      {"version", "1.0"},
      {"added_tokens", added},
      {"normalizer", nullptr},
      {"pre_tokenizer", byte_level},
      {"post_processor", nullptr},
      {"decoder", byte_level},
      {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", boost::json::array()}}}};
  save_text(folder / "tokenizer.json", boost::json::serialize(tokenizer));
  boost::json::object settings;
  if (m.vocab > 256) settings["eos_token"] = "<|endoftext|>";
  save_text(folder / "tokenizer_config.json", boost::json::serialize(settings));
}

// A folder of safetensors in f32, f16 or bf16. Returns the folder.
inline std::filesystem::path write_tiny_hf(const std::filesystem::path& folder, const TinyModel& m,
                                           Format format = Format::f32) {
  std::filesystem::create_directories(folder);
  SafetensorsWriter writer;
  for (const TinyTensor& tensor : tiny_tensors(m)) {
    writer.add(tensor.name, format, tensor.shape, encode_plain(format, tiny_values(m, tensor)));
  }
  writer.save_as(folder / "model.safetensors");
  save_text(folder / "config.json", boost::json::serialize(tiny_config(m)));
  write_tiny_tokenizer(folder, m);
  return folder;
}

// How an MLX pack stores its matrices. mxfp4: {.mode = Format::mxfp4, .bits = 4, .group_size = 32}; mxfp8 8/32; nvfp4 4/16.
struct TinyPack {
  Format mode = Format::affine;
  int bits = 4, group_size = 32;
  Format scale_format = Format::bf16;
};

// A folder as MLX writes it: every matrix quantised (random words), norms and biases in bf16. Returns the folder.
inline std::filesystem::path write_tiny_mlx(const std::filesystem::path& folder, const TinyModel& m,
                                            const TinyPack& pack) {
  std::filesystem::create_directories(folder);
  SafetensorsWriter writer;
  for (const TinyTensor& tensor : tiny_tensors(m)) {
    if (tensor.kind != TinyTensor::Kind::matrix) {
      writer.add(tensor.name, Format::bf16, tensor.shape, encode_plain(Format::bf16, tiny_values(m, tensor)));
      continue;
    }
    Random random(m.seed, tensor.name);
    const OwnedTensor owned =
        random_mlx(pack.mode, pack.bits, pack.group_size, pack.scale_format, tensor.shape, random, tiny_size(tensor));
    const std::string path = tensor.name.substr(0, tensor.name.size() - std::string(".weight").size());
    const int64_t rows = tensor.shape[0], columns = tensor.shape[1], groups = columns / pack.group_size;
    writer.add(tensor.name, Format::u32, {rows, columns * pack.bits / 32}, owned.data);
    writer.add(path + ".scales", owned.shape_and_format.scale_format, {rows, groups}, owned.scales);
    if (pack.mode == Format::affine) writer.add(path + ".biases", pack.scale_format, {rows, groups}, owned.biases);
  }
  writer.save_as(folder / "model.safetensors");
  boost::json::object config = tiny_config(m);
  config["quantization"] = {
      {"group_size", pack.group_size}, {"bits", pack.bits}, {"mode", std::string(name(pack.mode))}};
  save_text(folder / "config.json", boost::json::serialize(config));
  write_tiny_tokenizer(folder, m);
  return folder;
}

inline void set_gguf_metadata(GgufWriter& writer, const TinyModel& m) {
  const std::string architecture = m.family == "mistral" ? "llama" : m.family;
  const auto size = [&](const char* key, int value) {
    writer.set(architecture + "." + key, static_cast<uint32_t>(value));
  };
  writer.set("general.architecture", architecture);
  writer.set("general.name", "tiny " + m.family);
  size("context_length", m.context);
  size("embedding_length", m.hidden);
  size("block_count", m.layers);
  size("feed_forward_length", m.intermediate);
  size("attention.head_count", m.heads);
  size("attention.head_count_kv", m.kv_heads);
  size("attention.key_length", m.head_dim);
  size("attention.value_length", m.head_dim);
  size("rope.dimension_count", m.head_dim);
  size("vocab_size", m.vocab);
  if (m.window > 0) size("attention.sliding_window", m.window);
  writer.set(architecture + ".attention.layer_norm_rms_epsilon", 1e-5f);
  writer.set(architecture + ".rope.freq_base", 10000.0f);
  const auto tokens = tiny_vocabulary(m.vocab);
  std::vector<int32_t> types;
  for (size_t id = 0; id < tokens.size(); ++id) types.push_back(id < 256 ? 1 : 3);  // normal, control
  writer.set("tokenizer.ggml.model", "gpt2");
  writer.set("tokenizer.ggml.pre", "gpt-2");
  writer.set("tokenizer.ggml.tokens", tokens);
  writer.set("tokenizer.ggml.token_type", types);
  writer.set("tokenizer.ggml.merges", std::vector<std::string>{});
  if (m.vocab > 256) writer.set("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(m.vocab - 1));
}

// A GGUF file; `format_of` chooses each matrix's format. Norms and biases are f32. Returns the file.
inline std::filesystem::path write_tiny_gguf(const std::filesystem::path& file, const TinyModel& m,
                                             const std::function<Format(const TinyTensor&)>& format_of) {
  GgufWriter writer;
  set_gguf_metadata(writer, m);
  for (const TinyTensor& tensor : tiny_tensors(m)) {
    const Format format = tensor.kind == TinyTensor::Kind::matrix ? format_of(tensor) : Format::f32;
    if (block_layout(format).elements == 1) {
      std::vector<float> values = tiny_values(m, tensor);
      if (tensor.permuted_heads > 0) values = permute_rows(values, tensor.shape[0], tensor.permuted_heads);
      writer.add(tensor.gguf_name, format, tensor.shape, encode_plain(format, values));
    } else {
      Random random(m.seed, tensor.name);
      writer.add(tensor.gguf_name, format, tensor.shape,
                 random_blocks(format, tensor.shape, random, tiny_size(tensor)).data);
    }
  }
  writer.save_as(file);
  return file;
}

// Every matrix in one format. Super-block formats need hidden, intermediate and heads * head_dim to be multiples of 256.
inline std::filesystem::path write_tiny_gguf(const std::filesystem::path& file, const TinyModel& m, Format format) {
  return write_tiny_gguf(file, m, [format](const TinyTensor&) { return format; });
}

inline std::shared_ptr<const Checkpoint> open_checkpoint(const std::filesystem::path& path) {
  auto checkpoint = Checkpoint::open(path);
  if (!checkpoint) throw std::runtime_error(checkpoint.error().message);
  return *checkpoint;
}

// Opens and translates; throws with the message on an error.
inline Network open_network(const std::filesystem::path& path) {
  Result<Network> network = read_network(open_checkpoint(path));
  if (!network) throw std::runtime_error(network.error().message);
  return std::move(*network);
}

}  // namespace drafthorse::test
