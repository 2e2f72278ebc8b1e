#include "api/answer_frame.h"

#include "api/sse.h"

namespace drafthorse {

AnswerFrame::AnswerFrame(const AnswerInfo& info, std::string_view object)
    : info_(info), usage_(info.n), head_(answer_head(info, object)) {}

bool AnswerFrame::finish_choice(int choice, const Usage& usage) {
  usage_.add(choice, usage);
  return ++finished_ == info_.choices;
}

std::string AnswerFrame::timings() const { return info_.timings ? ",\"timings\":" + usage_.timings_json() : ""; }

std::string AnswerFrame::chunk(std::string_view choice, bool last) const {
  std::string out = head_ + "[" + std::string(choice) + "]";
  if (info_.include_usage) out += ",\"usage\":null";
  else if (last) out += timings();
  return sse_data(out + "}");
}

std::string AnswerFrame::stream_end() const {
  std::string out;
  if (info_.include_usage) out = sse_data(head_ + "[],\"usage\":" + usage_.usage_json() + timings() + "}");
  return out + sse_data("[DONE]");
}

std::string AnswerFrame::whole(std::span<const std::string> choices) const {
  std::string out = head_ + "[";
  for (size_t i = 0; i < choices.size(); ++i) out += (i ? "," : "") + choices[i];
  return out + "],\"usage\":" + usage_.usage_json() + timings() + "}";
}

}  // namespace drafthorse
