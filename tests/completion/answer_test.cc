#include "completion/answer.h"

#include <gmock/gmock.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "completion/chat_fixture.h"

namespace drafthorse::test {
namespace {

struct Collected {
  std::string reasoning, text;
  std::vector<int32_t> tokens;
  std::vector<TokenLogprob> logprobs;
  std::optional<Finish> finish;
  int finishes = 0;
  bool stopped = false;
};

// Feeds an answer's bytes and markers, `step` tokens at a time.
Collected run(const std::vector<int32_t>& tokens, AnswerOptions options, size_t step = 1,
              FinishReason reason = FinishReason::length) {
  Collected out;
  AnswerSink answer(chat_tokenizer(), std::move(options), [&](Event event) {
    EXPECT_EQ(out.finishes, 0);
    if (auto* r = std::get_if<ReasoningDelta>(&event)) {
      EXPECT_TRUE(out.text.empty());
      out.reasoning += r->text;
    }
    if (auto* t = std::get_if<TextDelta>(&event)) {
      out.text += t->text;
      out.tokens.insert(out.tokens.end(), t->tokens.begin(), t->tokens.end());
      out.logprobs.insert(out.logprobs.end(), t->logprobs.begin(), t->logprobs.end());
    }
    if (auto* f = std::get_if<Finish>(&event)) {
      out.finish = *f;
      ++out.finishes;
    }
  });
  for (size_t i = 0; i < tokens.size() && !out.stopped; i += step) {
    std::vector<TokenEvent> events;
    for (size_t k = i; k < std::min(tokens.size(), i + step); ++k) events.push_back({tokens[k], -0.5f, {}});
    out.stopped = !answer.on_tokens(events);
  }
  answer.on_finish(out.stopped ? FinishReason::stop : reason, {}, nullptr);
  EXPECT_EQ(out.finishes, 1);
  return out;
}

std::vector<int32_t> tokens_of(std::string_view text) {
  return chat_tokenizer()->encode(text, {.parse_special = true});
}

AnswerOptions thinking(ReasoningSplitter::Start start) {
  AnswerOptions options;
  options.reasoning = start;
  return options;
}

TEST(Answer, PlainTextComesOutWhole) {
  for (size_t step : {1u, 2u, 5u, 100u}) {
    const auto out = run(tokens_of("Gr\xC3\xBC\xC3\x9F Gott \xF0\x9F\x90\xB4"), {}, step);
    EXPECT_EQ(out.text, "Gr\xC3\xBC\xC3\x9F Gott \xF0\x9F\x90\xB4");
    EXPECT_EQ(out.finish->reason, "length");
  }
}

TEST(Answer, StopTokensAreNoText) {
  AnswerOptions options;
  options.stop_tokens = {kImEnd};
  const auto out = run(tokens_of("yes<|im_end|>"), options, 1, FinishReason::stop);
  EXPECT_EQ(out.text, "yes");
  EXPECT_EQ(out.finish->reason, "stop");
}

TEST(Answer, StopStringsMatchAcrossTokensAndAreNotPartOfTheText) {
  AnswerOptions options;
  options.stop = {"END", "\n\n"};
  for (size_t step : {1u, 3u, 100u}) {
    const auto out = run(tokens_of("one EN two END three"), options, step);
    EXPECT_EQ(out.text, "one EN two ");
    EXPECT_TRUE(out.stopped);
    EXPECT_EQ(out.finish->reason, "stop");
  }
  EXPECT_EQ(run(tokens_of("one EN"), options).text, "one EN");  // what was held back comes at the end
}

TEST(Answer, ReasoningIsSplitOff) {
  using Start = ReasoningSplitter::Start;
  for (size_t step : {1u, 2u, 100u}) {
    auto out = run(tokens_of("<think>\nhm\n</think>\n\nYes\n"), thinking(Start::maybe), step);
    EXPECT_EQ(out.reasoning, "hm");
    EXPECT_EQ(out.text, "Yes\n");
    out = run(tokens_of("so\nso</think>Yes"), thinking(Start::inside), step);
    EXPECT_EQ(out.reasoning, "so\nso");
    EXPECT_EQ(out.text, "Yes");
    out = run(tokens_of("never closed </thin"), thinking(Start::inside), step);
    EXPECT_EQ(out.reasoning, "never closed </thin");
    EXPECT_EQ(out.text, "");
    out = run(tokens_of(" \n<think about it"), thinking(Start::maybe), step);
    EXPECT_EQ(out.reasoning, "");
    EXPECT_EQ(out.text, " \n<think about it");
    out = run(tokens_of("<think>x</think>y"), thinking(Start::off), step);
    EXPECT_EQ(out.text, "<think>x</think>y");
    out = run(tokens_of("say <think>x</think>"), thinking(Start::maybe), step);
    EXPECT_EQ(out.text, "say <think>x</think>");
  }
}

TEST(Answer, StopStringsDoNotEndReasoning) {
  auto options = thinking(ReasoningSplitter::Start::inside);
  options.stop = {"\n\n"};
  const auto out = run(tokens_of("a\n\nb</think>c\n\nd"), options);
  EXPECT_EQ(out.reasoning, "a\n\nb");
  EXPECT_EQ(out.text, "c");
}

TEST(Answer, CountsDoNotDependOnHowManyTokensAStepBrought) {
  AnswerOptions options = thinking(ReasoningSplitter::Start::maybe);
  options.stop = {"END"};
  const auto tokens = tokens_of("<think>abc</think>two END three");
  const auto until = static_cast<int>(tokens_of("<think>abc</think>two END").size());
  const auto thought = static_cast<int>(tokens_of("<think>abc</think>").size());
  for (size_t step : {1u, 2u, 5u, 100u}) {
    const auto out = run(tokens, options, step);
    EXPECT_EQ(out.text, "two ");
    EXPECT_EQ(out.finish->usage.stats.completion_tokens, until) << step;
    EXPECT_EQ(out.finish->usage.reasoning_tokens, thought) << step;
  }
}

TEST(Answer, TokensAndLogprobsBelongToTheText) {
  auto options = thinking(ReasoningSplitter::Start::maybe);
  options.logprobs = true;
  auto out = run(tokens_of("<think>a</think>xyz"), options);
  EXPECT_EQ(out.tokens, tokens_of("xyz"));
  ASSERT_EQ(out.logprobs.size(), 3u);
  EXPECT_EQ(out.logprobs[1].bytes, "y");
  EXPECT_EQ(out.logprobs[1].logprob, -0.5f);
  out = run(tokens_of(" \nxyz"), options);
  EXPECT_EQ(out.tokens, tokens_of(" \nxyz"));
}

TEST(Answer, EchoComesFirst) {
  AnswerOptions options;
  options.echo = "Once";
  EXPECT_EQ(run(tokens_of(" upon"), options).text, "Once upon");
  EXPECT_EQ(run({}, options).text, "Once");
}

TEST(Answer, BrokenCharactersAtTheEndAreReplaced) { EXPECT_EQ(run({'a', 0xF0, 0x9F}, {}).text, "a\xEF\xBF\xBD"); }

TEST(Answer, ErrorsAndCancellationsArePassedOn) {
  int finishes = 0;
  AnswerOptions options;
  options.seed = 42;
  AnswerSink answer(chat_tokenizer(), options, [&](Event event) {
    const auto& finish = std::get<Finish>(event);
    EXPECT_EQ(finish.reason, "error");
    EXPECT_EQ(finish.error->message, "broken");
    EXPECT_EQ(finish.usage.seed, 42u);
    ++finishes;
  });
  const Error error{ErrorKind::internal, "broken", ""};
  answer.on_finish(FinishReason::error, {}, &error);
  EXPECT_EQ(finishes, 1);
  EXPECT_EQ(run({}, {}, 1, FinishReason::cancelled).finish->reason, "cancelled");
}

// However the tokens are cut into steps: the same reasoning and the same text.
RC_GTEST_PROP(Answer, DoesNotDependOnHowTokensArrive, ()) {
  const auto piece =
      rc::gen::element<std::string>("<think>", "</think>", "<th", "\n", "a", "stop", "st", "\xC3", "\xBC", " ");
  std::string text;
  for (const auto& part : *rc::gen::container<std::vector<std::string>>(piece)) text += part;
  auto options = thinking(*rc::gen::element(ReasoningSplitter::Start::off, ReasoningSplitter::Start::maybe,
                                            ReasoningSplitter::Start::inside));
  options.stop = {"stop", "a\n"};
  std::vector<int32_t> tokens;
  for (unsigned char c : text) tokens.push_back(c);
  const auto whole = run(tokens, options, 1000);
  for (size_t step : {1u, 2u, 3u}) {
    const auto parts = run(tokens, options, step);
    RC_ASSERT(parts.reasoning == whole.reasoning);
    RC_ASSERT(parts.text == whole.text);
  }
}

}  // namespace
}  // namespace drafthorse::test
