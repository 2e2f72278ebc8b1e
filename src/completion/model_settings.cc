#include "completion/model_settings.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "engine/sampler.h"

namespace drafthorse {
namespace {

constexpr uintmax_t kLargestTextFile = 256u << 20;  // tokenizer.json of the largest vocabularies is about 35 MB

// Ends of a turn that models use without declaring them. "</s>" is not among them: some vocabularies hold it as text.
constexpr std::string_view kTurnEnds[] = {"<|im_end|>", "<|endoftext|>", "<|eot_id|>",
                                          "<|eom_id|>", "<turn|>",       "<end_of_turn>"};

// The file's text; nothing when it does not exist.
Result<std::optional<std::string>> read_text(const std::filesystem::path& path) {
  std::error_code ec;
  if (!std::filesystem::exists(path, ec)) return std::optional<std::string>{};
  const auto size = std::filesystem::file_size(path, ec);
  if (ec) return Error{ErrorKind::io, fmt::format("{}: {}", path.string(), ec.message()), ""};
  if (size > kLargestTextFile)
    return Error{ErrorKind::corrupt,
                 fmt::format("{}: {} bytes, expected at most {}", path.string(), size, kLargestTextFile), ""};
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) return Error{ErrorKind::io, fmt::format("{}: cannot be read", path.string()), ""};
  return std::optional<std::string>{std::move(text).str()};
}

// The file's JSON object; empty when the file does not exist.
Result<boost::json::object> read_object(const std::filesystem::path& path) {
  auto text = read_text(path);
  if (!text) return text.error();
  if (!*text) return boost::json::object{};
  boost::system::error_code ec;
  auto value = boost::json::parse(**text, ec);
  if (ec) return Error{ErrorKind::corrupt, fmt::format("{}: not JSON: {}", path.string(), ec.message()), ""};
  if (!value.is_object())
    return Error{ErrorKind::corrupt, fmt::format("{}: expected a JSON object", path.string()), ""};
  return std::move(value.get_object());
}

bool is_folder(const Checkpoint& checkpoint) { return checkpoint.kind() == Checkpoint::Kind::safetensors; }

Error wrong_type(std::string_view key, std::string_view expected) {
  return {ErrorKind::corrupt, fmt::format("GGUF metadata {}: expected {}", key, expected), ""};
}

// Reads `key` into `out` (a value, or an optional one) when it is there. False: it has another type.
template <class T, class Out>
bool read(const GgufMetadata& metadata, std::string_view key, Out& out) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) return true;
  const auto* value = std::get_if<T>(&found->second);
  if (value) out = *value;
  return value != nullptr;
}

// Ids are stored as unsigned 32-bit; those that are no id (-1) count as absent.
bool read_id(const GgufMetadata& metadata, std::string_view key, std::optional<int32_t>& out) {
  std::optional<int64_t> id;
  if (!read<int64_t>(metadata, key, id)) return false;
  if (id && *id >= 0 && *id <= INT32_MAX) out = static_cast<int32_t>(*id);
  return true;
}

// {% include 'x' %} and nothing else: x.
std::optional<std::string> included_file(std::string_view source) {
  std::istringstream words{std::string(source)};
  std::string open, word, name, close, more;
  if (!(words >> open >> word >> name >> close) || words >> more) return std::nullopt;
  if ((open != "{%" && open != "{%-") || word != "include" || (close != "%}" && close != "-%}")) return std::nullopt;
  if (name.size() < 3 || (name.front() != '\'' && name.front() != '"') || name.back() != name.front())
    return std::nullopt;
  return name.substr(1, name.size() - 2);
}

Result<std::string> follow_include(const Checkpoint& checkpoint, std::string source) {
  const auto file = included_file(source);
  if (!file) return source;
  const std::filesystem::path name(*file);
  if (name.has_parent_path() || name == "..")
    return Error{ErrorKind::unsupported,
                 fmt::format("chat template includes \"{}\": only files beside the weights may be", *file), ""};
  const auto folder = is_folder(checkpoint) ? checkpoint.path() : checkpoint.path().parent_path();
  auto text = read_text(folder / name);
  if (!text) return text.error();
  if (!*text)
    return Error{ErrorKind::not_found,
                 fmt::format("chat template includes {}, which does not exist", (folder / name).string()), ""};
  return std::move(**text);
}

struct TemplateSources {
  std::optional<std::string> chat, tools;
};

Result<TemplateSources> folder_sources(const Checkpoint& checkpoint) {
  TemplateSources sources;
  auto file = read_text(checkpoint.path() / "chat_template.jinja");
  if (!file) return file.error();
  if (*file) {
    sources.chat = std::move(**file);
    return sources;
  }
  auto config = read_object(checkpoint.path() / "tokenizer_config.json");
  if (!config) return config.error();
  const auto* value = config->if_contains("chat_template");
  if (!value || value->is_null()) return sources;
  if (const auto* text = value->if_string()) {
    sources.chat = std::string(*text);
    return sources;
  }
  const Error wrong{
      ErrorKind::corrupt,
      "tokenizer_config.json chat_template: expected a text, or a list of {name, template} with a \"default\"", ""};
  if (!value->is_array()) return wrong;
  for (const auto& entry : value->get_array()) {
    const auto* object = entry.if_object();
    const auto* name = object ? object->if_contains("name") : nullptr;
    const auto* text = object ? object->if_contains("template") : nullptr;
    if (!name || !text || !name->is_string() || !text->is_string()) return wrong;
    if (name->get_string() == "default") sources.chat = std::string(text->get_string());
    if (name->get_string() == "tool_use") sources.tools = std::string(text->get_string());
  }
  if (!sources.chat) return wrong;
  return sources;
}

Result<std::shared_ptr<const ChatTemplate>> parse_template(const Checkpoint& checkpoint,
                                                           const std::optional<std::string>& source) {
  if (!source) return std::shared_ptr<const ChatTemplate>{};
  auto text = follow_include(checkpoint, *source);
  if (!text) return text.error();
  auto parsed = ChatTemplate::parse(*text);
  if (!parsed) return parsed.error().with_context("chat template");
  return parsed;
}

// eos_token_id: an id or a list of ids.
void add_ids(const boost::json::object& object, std::string_view key, int vocab, std::set<int32_t>& out) {
  const auto* value = object.if_contains(key);
  if (!value) return;
  const auto add = [&](const boost::json::value& v) {
    if (v.is_int64() && v.get_int64() >= 0 && v.get_int64() < vocab) out.insert(static_cast<int32_t>(v.get_int64()));
  };
  if (const auto* list = value->if_array()) {
    for (const auto& v : *list) add(v);
  } else {
    add(*value);
  }
}

// A number of generation_config.json, when it is there.
template <class T>
Status read_number(const boost::json::object& object, std::string_view key, T& out) {
  const auto* value = object.if_contains(key);
  if (!value || value->is_null()) return {};
  boost::system::error_code ec;
  const auto number = value->to_number<T>(ec);
  if (ec)
    return Error{
        ErrorKind::corrupt,
        fmt::format("generation_config.json {}: expected a number, found {}", key, boost::json::serialize(*value)), ""};
  out = number;
  return {};
}

void family_defaults(const std::string& family, SamplingParams& params) {
  if (family == "qwen2") {
    params.top_k = 20;
    params.top_p = 0.8f;
  } else if (family == "qwen3") {
    params.top_k = 20;
    params.top_p = 0.95f;
  } else if (family == "llama") {
    params.top_p = 0.9f;
  }
}

}  // namespace

Result<GgufVocabulary> gguf_vocabulary(const GgufMetadata& metadata) {
  GgufVocabulary v;
  const std::string prefix = "tokenizer.ggml.";
  if (!read<std::string>(metadata, prefix + "model", v.model) || v.model.empty())
    return wrong_type(prefix + "model", "the kind of tokenizer, as text");
  if (!read<std::vector<std::string>>(metadata, prefix + "tokens", v.tokens) || v.tokens.empty())
    return wrong_type(prefix + "tokens", "a list of texts");
  if (!read<std::string>(metadata, prefix + "pre", v.pre)) return wrong_type(prefix + "pre", "a text");
  if (!read<std::vector<int64_t>>(metadata, prefix + "token_type", v.token_types))
    return wrong_type(prefix + "token_type", "a list of integers");
  if (!read<std::vector<double>>(metadata, prefix + "scores", v.scores))
    return wrong_type(prefix + "scores", "a list of numbers");
  if (!read<std::vector<std::string>>(metadata, prefix + "merges", v.merges))
    return wrong_type(prefix + "merges", "a list of texts");
  const std::pair<const char*, std::optional<int32_t>*> ids[] = {{"bos_token_id", &v.bos},
                                                                 {"eos_token_id", &v.eos},
                                                                 {"unknown_token_id", &v.unk},
                                                                 {"eot_token_id", &v.eot},
                                                                 {"eom_token_id", &v.eom}};
  for (const auto& [key, id] : ids)
    if (!read_id(metadata, prefix + key, *id)) return wrong_type(prefix + key, "an integer");
  const std::pair<const char*, std::optional<bool>*> flags[] = {
      {"add_bos_token", &v.add_bos}, {"add_eos_token", &v.add_eos}, {"add_space_prefix", &v.add_space_prefix}};
  for (const auto& [key, flag] : flags)
    if (!read<bool>(metadata, prefix + key, *flag)) return wrong_type(prefix + key, "true or false");
  return v;
}

Result<std::shared_ptr<const Tokenizer>> load_tokenizer(const Checkpoint& checkpoint) {
  if (!is_folder(checkpoint)) {
    auto vocabulary = gguf_vocabulary(checkpoint.metadata());
    if (!vocabulary) return vocabulary.error();
    return Tokenizer::from_gguf(*vocabulary);
  }
  const auto path = checkpoint.path() / "tokenizer.json";
  auto json = read_text(path);
  if (!json) return json.error();
  if (!*json)
    return Error{ErrorKind::not_found,
                 fmt::format("{} does not exist; the checkpoint needs it to read text", path.string()), ""};
  auto config = read_text(checkpoint.path() / "tokenizer_config.json");
  if (!config) return config.error();
  auto tokenizer = Tokenizer::from_json(**json, *config ? std::string_view(**config) : std::string_view());
  if (!tokenizer) return tokenizer.error().with_context(path.string());
  return tokenizer;
}

Result<ChatTemplates> load_chat_templates(const Checkpoint& checkpoint) {
  TemplateSources sources;
  if (is_folder(checkpoint)) {
    auto found = folder_sources(checkpoint);
    if (!found) return found.error();
    sources = std::move(*found);
  } else {
    const auto read_source = [&](std::string_view key, std::optional<std::string>& out) {
      return read<std::string>(checkpoint.metadata(), key, out);
    };
    if (!read_source("tokenizer.chat_template", sources.chat)) return wrong_type("tokenizer.chat_template", "a text");
    if (!read_source("tokenizer.chat_template.tool_use", sources.tools))
      return wrong_type("tokenizer.chat_template.tool_use", "a text");
  }
  ChatTemplates templates;
  auto chat = parse_template(checkpoint, sources.chat);
  if (!chat) return chat.error();
  auto tools = parse_template(checkpoint, sources.tools);
  if (!tools) return tools.error();
  templates.chat = std::move(*chat);
  templates.tools = std::move(*tools);
  return templates;
}

Result<std::vector<int32_t>> load_stop_tokens(const Checkpoint& checkpoint, const Tokenizer& tokenizer) {
  std::set<int32_t> ids;
  if (is_folder(checkpoint)) {
    const auto& config = checkpoint.config();
    add_ids(config, "eos_token_id", tokenizer.vocab_size(), ids);
    if (const auto* text = config.if_contains("text_config"); text && text->is_object())
      add_ids(text->get_object(), "eos_token_id", tokenizer.vocab_size(), ids);
    auto generation = read_object(checkpoint.path() / "generation_config.json");
    if (!generation) return generation.error();
    add_ids(*generation, "eos_token_id", tokenizer.vocab_size(), ids);
  } else {
    for (const char* key :
         {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
      std::optional<int32_t> id;
      if (read_id(checkpoint.metadata(), key, id) && id && *id < tokenizer.vocab_size()) ids.insert(*id);
    }
  }
  if (const auto eos = tokenizer.eos()) ids.insert(*eos);
  for (auto text : kTurnEnds)
    if (const auto id = tokenizer.token_id(text)) ids.insert(*id);
  return std::vector<int32_t>(ids.begin(), ids.end());
}

Result<SamplingParams> load_sampling(const Checkpoint& checkpoint, const Network& network, const LoadOptions& options) {
  SamplingParams params;
  family_defaults(network.family, params);
  if (is_folder(checkpoint)) {
    auto generation = read_object(checkpoint.path() / "generation_config.json");
    if (!generation) return generation.error();
    const Status statuses[] = {
        read_number(*generation, "temperature", params.temperature), read_number(*generation, "top_p", params.top_p),
        read_number(*generation, "top_k", params.top_k), read_number(*generation, "min_p", params.min_p),
        read_number(*generation, "repetition_penalty", params.repetition_penalty)};
    for (const auto& status : statuses)
      if (!status) return status.error();
  }
  if (options.temperature) params.temperature = *options.temperature;
  if (options.top_p) params.top_p = *options.top_p;
  if (options.min_p) params.min_p = *options.min_p;
  if (options.top_k) params.top_k = *options.top_k;
  if (options.repetition_penalty) params.repetition_penalty = *options.repetition_penalty;
  if (options.presence_penalty) params.presence_penalty = *options.presence_penalty;
  if (options.frequency_penalty) params.frequency_penalty = *options.frequency_penalty;
  if (auto valid = validate_sampling(params, network.vocab); !valid)
    return valid.error().with_context("default sampling (generation_config.json or server options)");
  return params;
}

}  // namespace drafthorse
