#include "api/sse.h"

#include <cmath>

#include <fmt/format.h>

#include "api/json_text.h"
#include "core/version.h"

namespace drafthorse {

std::string sse_data(std::string_view data) {
  std::string out = "data: ";
  out.append(data);
  out += "\n\n";
  return out;
}

std::string answer_head(const AnswerInfo& info, std::string_view object) {
  return fmt::format(
      "{{\"id\":{},\"object\":{},\"created\":{},\"model\":{},\"system_fingerprint\":\"drafthorse-{}\",\"choices\":",
      json_quote(info.id), json_quote(object), info.created, json_quote(info.model), kVersion);
}

std::string logprob_json(float logprob) {
  if (!std::isfinite(logprob)) return "-9999.0";
  return fmt::format("{:.6f}", logprob);
}

}  // namespace drafthorse
