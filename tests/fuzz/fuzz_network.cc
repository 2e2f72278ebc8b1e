// Any settings and any list of tensors as a checkpoint: read_network refuses it, or gives a Network whose views lie
// inside the data and have the sizes that its numbers say.
//
// Input: {"settings": {...}, "tensors": [["name", "f32", [2, 3]], ...]}; settings are config.json's, or with "gguf": true
// GGUF metadata. Tensors of more than 1 MiB are left out, as their bytes must be somewhere.

#include <cstdint>
#include <cstdlib>
#include <map>
#include <set>
#include <string_view>

#include <spdlog/spdlog.h>
#include <boost/json/parse.hpp>

#include "network/network.h"
#include "weights/checkpoint_files.h"

namespace drafthorse {
namespace {

constexpr size_t kMostBytes = 1 << 20;

std::span<const std::byte> zeros(size_t count) {
  static const std::vector<std::byte> storage(kMostBytes);
  return std::span(storage).first(count);
}

Format format_of(std::string_view text) {
  for (int i = 0; i <= static_cast<int>(Format::mxfp4_blocks); ++i) {
    if (name(static_cast<Format>(i)) == text) return static_cast<Format>(i);
  }
  return Format::f32;
}

// As the readers do: names are distinct, and a tensor has the bytes that its shape needs.
void add_tensor(const boost::json::value& item, std::vector<TensorView>& tensors, std::set<std::string>& names) {
  if (!item.is_array() || item.get_array().size() != 3) return;
  const auto& fields = item.get_array();
  if (!fields[0].is_string() || !fields[1].is_string() || !fields[2].is_array()) return;
  TensorView tensor;
  tensor.name = fields[0].get_string();
  tensor.format = format_of(std::string_view(fields[1].get_string()));
  for (const auto& size : fields[2].get_array()) tensor.shape.push_back(size.is_int64() ? size.get_int64() : 1);
  const Result<size_t> bytes = byte_count(tensor.format, tensor.shape);
  if (!bytes.ok() || *bytes > kMostBytes || !names.insert(tensor.name).second) return;
  tensor.data = zeros(*bytes);
  tensors.push_back(std::move(tensor));
}

template <class T>
std::vector<T> list_of(const boost::json::array& array) {
  std::vector<T> list;
  for (const auto& item : array) {
    if constexpr (std::is_same_v<T, bool>) list.push_back(item.is_bool() && item.get_bool());
    if constexpr (std::is_same_v<T, int64_t>) list.push_back(item.is_int64() ? item.get_int64() : 0);
  }
  return list;
}

GgufMetadata metadata_of(const boost::json::object& settings) {
  GgufMetadata metadata;
  for (const auto& item : settings) {
    const std::string key(item.key());
    const boost::json::value& value = item.value();
    if (value.is_int64()) metadata[key] = value.get_int64();
    if (value.is_double()) metadata[key] = value.get_double();
    if (value.is_bool()) metadata[key] = value.get_bool();
    if (value.is_string()) metadata[key] = std::string(value.get_string());
    if (!value.is_array() || value.get_array().empty()) continue;
    if (value.get_array().front().is_bool()) {
      metadata[key] = list_of<bool>(value.get_array());
    } else {
      metadata[key] = list_of<int64_t>(value.get_array());
    }
  }
  return metadata;
}

void expect(bool condition) {
  if (!condition) std::abort();
}

void check(const Linear& linear, int64_t out, int64_t in) {
  expect(linear.weight.shape == std::vector<int64_t>{out, in});
  std::vector<float> row(static_cast<size_t>(in));
  expect(dequantise(linear.weight, out - 1, 1, row).ok());
}

void check(const Mlp& mlp, int64_t hidden) {
  const int64_t size = mlp.gate.out_features();
  check(mlp.gate, size, hidden);
  check(mlp.up, size, hidden);
  check(mlp.down, hidden, size);
}

void check(const Moe& moe, int64_t hidden) {
  check(moe.router, static_cast<int64_t>(moe.experts.size()), hidden);
  expect(moe.top_k >= 1 && moe.top_k <= static_cast<int>(moe.experts.size()));
  for (const Mlp& expert : moe.experts) check(expert, hidden);
  if (moe.shared) check(*moe.shared, hidden);
}

void check(const Attention& attention, int64_t hidden) {
  const int64_t heads = int64_t{attention.heads} * attention.head_dim;
  check(attention.q, attention.gated ? 2 * heads : heads, hidden);
  check(attention.o, hidden, heads);
  expect(attention.heads % attention.kv_heads == 0 && attention.rope.dims <= attention.head_dim);
}

void check(const DeltaNet& delta, int64_t hidden) {
  const int64_t values = int64_t{delta.value_heads} * delta.value_dim;
  check(delta.qkv, 2 * int64_t{delta.key_heads} * delta.key_dim + values, hidden);
  check(delta.out, hidden, values);
  expect(delta.value_heads % delta.key_heads == 0 && delta.kernel >= 2);
  expect(delta.conv.rows() == delta.qkv.out_features() && delta.conv.columns() == delta.kernel);
}

void check(const Network& network) {
  check(network.head, network.vocab, network.hidden);
  for (const Block& block : network.blocks) {
    std::visit([&](const auto& mixer) { check(mixer, network.hidden); }, block.mixer);
    std::visit([&](const auto& ffn) { check(ffn, network.hidden); }, block.ffn);
  }
  (void)bytes_per_token(network);
  if (network.mtp) check(*network.mtp);
}

}  // namespace
}  // namespace drafthorse

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace drafthorse;
  spdlog::set_level(spdlog::level::off);
  boost::system::error_code error;
  const auto value = boost::json::parse(std::string_view(reinterpret_cast<const char*>(data), size), error);
  if (error || !value.is_object()) return 0;
  const boost::json::object& input = value.get_object();
  const boost::json::value* settings = input.if_contains("settings");
  const boost::json::value* tensors = input.if_contains("tensors");
  if (!settings || !settings->is_object() || !tensors || !tensors->is_array()) return 0;
  CheckpointParts parts;
  const boost::json::value* gguf = input.if_contains("gguf");
  parts.path = "/nonexistent/model";
  parts.kind = gguf && gguf->is_bool() && gguf->get_bool() ? Checkpoint::Kind::gguf : Checkpoint::Kind::safetensors;
  if (parts.kind == Checkpoint::Kind::gguf) {
    parts.metadata = metadata_of(settings->get_object());
  } else {
    parts.config = settings->get_object();
  }
  std::set<std::string> names;
  for (const auto& item : tensors->get_array()) add_tensor(item, parts.tensors, names);
  const auto network = read_network(make_checkpoint(std::move(parts)));
  if (network.ok()) check(*network);
  return 0;
}
