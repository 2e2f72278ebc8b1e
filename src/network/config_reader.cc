#include "network/config_reader.h"

#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace drafthorse {

const boost::json::value* ConfigReader::value(std::string_view key) const {
  const boost::json::value* found = object_.if_contains(key);
  return found && !found->is_null() ? found : nullptr;
}

const boost::json::value* ConfigReader::read(std::string_view key) {
  read_.emplace(key);
  return status_.ok() ? value(key) : nullptr;
}

void ConfigReader::fail(ErrorKind kind, std::string_view key, const std::string& text) {
  if (status_.ok()) status_ = Error{kind, fmt::format("{}: key \"{}\": {}", place_, key, text), {}};
}

void ConfigReader::adopt(const Status& status) {
  if (status_.ok()) status_ = status;
}

int ConfigReader::required_size(std::string_view key) {
  if (!has(key)) fail(ErrorKind::corrupt, key, "expected a positive integer, but it is missing");
  return size(key, 0);
}

int ConfigReader::size(std::string_view key, int fallback) {
  const boost::json::value* found = read(key);
  if (!found) return fallback;
  boost::system::error_code error;
  const auto number = found->to_number<int64_t>(error);
  if (error || number < 1 || number > std::numeric_limits<int>::max()) {
    fail(ErrorKind::corrupt, key, "expected an integer from 1 to 2147483647");
    return fallback;
  }
  return static_cast<int>(number);
}

std::optional<int64_t> ConfigReader::integer(std::string_view key) {
  const boost::json::value* found = read(key);
  if (!found) return std::nullopt;
  boost::system::error_code error;
  const auto number = found->to_number<int64_t>(error);
  if (!error) return number;
  fail(ErrorKind::corrupt, key, "expected an integer");
  return std::nullopt;
}

std::optional<double> ConfigReader::number(std::string_view key) {
  const boost::json::value* found = read(key);
  if (!found) return std::nullopt;
  boost::system::error_code error;
  const auto number = found->to_number<double>(error);
  if (error || !std::isfinite(number)) {
    fail(ErrorKind::corrupt, key, "expected a number");
    return std::nullopt;
  }
  return number;
}

bool ConfigReader::boolean(std::string_view key, bool fallback) {
  const boost::json::value* found = read(key);
  if (!found) return fallback;
  if (!found->is_bool()) fail(ErrorKind::corrupt, key, "expected true or false");
  return found->is_bool() ? found->get_bool() : fallback;
}

std::optional<std::string> ConfigReader::text(std::string_view key) {
  const boost::json::value* found = read(key);
  if (!found) return std::nullopt;
  if (!found->is_string()) {
    fail(ErrorKind::corrupt, key, "expected a string");
    return std::nullopt;
  }
  return std::string(found->get_string());
}

std::optional<std::vector<std::string>> ConfigReader::texts(std::string_view key) {
  const boost::json::value* found = read(key);
  if (!found) return std::nullopt;
  std::vector<std::string> result;
  if (found->is_array()) {
    for (const boost::json::value& item : found->get_array()) {
      if (item.is_string()) result.emplace_back(item.get_string());
    }
  }
  if (!found->is_array() || result.size() != found->get_array().size()) {
    fail(ErrorKind::corrupt, key, "expected an array of strings");
    return std::nullopt;
  }
  return result;
}

std::optional<std::vector<int64_t>> ConfigReader::integers(std::string_view key) {
  const boost::json::value* found = read(key);
  if (!found) return std::nullopt;
  std::vector<int64_t> result;
  boost::system::error_code error;
  if (found->is_array()) {
    for (const boost::json::value& item : found->get_array()) {
      const auto number = item.to_number<int64_t>(error);
      if (error) break;
      result.push_back(number);
    }
  }
  if (found->is_array() && !error) return result;
  fail(ErrorKind::corrupt, key, "expected an array of integers");
  return std::nullopt;
}

const boost::json::object* ConfigReader::object(std::string_view key) {
  const boost::json::value* found = read(key);
  if (!found) return nullptr;
  if (!found->is_object()) fail(ErrorKind::corrupt, key, "expected an object");
  return found->if_object();
}

void ConfigReader::expect_text(std::string_view key, std::string_view only) {
  const auto found = text(key);
  if (found && *found != only) {
    fail(ErrorKind::unsupported, key, fmt::format("\"{}\" is not implemented; supported is \"{}\"", *found, only));
  }
}

void ConfigReader::expect_boolean(std::string_view key, bool only) {
  if (boolean(key, only) != only) {
    fail(ErrorKind::unsupported, key, fmt::format("{} is not implemented; supported is {}", !only, only));
  }
}

Status ConfigReader::check_all_read(const std::set<std::string_view>& harmless) {
  if (!status_) return status_;
  std::vector<std::string> unknown;
  for (const auto& item : object_) {
    const std::string_view key = item.key();
    if (item.value().is_null() || read_.contains(key) || harmless.contains(key)) continue;
    unknown.emplace_back(key);
  }
  if (unknown.empty()) return {};
  return Error{ErrorKind::unsupported,
               fmt::format("{}: these keys are not understood and may change what the model computes: {}", place_,
                           fmt::join(unknown, ", ")),
               {}};
}

const std::set<std::string_view>& harmless_config_keys() {
  static const std::set<std::string_view> keys = {
      // Identity and storage. What `quantization` says was checked against the tensors when they were opened.
      "_name_or_path", "architectures", "auto_map", "dtype", "is_llama_config", "model_type", "name_or_path",
      "quantization", "quantization_config", "tokenizer_class", "torch_dtype", "transformers.js_config",
      "transformers_version", "unsloth_fixed", "unsloth_version",
      // How another program computes the same numbers.
      "_attn_implementation", "_attn_implementation_autoset", "_attn_implementation_internal", "_flash_attn_2_enabled",
      "attn_implementation", "cache_implementation", "chunk_size_feed_forward", "gradient_checkpointing",
      "output_attentions", "output_hidden_states", "pretraining_tp", "return_dict", "tf_legacy_loss", "torchscript",
      "use_bfloat16", "use_cache", "use_flash_attn", "use_return_dict",
      // Training only.
      "attention_dropout", "classifier_dropout", "embd_pdrop", "hidden_dropout", "initializer_range",
      "neftune_noise_alpha", "resid_pdrop",
      // Tokens and text; the tokeniser's room reads them.
      "add_bos_token", "add_eos_token", "bos_token_id", "eos_token_id", "model_max_length", "pad_token_id",
      "sep_token_id", "unk_token_id",
      // Generation defaults and task heads that base classes write out.
      "add_cross_attention", "bad_words_ids", "begin_suppress_tokens", "cross_attention_hidden_size",
      "decoder_start_token_id", "diversity_penalty", "do_sample", "early_stopping", "encoder_no_repeat_ngram_size",
      "exponential_decay_length_penalty", "finetuning_task", "forced_bos_token_id", "forced_eos_token_id", "id2label",
      "is_decoder", "label2id", "length_penalty", "max_length", "max_new_tokens", "min_length", "no_repeat_ngram_size",
      "num_beam_groups", "num_beams", "num_return_sequences", "output_scores", "prefix", "problem_type",
      "remove_invalid_values", "repetition_penalty", "return_dict_in_generate", "suppress_tokens",
      "task_specific_params", "temperature", "tie_encoder_decoder", "top_k", "top_p", "typical_p"};
  return keys;
}

}  // namespace drafthorse
