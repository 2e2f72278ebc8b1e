#include "server/metrics.h"

#include <fmt/format.h>

#include "core/version.h"

namespace drafthorse {
namespace {

// Backslash, quote and line feed are escaped in label values (Prometheus exposition formats, text).
std::string label(std::string_view name, std::string_view value) {
  std::string out = std::string(name) + "=\"";
  for (const char c : value) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') out += "\\n";
    else out += c;
  }
  return out + "\"";
}

void family(std::string& out, std::string_view name, std::string_view type, std::string_view help) {
  out += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

template <class T>
void single(std::string& out, std::string_view name, std::string_view type, std::string_view help, T value) {
  family(out, name, type, help);
  out += fmt::format("{} {}\n", name, value);
}

void write_drafters(std::string& out, const std::map<std::string, DrafterStats>& drafters) {
  const auto column = [&](std::string_view name, std::string_view help, auto member) {
    family(out, name, "counter", help);
    for (const auto& [drafter, stats] : drafters)
      out += fmt::format("{}{{{}}} {}\n", name, label("drafter", drafter), stats.*member);
  };
  column("drafthorse_draft_tokens_proposed_total", "Tokens that drafters proposed.", &DrafterStats::proposed);
  column("drafthorse_draft_tokens_accepted_total", "Proposed tokens that the model confirmed.",
         &DrafterStats::accepted);
  column("drafthorse_draft_steps_total", "Model steps that verified a drafter's tokens.", &DrafterStats::steps);
  column("drafthorse_draft_parked_total", "Proposals that were not run because they would not pay.",
         &DrafterStats::parked);
}

void write_engine(std::string& out, const EngineStats& s) {
  single(out, "drafthorse_requests_running", "gauge", "Sequences that share model steps now.", s.running);
  single(out, "drafthorse_requests_queued", "gauge", "Sequences that wait for a place.", s.queued);
  family(out, "drafthorse_sequences_total", "counter", "Sequences by how they ended.");
  for (const auto& [name, value] :
       {std::pair{"finished", s.finished}, {"cancelled", s.cancelled}, {"failed", s.failed}, {"rejected", s.rejected}})
    out += fmt::format("drafthorse_sequences_total{{outcome=\"{}\"}} {}\n", name, value);
  single(out, "drafthorse_prompt_tokens_total", "counter", "Tokens of prompts.", s.prompt_tokens);
  single(out, "drafthorse_completion_tokens_total", "counter", "Tokens of answers.", s.completion_tokens);
  single(out, "drafthorse_steps_total", "counter", "Runs of the model.", s.steps);
  single(out, "drafthorse_rows_total", "counter", "Token rows that runs of the model computed.", s.rows);
  write_drafters(out, s.by_drafter);
}

}  // namespace

void Histogram::observe(double seconds) {
  size_t i = 0;
  while (i < kBounds.size() && seconds > kBounds[i]) ++i;
  ++counts_[i];
  sum_ += seconds;
}

void Histogram::write(std::string& out, const std::string& name, const std::string& labels) const {
  const std::string front = labels.empty() ? "" : labels + ",";
  const std::string braces = labels.empty() ? "" : "{" + labels + "}";
  uint64_t total = 0;
  for (size_t i = 0; i < kBounds.size(); ++i) {
    total += counts_[i];
    out += fmt::format("{}_bucket{{{}le=\"{}\"}} {}\n", name, front, kBounds[i], total);
  }
  total += counts_.back();
  out += fmt::format("{}_bucket{{{}le=\"+Inf\"}} {}\n{}_sum{} {}\n{}_count{} {}\n", name, front, total, name, braces,
                     sum_, name, braces, total);
}

void Metrics::count_request(const std::string& endpoint, int status, double seconds) {
  std::lock_guard lock(mutex_);
  ++requests_[{endpoint, status}];
  seconds_[endpoint].observe(seconds);
}

void Metrics::count_answer(double first_token_seconds, double queue_seconds, uint64_t cached_tokens) {
  std::lock_guard lock(mutex_);
  first_token_.observe(first_token_seconds);
  queue_.observe(queue_seconds);
  cached_tokens_ += cached_tokens;
}

std::string Metrics::text(const ServedModel* model, int connections) const {
  std::string out;
  family(out, "drafthorse_build_info", "gauge", "The running version.");
  out += fmt::format("drafthorse_build_info{{{}}} 1\n", label("version", kVersion));
  single(out, "drafthorse_model_ready", "gauge", "1 when completions are answered.", model ? 1 : 0);
  single(out, "drafthorse_connections", "gauge", "Open client connections.", connections);
  {
    std::lock_guard lock(mutex_);
    family(out, "drafthorse_http_requests_total", "counter", "Requests by endpoint and status; 499: the client left.");
    for (const auto& [key, count] : requests_)
      out += fmt::format("drafthorse_http_requests_total{{{},status=\"{}\"}} {}\n", label("endpoint", key.first),
                         key.second, count);
    family(out, "drafthorse_http_request_duration_seconds", "histogram",
           "From a request's last byte to its answer's last event.");
    for (const auto& [endpoint, histogram] : seconds_)
      histogram.write(out, "drafthorse_http_request_duration_seconds", label("endpoint", endpoint));
    family(out, "drafthorse_first_token_seconds", "histogram", "From submission to the first token.");
    first_token_.write(out, "drafthorse_first_token_seconds", "");
    family(out, "drafthorse_queue_seconds", "histogram", "From submission to the first model step.");
    queue_.write(out, "drafthorse_queue_seconds", "");
    single(out, "drafthorse_prompt_tokens_cached_total", "counter", "Tokens of prompts that were not computed again.",
           cached_tokens_);
  }
  if (model && model->engine_stats) write_engine(out, model->engine_stats());
  if (model && model->memory) {
    family(out, "drafthorse_memory_bytes", "gauge", "Memory that the model holds, by part.");
    for (const MemoryPart& part : model->memory())
      out += fmt::format("drafthorse_memory_bytes{{{}}} {}\n", label("part", part.name), part.bytes);
  }
  return out;
}

}  // namespace drafthorse
