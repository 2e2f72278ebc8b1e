#include "text/support/tokenizer_fixtures.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <fstream>
#include <sstream>

namespace drafthorse::test {
namespace {

using boost::json::object;

GgufVocabulary vocabulary_of(const object& keys) {
  GgufVocabulary v;
  const auto text = [&](const char* key) {
    return keys.contains(key) ? std::string(keys.at(key).as_string()) : std::string();
  };
  const auto each = [&](const char* key, const auto& use) {
    if (keys.contains(key))
      for (const auto& entry : keys.at(key).as_array()) use(entry);
  };
  const auto id = [&](const char* key) {
    return keys.contains(key) ? std::optional(keys.at(key).to_number<int32_t>()) : std::nullopt;
  };
  const auto flag = [&](const char* key) {
    return keys.contains(key) ? std::optional(keys.at(key).as_bool()) : std::nullopt;
  };
  v.model = text("model");
  v.pre = text("pre");
  each("tokens", [&](const auto& entry) { v.tokens.emplace_back(entry.as_string()); });
  each("token_type", [&](const auto& entry) { v.token_types.push_back(entry.template to_number<int64_t>()); });
  each("scores", [&](const auto& entry) { v.scores.push_back(entry.template to_number<double>()); });
  each("merges", [&](const auto& entry) { v.merges.emplace_back(entry.as_string()); });
  v.bos = id("bos_token_id");
  v.eos = id("eos_token_id");
  v.unk = id("unknown_token_id");
  v.add_bos = flag("add_bos_token");
  v.add_space_prefix = flag("add_space_prefix");
  return v;
}

std::string from_hex(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  return bytes;
}

}  // namespace

std::filesystem::path tokenizer_data() { return std::filesystem::path(DRAFTHORSE_TEST_DATA) / "tokenizers"; }
std::filesystem::path tokenizer_cache() { return std::filesystem::path(DRAFTHORSE_SOURCE) / ".cache/tokenizers"; }

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::shared_ptr<const Tokenizer> load_tokenizer(const std::filesystem::path& path) {
  const std::string text = read_file(path);
  auto tokenizer = path.string().ends_with(".gguf.json")
                       ? Tokenizer::from_gguf(vocabulary_of(boost::json::parse(text).as_object()))
                       : Tokenizer::from_json(text, "");
  EXPECT_TRUE(tokenizer) << path << ": " << (tokenizer ? "" : tokenizer.error().message);
  return tokenizer ? *tokenizer : nullptr;
}

std::vector<std::string> corpus() {
  std::vector<std::string> lines;
  std::istringstream file(read_file(tokenizer_data() / "corpus.jsonl"));
  for (std::string row; std::getline(file, row);) {
    const boost::json::value line = boost::json::parse(row);
    lines.push_back(line.is_string() ? std::string(line.as_string()) : from_hex(line.at("hex").as_string()));
  }
  return lines;
}

std::vector<std::string> goldens(const std::string& name) {
  std::vector<std::string> hashes;
  std::istringstream file(read_file(tokenizer_data() / (name + ".golden")));
  for (std::string row; std::getline(file, row);)
    for (size_t at = 0; at < row.size(); at += 4) hashes.push_back(row.substr(at, 4));
  return hashes;
}

std::string golden_hash(const Tokenizer& tokenizer, std::span<const int32_t> ids) {
  uint32_t hash = 0x811C9DC5;
  const auto add = [&](uint8_t byte) { hash = (hash ^ byte) * 0x01000193; };
  for (const int32_t id : ids)
    for (int shift = 0; shift < 32; shift += 8) add(static_cast<uint8_t>(static_cast<uint32_t>(id) >> shift));
  for (const bool keep_special : {true, false})
    for (const char byte : tokenizer.decode(ids, keep_special)) add(static_cast<uint8_t>(byte));
  return fmt::format("{:04x}", hash >> 16);
}

std::vector<int32_t> random_ids(uint32_t index, int vocab_size) {
  uint32_t state = index * 2654435761u + 12345u;
  std::vector<int32_t> ids(24);
  for (int32_t& id : ids) {
    state = state * 1664525u + 1013904223u;
    id = static_cast<int32_t>((state >> 8) % static_cast<uint32_t>(vocab_size));
  }
  return ids;
}

}  // namespace drafthorse::test
