#include "api/common_fields.h"

#include <charconv>
#include <limits>

#include <fmt/format.h>
#include <boost/json.hpp>

namespace drafthorse {

namespace json = boost::json;

namespace {

constexpr size_t kMaxStopBytes = 4096;

std::optional<float> narrow(std::optional<double> number) {
  return number ? std::optional<float>(static_cast<float>(*number)) : std::nullopt;
}

void decode_stop(Fields& fields, std::vector<std::string>& stop) {
  const json::value* value = fields.any("stop");
  if (!value) return;
  const auto add = [&](const json::value& item) {
    if (!item.is_string() || item.get_string().empty() || item.get_string().size() > kMaxStopBytes) {
      fields.fail("stop",
                  fmt::format("'stop' must be a string or an array of strings of 1 to {} bytes, but {} was given.",
                              kMaxStopBytes, describe(item)));
      return;
    }
    stop.emplace_back(item.get_string().data(), item.get_string().size());
  };
  if (!value->is_array()) return add(*value);
  const json::array& items = value->get_array();
  if (items.size() > kMaxStops)
    return fields.fail("stop",
                       fmt::format("'stop' may hold at most {} strings, but {} were given.", kMaxStops, items.size()));
  for (const json::value& item : items) add(item);
}

void decode_logit_bias(Fields& fields, int vocab, std::vector<std::pair<int32_t, float>>& out) {
  const json::object* bias = fields.object("logit_bias");
  if (!bias) return;
  const int64_t limit = vocab > 0 ? vocab : std::numeric_limits<int32_t>::max();
  for (const auto& entry : *bias) {
    const std::string_view key(entry.key().data(), entry.key().size());
    int32_t token = -1;
    const auto [end, ec] = std::from_chars(key.data(), key.data() + key.size(), token);
    if (ec != std::errc() || end != key.data() + key.size() || token < 0 || token >= limit)
      return fields.fail("logit_bias",
                         fmt::format("'logit_bias' keys must be token ids from 0 to {}, but {} was given.", limit - 1,
                                     describe(json::value(entry.key()))));
    if (!entry.value().is_number() || !(std::abs(entry.value().to_number<double>()) <= 100))
      return fields.fail("logit_bias",
                         fmt::format("'logit_bias' values must be numbers from -100 to 100, but {} was given.",
                                     describe(entry.value())));
    out.emplace_back(token, entry.value().to_number<float>());
  }
}

void decode_sampling(Fields& fields, const ServedModel& model, SamplingFields& out) {
  out.temperature = narrow(fields.number("temperature", 0, 2));
  out.top_p = narrow(fields.number("top_p", 0, 1));
  out.min_p = narrow(fields.number("min_p", 0, 1));
  if (const auto k = fields.integer("top_k", -1, std::numeric_limits<int32_t>::max())) out.top_k = std::max<int>(0, *k);
  out.presence_penalty = narrow(fields.number("presence_penalty", -2, 2));
  out.frequency_penalty = narrow(fields.number("frequency_penalty", -2, 2));
  out.repetition_penalty = narrow(fields.number("repetition_penalty", 0.01, 10));
  if (const auto alias = narrow(fields.number("repeat_penalty", 0.01, 10))) {
    if (out.repetition_penalty && *out.repetition_penalty != *alias)
      fields.fail("repeat_penalty", "'repeat_penalty' is another name of 'repetition_penalty'; give one of them.");
    out.repetition_penalty = alias;
  }
  if (const auto seed =
          fields.integer("seed", std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()))
    out.seed = static_cast<uint64_t>(*seed);
  decode_logit_bias(fields, model.vocab, out.logit_bias);
}

void decode_stream(Fields& fields, ApiRequest& out) {
  out.stream = fields.boolean("stream").value_or(false);
  const json::object* options = fields.object("stream_options");
  if (!options) return;
  if (!out.stream) return fields.fail("stream_options", "'stream_options' is only allowed when 'stream' is true.");
  Fields inner(*options, "stream_options.");
  out.include_usage = inner.boolean("include_usage").value_or(false);
  inner.ignore({"include_obfuscation"});
  if (const Status status = inner.done(); !status) fields.fail(status.error());
}

void decode_draft(Fields& fields, CompletionRequest& out) {
  if (const auto draft = fields.string("draft")) {
    if (!is_draft_mode(*draft)) fields.fail("draft", "'draft' must be \"auto\", \"off\", \"lookup\" or \"mtp\".");
    out.draft = *draft;
  }
  out.max_draft = static_cast<int>(fields.integer("max_draft", 0, 16).value_or(0));
  out.ignore_eos = fields.boolean("ignore_eos").value_or(false);
}

}  // namespace

void decode_common(Fields& fields, const ServedModel& model, ApiRequest& out, CompletionRequest& completion) {
  if (const auto name = fields.string("model"); name && !answers_to(model, *name))
    return fields.fail(unknown_model(model, *name));
  decode_stream(fields, out);
  decode_sampling(fields, model, completion.sampling);
  decode_stop(fields, completion.stop);
  decode_draft(fields, completion);
  out.n = static_cast<int>(fields.integer("n", 1, kMaxChoices).value_or(1));
  out.timings = fields.boolean("timings").value_or(true);
  if (const auto tokens = fields.integer("max_tokens", 1, std::numeric_limits<int32_t>::max()))
    completion.max_tokens = static_cast<int>(*tokens);
  // They say who asks, what to keep or how to schedule, never what the answer is.
  fields.ignore({"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key",
                 "prompt_cache_retention", "cache_prompt", "prediction"});
}

}  // namespace drafthorse
