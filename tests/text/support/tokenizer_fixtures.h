#pragma once
// Files of tests/data/tokenizers and .cache/tokenizers (tools/make_tokenizer_goldens.py) as the tests use them.

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace drafthorse::test {

std::filesystem::path tokenizer_data();   // committed
std::filesystem::path tokenizer_cache();  // vocabularies of real models, made on this machine

std::string read_file(const std::filesystem::path& path);
// "….gguf.json" goes through from_gguf, any other through from_json. Fails the test when it cannot be loaded.
std::shared_ptr<const Tokenizer> load_tokenizer(const std::filesystem::path& path);
std::vector<std::string> corpus();
// The golden hashes of a tokenizer, one for each line of the corpus and then for each random_ids(i).
std::vector<std::string> goldens(const std::string& name);
std::string golden_hash(const Tokenizer& tokenizer, std::span<const int32_t> ids);
std::vector<int32_t> random_ids(uint32_t index, int vocab_size);

}  // namespace drafthorse::test
