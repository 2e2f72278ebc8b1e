// Answers out: shapes of both endpoints, logprobs, usage, errors, and text that stays valid.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <boost/json.hpp>

#include "api/errors.h"
#include "api/json_text.h"
#include "api/openai_chat.h"
#include "api/openai_completions.h"
#include "api/sse.h"
#include "api/usage.h"

namespace drafthorse {
namespace {

namespace json = boost::json;

AnswerInfo info(int choices = 1) {
  AnswerInfo out;
  out.id = "id-1";
  out.model = "tiny";
  out.created = 5;
  out.choices = out.n = choices;
  return out;
}

Event finish(const std::string& reason, int completion_tokens = 3) {
  Finish out;
  out.reason = reason;
  out.usage.stats.prompt_tokens = 10;
  out.usage.stats.cached_tokens = 4;
  out.usage.stats.completion_tokens = completion_tokens;
  out.usage.stats.speculation.proposed = 6;
  out.usage.stats.speculation.accepted = 2;
  out.usage.stats.speculation.steps = 4;
  out.usage.stats.by_drafter["lookup"].proposed = 6;
  out.usage.stats.prefill_seconds = 0.5;
  out.usage.stats.decode_seconds = 0.25;
  out.usage.seed = 9;
  return out;
}

TextDelta with_logprobs() {
  TextDelta out;
  out.text = "\xC3\xA9!";
  out.logprobs = {{1, "\xC3", -0.5f, {{"\xC3", -0.5f}, {"a", -1.0f}}}, {2, "\xA9!", -0.25f, {{"\xA9!", -0.25f}}}};
  return out;
}

// The JSON payloads of a stream, without [DONE].
std::vector<json::value> payloads(const std::string& stream) {
  std::vector<json::value> out;
  for (size_t at = 0; at < stream.size();) {
    EXPECT_EQ(stream.compare(at, 6, "data: "), 0);
    const size_t end = stream.find("\n\n", at);
    const std::string data = stream.substr(at + 6, end - at - 6);
    if (data != "[DONE]") out.push_back(json::parse(data));
    at = end + 2;
  }
  return out;
}

TEST(EncodeChat, ReasoningAndToolCalls) {
  for (const bool stream : {true, false}) {
    auto encoder = chat_encoder(info(), stream);
    std::string out = encoder->begin();
    for (const Event& e :
         std::vector<Event>{ReasoningDelta{"hm"}, ToolCallBegin{0, "call-1", "f"}, ToolCallArguments{0, "{\"a\""},
                            ToolCallArguments{0, ":1}"}, ToolCallEnd{0, true}, finish("tool_calls")})
      out += encoder->event(0, e);
    out += encoder->finish();
    if (stream) {
      const auto p = payloads(out);
      ASSERT_EQ(p.size(), 6u);
      EXPECT_EQ(p[1].at_pointer("/choices/0/delta/reasoning_content"), json::value("hm"));
      EXPECT_EQ(p[2].at_pointer("/choices/0/delta/tool_calls/0/id"), json::value("call-1"));
      EXPECT_EQ(p[2].at_pointer("/choices/0/delta/tool_calls/0/function/arguments"), json::value(""));
      EXPECT_EQ(p[4].at_pointer("/choices/0/delta/tool_calls/0/function/arguments"), json::value(":1}"));
      EXPECT_EQ(p[5].at_pointer("/choices/0/finish_reason"), json::value("tool_calls"));
    } else {
      const json::value body = json::parse(out);
      EXPECT_TRUE(body.at_pointer("/choices/0/message/content").is_null());
      EXPECT_EQ(body.at_pointer("/choices/0/message/reasoning_content"), json::value("hm"));
      EXPECT_EQ(body.at_pointer("/choices/0/message/tool_calls/0/function/arguments"), json::value("{\"a\":1}"));
    }
  }
}

TEST(EncodeChat, Logprobs) {
  AnswerInfo with = info();
  with.logprobs = true;
  auto stream = chat_encoder(with, true);
  const auto p = payloads(stream->event(0, with_logprobs()));
  ASSERT_EQ(p.size(), 1u);
  const json::value& entry = p[0].at_pointer("/choices/0/logprobs/content/0");
  EXPECT_EQ(entry.at("token"), json::value("\xEF\xBF\xBD"));
  EXPECT_EQ(entry.at("bytes"), (json::array{0xC3}));
  EXPECT_DOUBLE_EQ(entry.at("logprob").as_double(), -0.5);
  EXPECT_EQ(entry.at("top_logprobs").as_array().size(), 2u);
  auto whole = chat_encoder(with, false);
  whole->event(0, with_logprobs());
  whole->event(0, finish("stop"));
  const json::value body = json::parse(whole->finish());
  EXPECT_EQ(body.at_pointer("/choices/0/logprobs/content").as_array().size(), 2u);
  EXPECT_EQ(body.at_pointer("/choices/0/message/content"), json::value("\xC3\xA9!"));
}

// A delta whose text is held back still carries its tokens' log probabilities, and nothing else is sent for it.
TEST(EncodeChat, EmptyDeltas) {
  TextDelta empty = with_logprobs();
  empty.text.clear();
  AnswerInfo with = info();
  with.logprobs = true;
  EXPECT_NE(chat_encoder(with, true)->event(0, empty), "");
  EXPECT_EQ(chat_encoder(info(), true)->event(0, empty), "");
}

TEST(EncodeCompletions, Logprobs) {
  AnswerInfo with = info();
  with.logprobs = true;
  auto whole = completions_encoder(with, false);
  whole->event(0, TextDelta{"ab", {}, {{5, "ab", -1.0f, {}}}});
  whole->event(0, with_logprobs());
  whole->event(0, finish("stop"));
  const json::value body = json::parse(whole->finish());
  EXPECT_EQ(body.at_pointer("/choices/0/text"), json::value("ab\xC3\xA9!"));
  EXPECT_EQ(body.at_pointer("/choices/0/logprobs/text_offset"), (json::array{0, 2, 3}));
  EXPECT_EQ(body.at_pointer("/choices/0/logprobs/tokens").as_array().size(), 3u);
  EXPECT_DOUBLE_EQ(body.at_pointer("/choices/0/logprobs/token_logprobs/2").as_double(), -0.25);
  EXPECT_DOUBLE_EQ(body.at_pointer("/choices/0/logprobs/top_logprobs/1/a").as_double(), -1.0);
  auto stream = completions_encoder(with, true);
  (void)stream->event(0, TextDelta{"ab", {}, {{5, "ab", -1.0f, {}}}});
  const auto p = payloads(stream->event(0, with_logprobs()));
  EXPECT_EQ(p.at(0).at_pointer("/choices/0/logprobs/text_offset"), (json::array{2, 3}));
}

TEST(Encode, UsageOfSeveralChoices) {
  for (const auto make : {chat_encoder, completions_encoder}) {
    auto encoder = make(info(3), false);
    for (int i = 0; i < 3; ++i) {
      Finish end = std::get<Finish>(finish("length", i + 1));
      end.usage.reasoning_tokens = i;
      encoder->event(i, end);
    }
    const json::value body = json::parse(encoder->finish());
    EXPECT_EQ(body.at_pointer("/choices").as_array().size(), 3u);
    EXPECT_EQ(body.at_pointer("/usage/prompt_tokens"), json::value(10));
    EXPECT_EQ(body.at_pointer("/usage/completion_tokens"), json::value(6));
    EXPECT_EQ(body.at_pointer("/usage/total_tokens"), json::value(16));
    EXPECT_EQ(body.at_pointer("/usage/prompt_tokens_details/cached_tokens"), json::value(4));
    EXPECT_EQ(body.at_pointer("/usage/completion_tokens_details/accepted_prediction_tokens"), json::value(6));
    EXPECT_EQ(body.at_pointer("/usage/completion_tokens_details/reasoning_tokens"), json::value(3));
    EXPECT_EQ(body.at_pointer("/timings/draft_n"), json::value(18));
    EXPECT_EQ(body.at_pointer("/timings/drafters/lookup/proposed"), json::value(18));
    EXPECT_EQ(body.at_pointer("/timings/seed"), json::value(9));
    EXPECT_EQ(body.at_pointer("/timings/prompt_per_second").to_number<double>(), 12);
  }
}

TEST(Encode, SeveralPromptsAreCountedEach) {
  AnswerInfo two = info(4);
  two.n = 2;
  auto encoder = completions_encoder(two, false);
  for (int i = 0; i < 4; ++i) encoder->event(i, finish("stop"));
  EXPECT_EQ(json::parse(encoder->finish()).at_pointer("/usage/prompt_tokens"), json::value(20));
}

TEST(Encode, UsageChunkAndTimingsOfStreams) {
  for (const auto make : {chat_encoder, completions_encoder}) {
    AnswerInfo with = info(2);
    with.include_usage = true;
    auto encoder = make(with, true);
    for (const json::value& chunk : payloads(encoder->event(0, finish("stop")) + encoder->event(1, finish("stop")))) {
      EXPECT_TRUE(chunk.at("usage").is_null());
      EXPECT_FALSE(chunk.as_object().contains("timings"));
    }
    const std::string end = encoder->finish();
    EXPECT_TRUE(end.ends_with("data: [DONE]\n\n"));
    const auto p = payloads(end);
    ASSERT_EQ(p.size(), 1u);
    EXPECT_TRUE(p[0].at("choices").as_array().empty());
    EXPECT_EQ(p[0].at_pointer("/usage/completion_tokens"), json::value(6));
    EXPECT_TRUE(p[0].at("timings").is_object());
    AnswerInfo without = info();
    without.timings = false;
    auto plain = make(without, true);
    EXPECT_FALSE(payloads(plain->event(0, finish("stop"))).at(0).as_object().contains("timings"));
    EXPECT_EQ(plain->finish(), "data: [DONE]\n\n");
  }
}

TEST(Errors, StatusTypeAndCode) {
  struct Case {
    Error error;
    int status;
    const char* type;
    json::value code;
  };
  for (const Case& c : std::vector<Case>{
           {{ErrorKind::invalid_argument, "m", "p"}, 400, "invalid_request_error", nullptr},
           {{ErrorKind::unsupported, "m", "p"}, 400, "invalid_request_error", "unsupported_value"},
           {{ErrorKind::context_length, "m", "p"}, 400, "invalid_request_error", "context_length_exceeded"},
           {{ErrorKind::not_found, "m", "model"}, 404, "invalid_request_error", "model_not_found"},
           {{ErrorKind::unauthorized, "m", ""}, 401, "authentication_error", "invalid_api_key"},
           {{ErrorKind::busy, "m", ""}, 429, "rate_limit_error", "server_busy"},
           {{ErrorKind::out_of_memory, "m", ""}, 503, "server_error", "out_of_memory"},
           {{ErrorKind::corrupt, "m", ""}, 500, "server_error", nullptr},
           {{ErrorKind::io, "m", ""}, 500, "server_error", nullptr},
           {{ErrorKind::internal, "m", ""}, 500, "server_error", nullptr}}) {
    EXPECT_EQ(http_status(c.error.kind), c.status);
    const json::value body = json::parse(error_body(c.error));
    EXPECT_EQ(body.at_pointer("/error/type"), json::value(c.type));
    EXPECT_EQ(body.at_pointer("/error/code"), c.code);
    EXPECT_EQ(body.at_pointer("/error/param"),
              c.error.param.empty() ? json::value(nullptr) : json::value(c.error.param));
  }
  EXPECT_EQ(json::parse(error_body({ErrorKind::internal, "bad \xFF\n", ""})).at_pointer("/error/message"),
            json::value("bad \xEF\xBF\xBD\n"));
}

TEST(Text, InvalidSequencesBecomeOneReplacementEach) {
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(valid_utf8("\xE2\x82\xAC \xF0\x9F\x98\x80"), "\xE2\x82\xAC \xF0\x9F\x98\x80");
  EXPECT_EQ(valid_utf8("\xE2\x82x"), r + "x");
  EXPECT_EQ(valid_utf8("\xC0\x80"), r + r);
  EXPECT_EQ(valid_utf8("\xED\xA0\x80"), r + r + r);
  EXPECT_EQ(valid_utf8("\xF4\x90\x80\x80"), r + r + r + r);
  EXPECT_EQ(valid_utf8("\xF0\x9F\x98"), r);
  EXPECT_EQ(valid_utf8("\x80"), r);
}

TEST(Text, AnyBytesMakeAJsonString) {
  rc::check([](const std::string& bytes) {
    const json::value parsed = json::parse(json_quote(bytes));
    RC_ASSERT(std::string(parsed.as_string().c_str(), parsed.as_string().size()) == valid_utf8(bytes));
    RC_ASSERT(valid_utf8(valid_utf8(bytes)) == valid_utf8(bytes));
  });
}

TEST(Text, LogprobsAreNumbers) {
  EXPECT_EQ(logprob_json(-0.25f), "-0.250000");
  EXPECT_EQ(logprob_json(-std::numeric_limits<float>::infinity()), "-9999.0");
}

}  // namespace
}  // namespace drafthorse
