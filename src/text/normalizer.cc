#include "text/normalizer.h"

namespace drafthorse {
namespace {

std::string strip(std::string_view text, const StripSpace& step) {
  size_t start = 0, end = 0;
  bool seen = false;
  for (size_t at = 0; at < text.size();) {
    const DecodedChar c = decode_utf8(text, at);
    if (!(char_class(c.code_point) & kSpace)) {
      if (!seen) start = at;
      seen = true;
      end = at + c.length;
    }
    at += c.length;
  }
  if (!seen) return step.left || step.right ? std::string() : std::string(text);
  if (!step.left) start = 0;
  if (!step.right) end = text.size();
  return std::string(text.substr(start, end - start));
}

std::string replace_matches(std::string_view text, const ReplaceRegex& step) {
  std::string out;
  size_t done = 0;
  step.from->for_each_match(text, [&](size_t start, size_t end) {
    out.append(text.substr(done, start - done)).append(step.to);
    done = end;
  });
  return out.append(text.substr(done));
}

struct Apply {
  std::string_view text;
  std::string operator()(NormalForm form) const { return normalise(text, form); }
  std::string operator()(const Lowercase&) const { return lowercase(text); }
  std::string operator()(const Prepend& step) const {
    return text.empty() ? std::string() : step.text + std::string(text);
  }
  std::string operator()(const ReplaceText& step) const { return replace_all(text, step.from, step.to); }
  std::string operator()(const ReplaceRegex& step) const { return replace_matches(text, step); }
  std::string operator()(const StripSpace& step) const { return strip(text, step); }
};

}  // namespace

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  out.reserve(text.size());
  size_t done = 0;
  for (size_t at = text.find(from); at != std::string_view::npos; at = text.find(from, done)) {
    out.append(text.substr(done, at - done)).append(to);
    done = at + from.size();
  }
  return out.append(text.substr(done));
}

std::string normalise(const std::vector<NormalizerStep>& steps, std::string_view text) {
  std::string out(text);
  for (const NormalizerStep& step : steps) out = std::visit(Apply{out}, step);
  return out;
}

bool leaves_alone(const std::vector<NormalizerStep>& steps, std::string_view text) {
  for (const NormalizerStep& step : steps) {
    const auto* form = std::get_if<NormalForm>(&step);
    if (!form || *form != NormalForm::nfc || !is_surely_nfc(text)) return false;
  }
  return true;
}

}  // namespace drafthorse
