#include "api/usage.h"

#include <algorithm>
#include <cmath>

#include <boost/json.hpp>

namespace drafthorse {

namespace json = boost::json;

namespace {
// Microsecond precision is enough and keeps the numbers short.
double milliseconds(double seconds) { return std::round(seconds * 1e6) / 1e3; }
double rate(double value) { return std::round(value * 1e3) / 1e3; }

void add_drafter(DrafterStats& to, const DrafterStats& from) {
  to.proposed += from.proposed;
  to.accepted += from.accepted;
  to.steps += from.steps;
}
}  // namespace

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
  add_drafter(total_.speculation, s.speculation);
  for (const auto& [name, drafter] : s.by_drafter) add_drafter(total_.by_drafter[name], drafter);
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
  return json::serialize(json::object{
      {"prompt_tokens", total_.prompt_tokens},
      {"completion_tokens", total_.completion_tokens},
      {"total_tokens", total_.prompt_tokens + total_.completion_tokens},
      {"prompt_tokens_details", {{"cached_tokens", total_.cached_tokens}}},
      {"completion_tokens_details",
       {{"accepted_prediction_tokens", d.accepted}, {"rejected_prediction_tokens", d.proposed - d.accepted}}}});
}

std::string UsageTotals::timings_json() const {
  json::object drafters;
  for (const auto& [name, d] : total_.by_drafter)
    drafters[name] = json::object{{"proposed", d.proposed}, {"accepted", d.accepted}, {"steps", d.steps}};
  return json::serialize(json::object{{"prompt_n", processed_prompt_tokens_},
                                      {"cached_n", total_.cached_tokens},
                                      {"prompt_ms", milliseconds(total_.prefill_seconds)},
                                      {"prompt_per_second", rate(prompt_per_second_)},
                                      {"predicted_n", total_.completion_tokens},
                                      {"predicted_ms", milliseconds(total_.decode_seconds)},
                                      {"predicted_per_second", rate(predicted_per_second_)},
                                      {"queue_ms", milliseconds(total_.queue_seconds)},
                                      {"first_token_ms", milliseconds(first_token_seconds_)},
                                      {"total_ms", milliseconds(total_seconds_)},
                                      {"draft_n", total_.speculation.proposed},
                                      {"draft_accepted", total_.speculation.accepted},
                                      {"steps", total_.speculation.steps},
                                      {"drafters", std::move(drafters)},
                                      {"seed", seed_}});
}

}  // namespace drafthorse
