#include "api/usage.h"

#include <algorithm>

#include <fmt/format.h>
#include <boost/json.hpp>

#include "api/json_text.h"

namespace drafthorse {

namespace json = boost::json;

double decode_rate(const RequestStats& stats) {
  if (stats.completion_tokens < 2 || stats.decode_seconds <= 0) return 0;
  return (stats.completion_tokens - 1) / stats.decode_seconds;
}

void UsageTotals::add(int choice, const Usage& usage) {
  const RequestStats& s = usage.stats;
  if (choice % n_ == 0) {
    total_.prompt_tokens += s.prompt_tokens;
    total_.cached_tokens += s.cached_tokens;
  }
  if (choice == 0) seed_ = usage.seed;
  processed_prompt_tokens_ += s.prompt_tokens - s.cached_tokens;
  total_.completion_tokens += s.completion_tokens;
  reasoning_tokens_ += usage.reasoning_tokens;
  total_.speculation.add(s.speculation);
  for (const auto& [name, drafter] : s.by_drafter) total_.by_drafter[name].add(drafter);
  total_.queue_seconds = std::max(total_.queue_seconds, s.queue_seconds);
  total_.prefill_seconds = std::max(total_.prefill_seconds, s.prefill_seconds);
  total_.decode_seconds = std::max(total_.decode_seconds, s.decode_seconds);
  first_token_seconds_ = std::max(first_token_seconds_, usage.first_token_seconds);
  total_seconds_ = std::max(total_seconds_, usage.total_seconds);
  const auto slowest = [](double& slot, double value) {
    if (value > 0 && (slot == 0 || value < slot)) slot = value;
  };
  slowest(predicted_per_second_, decode_rate(s));
  if (s.prefill_seconds > 0) slowest(prompt_per_second_, (s.prompt_tokens - s.cached_tokens) / s.prefill_seconds);
}

std::string UsageTotals::usage_json() const {
  const DrafterStats& d = total_.speculation;
  return json::serialize(json::object{{"prompt_tokens", total_.prompt_tokens},
                                      {"completion_tokens", total_.completion_tokens},
                                      {"total_tokens", total_.prompt_tokens + total_.completion_tokens},
                                      {"prompt_tokens_details", {{"cached_tokens", total_.cached_tokens}}},
                                      {"completion_tokens_details",
                                       {{"reasoning_tokens", reasoning_tokens_},
                                        {"accepted_prediction_tokens", d.accepted},
                                        {"rejected_prediction_tokens", d.proposed - d.accepted}}}});
}

std::string UsageTotals::timings_json() const {
  const auto ms = [](double seconds) { return fmt::format("{:.3f}", seconds * 1e3); };
  std::string drafters;
  for (const auto& [name, d] : total_.by_drafter)
    drafters += fmt::format(
        "{}{}:{{\"proposed\":{},\"accepted\":{},\"steps\":{},\"parked\":{},\"tried_by_depth\":[{}],"
        "\"accepted_by_depth\":[{}]}}",
        drafters.empty() ? "" : ",", json_quote(name), d.proposed, d.accepted, d.steps, d.parked,
        fmt::join(d.tried_by_depth, ","), fmt::join(d.accepted_by_depth, ","));
  std::string out =
      fmt::format("{{\"prompt_n\":{},\"cached_n\":{},\"prompt_ms\":{},\"prompt_per_second\":{:.3f}",
                  processed_prompt_tokens_, total_.cached_tokens, ms(total_.prefill_seconds), prompt_per_second_);
  out += fmt::format(",\"predicted_n\":{},\"predicted_ms\":{},\"predicted_per_second\":{:.3f}",
                     total_.completion_tokens, ms(total_.decode_seconds), predicted_per_second_);
  out += fmt::format(",\"queue_ms\":{},\"first_token_ms\":{},\"total_ms\":{}", ms(total_.queue_seconds),
                     ms(first_token_seconds_), ms(total_seconds_));
  return out + fmt::format(",\"draft_n\":{},\"draft_accepted\":{},\"steps\":{},\"drafters\":{{{}}},\"seed\":{}}}",
                           total_.speculation.proposed, total_.speculation.accepted, total_.speculation.steps, drafters,
                           seed_);
}

}  // namespace drafthorse
