// Requests in: what is read, what is refused and which field the error names.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <boost/json.hpp>

#include "api/json_text.h"
#include "api/openai_chat.h"
#include "api/openai_completions.h"

namespace drafthorse {
namespace {

namespace json = boost::json;

ServedModel model() {
  ServedModel out;
  out.id = "tiny";
  out.aliases = {"small"};
  out.vocab = 100;
  return out;
}

// `fields` are added to a valid request: R"("n":2)".
Result<ApiRequest> chat(const std::string& fields,
                        const std::string& messages = R"([{"role":"user","content":"hi"}])") {
  const auto body = parse_json("{\"messages\":" + messages + (fields.empty() ? "" : ",") + fields + "}");
  if (!body) return body.error();
  return decode_chat(*body, model());
}
Result<ApiRequest> text(const std::string& fields) {
  const auto body = parse_json("{" + fields + "}");
  if (!body) return body.error();
  return decode_completions(*body, model());
}
const json::array& messages_of(const ApiRequest& request) {
  return std::get<ChatTemplateInput>(request.prompts.at(0).prompt).messages;
}

TEST(DecodeChat, ReadsEveryField) {
  const auto r = chat(R"("model":"small","stream":true,"stream_options":{"include_usage":true},"n":2,"stop":["a","b"],
      "max_tokens":5,"max_completion_tokens":5,"temperature":0.5,"top_p":0.9,"top_k":40,"min_p":0.05,"seed":7,"presence_penalty":-1,
      "frequency_penalty":2,"repetition_penalty":1.1,"logit_bias":{"3":-100,"4":1.5},"logprobs":true,"top_logprobs":4,
      "draft":"off","max_draft":3,"ignore_eos":true,"timings":false,"enable_thinking":false,"chat_template_kwargs":{"x":1})");
  ASSERT_TRUE(r) << r.error().message;
  const CompletionRequest& c = r->prompts.at(0);
  EXPECT_TRUE(r->stream);
  EXPECT_TRUE(r->include_usage);
  EXPECT_FALSE(r->timings);
  EXPECT_EQ(r->n, 2);
  EXPECT_EQ(r->choices(), 2);
  EXPECT_EQ(c.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(c.max_tokens, 5);
  EXPECT_FLOAT_EQ(*c.sampling.temperature, 0.5f);
  EXPECT_FLOAT_EQ(*c.sampling.top_p, 0.9f);
  EXPECT_EQ(c.sampling.top_k, 40);
  EXPECT_FLOAT_EQ(*c.sampling.min_p, 0.05f);
  EXPECT_EQ(c.sampling.seed, 7u);
  EXPECT_FLOAT_EQ(*c.sampling.presence_penalty, -1);
  EXPECT_FLOAT_EQ(*c.sampling.frequency_penalty, 2);
  EXPECT_FLOAT_EQ(*c.sampling.repetition_penalty, 1.1f);
  EXPECT_EQ(c.sampling.logit_bias.size(), 2u);
  EXPECT_TRUE(c.sampling.logprobs);
  EXPECT_EQ(c.sampling.top_logprobs, 4);
  EXPECT_EQ(c.draft, "off");
  EXPECT_EQ(c.max_draft, 3);
  EXPECT_TRUE(c.ignore_eos);
  const json::object& variables = std::get<ChatTemplateInput>(c.prompt).variables;
  EXPECT_EQ(variables.at("enable_thinking"), json::value(false));
  EXPECT_EQ(variables.at("x"), json::value(1));
}

TEST(DecodeChat, AbsentAndNullAreTheSame) {
  for (const char* fields :
       {"", R"("model":null,"stream":null,"n":null,"stop":null,"temperature":null,"seed":null,"tools":null,
      "tool_choice":null,"response_format":null,"logit_bias":null,"max_tokens":null,"stream_options":null,"something_new":null)"}) {
    const auto r = chat(fields);
    ASSERT_TRUE(r) << r.error().message;
    EXPECT_FALSE(r->stream);
    EXPECT_EQ(r->n, 1);
    EXPECT_FALSE(r->prompts[0].sampling.temperature);
    EXPECT_FALSE(r->prompts[0].sampling.seed);
    EXPECT_FALSE(r->prompts[0].max_tokens);
  }
}

TEST(DecodeChat, HarmlessFieldsAreAccepted) {
  const auto r = chat(R"("user":"u","metadata":{"a":"b"},"store":false,"service_tier":"auto","safety_identifier":"x",
      "prompt_cache_key":"k","prompt_cache_retention":"24h","cache_prompt":true,"prediction":{"type":"content","content":"x"},
      "parallel_tool_calls":true,"response_format":{"type":"text"},"tools":[],"tool_choice":"none","modalities":["text"],
      "repeat_penalty":1.0,"top_k":-1)");
  ASSERT_TRUE(r) << r.error().message;
  EXPECT_EQ(r->prompts[0].sampling.top_k, 0);
  EXPECT_TRUE(chat(R"("tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"none")"));
}

struct Refused {
  const char* fields;
  const char* param;
  ErrorKind kind = ErrorKind::invalid_argument;
};

TEST(DecodeChat, RefusesAndNamesTheField) {
  for (const Refused& c : std::initializer_list<Refused>{
           {R"("top_p":7)", "top_p"},
           {R"("top_p":-0.1)", "top_p"},
           {R"("top_p":"x")", "top_p"},
           {R"("temperature":2.01)", "temperature"},
           {R"("temperature":1e999)", "temperature"},
           {R"("min_p":1.5)", "min_p"},
           {R"("top_k":-2)", "top_k"},
           {R"("top_k":1.5)", "top_k"},
           {R"("top_k":9999999999)", "top_k"},
           {R"("max_tokens":0)", "max_tokens"},
           {R"("max_tokens":-1)", "max_tokens"},
           {R"("max_tokens":"5")", "max_tokens"},
           {R"("max_completion_tokens":0)", "max_completion_tokens"},
           {R"("max_tokens":4,"max_completion_tokens":5)", "max_completion_tokens"},
           {R"("n":0)", "n"},
           {R"("n":9)", "n"},
           {R"("n":true)", "n"},
           {R"("seed":1.5)", "seed"},
           {R"("seed":1e30)", "seed"},
           {R"("presence_penalty":3)", "presence_penalty"},
           {R"("frequency_penalty":-3)", "frequency_penalty"},
           {R"("repetition_penalty":0)", "repetition_penalty"},
           {R"("repeat_penalty":1.2,"repetition_penalty":1.3)", "repeat_penalty"},
           {R"("stop":"")", "stop"},
           {R"("stop":[1])", "stop"},
           {R"("stop":{})", "stop"},
           {R"("stop":["a",""])", "stop"},
           {R"("stop":["1","2","3","4","5","6","7","8","9","10","11","12","13","14","15","16","17"])", "stop"},
           {R"("logit_bias":[])", "logit_bias"},
           {R"("logit_bias":{"x":1})", "logit_bias"},
           {R"("logit_bias":{"100":1})", "logit_bias"},
           {R"("logit_bias":{"-1":1})", "logit_bias"},
           {R"("logit_bias":{"1":101})", "logit_bias"},
           {R"("logit_bias":{"1":"2"})", "logit_bias"},
           {R"("logprobs":1)", "logprobs"},
           {R"("top_logprobs":3)", "top_logprobs"},
           {R"("logprobs":true,"top_logprobs":21)", "top_logprobs"},
           {R"("stream":1)", "stream"},
           {R"("stream_options":{"include_usage":true})", "stream_options"},
           {R"("stream":true,"stream_options":{"include_usage":1})", "stream_options.include_usage"},
           {R"("stream":true,"stream_options":{"other":1})", "stream_options.other"},
           {R"("draft":"turbo")", "draft"},
           {R"("max_draft":17)", "max_draft"},
           {R"("ignore_eos":0)", "ignore_eos"},
           {R"("foo":1)", "foo"},
           {R"("reasoning_effort":"high")", "reasoning_effort"},
           {R"("enable_thinking":"no")", "enable_thinking"},
           {R"("chat_template_kwargs":[])", "chat_template_kwargs"},
           {R"("chat_template_kwargs":{"messages":[]})", "chat_template_kwargs"},
           {R"("functions":[{}])", "functions"},
           {R"("suffix":"x")", "suffix"},
           {R"("model":3)", "model"},
           {R"("model":"big")", "model", ErrorKind::not_found},
           {R"("tools":[{"type":"function"}])", "tools", ErrorKind::unsupported},
           {R"("tool_choice":"required")", "tool_choice", ErrorKind::unsupported},
           {R"("tool_choice":{"type":"function","function":{"name":"f"}})", "tool_choice", ErrorKind::unsupported},
           {R"("response_format":{"type":"json_object"})", "response_format", ErrorKind::unsupported},
           {R"("response_format":{})", "response_format", ErrorKind::unsupported},
           {R"("modalities":["audio"])", "modalities", ErrorKind::unsupported}}) {
    const auto r = chat(c.fields);
    ASSERT_FALSE(r) << c.fields;
    EXPECT_EQ(r.error().param, c.param) << c.fields << ": " << r.error().message;
    EXPECT_EQ(r.error().kind, c.kind) << c.fields;
    EXPECT_FALSE(r.error().message.empty());
  }
}

TEST(DecodeChat, ErrorsSayWhatWasFound) {
  EXPECT_EQ(chat(R"("top_p":7)").error().message, "'top_p' must be a number from 0 to 1, but 7 was given.");
  EXPECT_NE(chat(R"("foo":1)").error().message.find("Unknown field 'foo'"), std::string::npos);
  EXPECT_NE(chat(R"("model":"big")").error().message.find("tiny, small, default"), std::string::npos);
}

TEST(DecodeMessages, RolesAndContents) {
  const auto r = chat(
      "",
      R"([{"role":"developer","content":"be brief"},{"role":"user","name":"ann","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
      {"role":"assistant","content":null,"refusal":null,"annotations":[],"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}},
        {"id":"c2","type":"function","function":{"name":"g","arguments":"not json"}}]},
      {"role":"tool","tool_call_id":"c1","content":"42"},{"role":"assistant","content":"ok","reasoning_content":"hm"},{"role":"user","content":""}])");
  ASSERT_TRUE(r) << r.error().message;
  const json::array& m = messages_of(*r);
  EXPECT_EQ(m[0].at("role"), json::value("system"));
  EXPECT_EQ(m[1].at("content"), json::value("a\nb"));
  EXPECT_EQ(m[1].at("name"), json::value("ann"));
  EXPECT_EQ(m[2].at_pointer("/tool_calls/0/function/arguments/x"), json::value(1));
  EXPECT_EQ(m[2].at_pointer("/tool_calls/1/function/arguments"), json::value("not json"));
  EXPECT_EQ(m[3].at("tool_call_id"), json::value("c1"));
  EXPECT_EQ(m[4].at("reasoning_content"), json::value("hm"));
}

TEST(DecodeMessages, RefusesAndNamesTheMessage) {
  for (const Refused& c : std::initializer_list<Refused>{
           {"[]", "messages"},
           {"{}", "messages"},
           {"null", "messages"},
           {"[1]", "messages[0]"},
           {"[{}]", "messages[0].role"},
           {R"([{"role":"robot","content":"x"}])", "messages[0].role"},
           {R"([{"role":1,"content":"x"}])", "messages[0].role"},
           {R"([{"role":"user"}])", "messages[0].content"},
           {R"([{"role":"user","content":null}])", "messages[0].content"},
           {R"([{"role":"assistant","content":null}])", "messages[0].content"},
           {R"([{"role":"user","content":7}])", "messages[0].content"},
           {R"([{"role":"user","content":[]}])", "messages[0].content"},
           {R"([{"role":"user","content":["x"]}])", "messages[0].content[0]"},
           {R"([{"role":"user","content":"a"},{"role":"user","content":[{"type":"text"}]}])",
            "messages[1].content[0].text"},
           {R"([{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}])",
            "messages[0].content[0].type", ErrorKind::unsupported},
           {R"([{"role":"user","content":"x","mood":"good"}])", "messages[0].mood"},
           {R"([{"role":"user","content":"x","tool_calls":[{}]}])", "messages[0].tool_calls"},
           {R"([{"role":"assistant","tool_calls":[{"function":{"arguments":"{}"}}]}])",
            "messages[0].tool_calls[0].function.name"},
           {R"([{"role":"assistant","tool_calls":[{"type":"custom","function":{"name":"f"}}]}])",
            "messages[0].tool_calls[0].type", ErrorKind::unsupported}}) {
    const auto r = chat("", c.fields);
    ASSERT_FALSE(r) << c.fields;
    EXPECT_EQ(r.error().param, c.param) << c.fields << ": " << r.error().message;
    EXPECT_EQ(r.error().kind, c.kind) << c.fields;
  }
}

TEST(DecodeCompletions, PromptForms) {
  const auto one = text(R"("prompt":"a","echo":true,"logprobs":null,"suffix":null,"best_of":1)");
  ASSERT_TRUE(one) << one.error().message;
  EXPECT_EQ(std::get<std::string>(one->prompts.at(0).prompt), "a");
  EXPECT_TRUE(one->prompts[0].echo);
  const auto many = text(R"("prompt":["a","b"],"n":2,"logprobs":0)");
  ASSERT_TRUE(many) << many.error().message;
  EXPECT_EQ(many->choices(), 4);
  EXPECT_TRUE(many->prompts[1].sampling.logprobs);
  const auto ids = text(R"("prompt":[1,2,99])");
  ASSERT_TRUE(ids) << ids.error().message;
  EXPECT_EQ(std::get<std::vector<int32_t>>(ids->prompts.at(0).prompt), (std::vector<int32_t>{1, 2, 99}));
  EXPECT_EQ(text(R"("prompt":[[1],[2,3]])")->prompts.size(), 2u);
}

TEST(DecodeCompletions, RefusesAndNamesTheField) {
  for (const Refused& c :
       std::initializer_list<Refused>{{"", "prompt"},
                                      {R"("prompt":1)", "prompt"},
                                      {R"("prompt":[])", "prompt"},
                                      {R"("prompt":[[]])", "prompt"},
                                      {R"("prompt":[1,"a"])", "prompt"},
                                      {R"("prompt":[100])", "prompt"},
                                      {R"("prompt":[-1])", "prompt"},
                                      {R"("prompt":[1.5])", "prompt"},
                                      {R"("prompt":[18446744073709551615])", "prompt"},
                                      {R"("prompt":"a","messages":[])", "messages"},
                                      {R"("prompt":"a","logprobs":21)", "logprobs"},
                                      {R"("prompt":"a","logprobs":true)", "logprobs"},
                                      {R"("prompt":"a","suffix":"b")", "suffix", ErrorKind::unsupported},
                                      {R"("prompt":"a","best_of":2)", "best_of", ErrorKind::unsupported},
                                      {R"("prompt":"a","echo":true,"logprobs":1)", "logprobs", ErrorKind::unsupported},
                                      {R"("prompt":["1","2","3","4","5","6","7","8","9"],"n":8)", "prompt"}}) {
    const auto r = text(c.fields);
    ASSERT_FALSE(r) << c.fields;
    EXPECT_EQ(r.error().param, c.param) << c.fields << ": " << r.error().message;
    EXPECT_EQ(r.error().kind, c.kind) << c.fields;
  }
}

TEST(Decode, BodiesThatAreNoObject) {
  for (const char* body : {"[]", "1", "null", "\"x\""}) {
    EXPECT_FALSE(decode_chat(*parse_json(body), model()));
    EXPECT_FALSE(decode_completions(*parse_json(body), model()));
  }
}

TEST(ParseJson, ErrorsTellThePlace) {
  EXPECT_NE(parse_json("{\"a\": 1,}").error().message.find("at byte 8 of 9"), std::string::npos)
      << parse_json("{\"a\": 1,}").error().message;
  EXPECT_NE(parse_json("{} x").error().message.find("at byte 3"), std::string::npos)
      << parse_json("{} x").error().message;
  EXPECT_FALSE(parse_json(""));
  EXPECT_FALSE(parse_json("{\"a\":"));
  EXPECT_FALSE(parse_json("\"\xFF\""));
  EXPECT_TRUE(parse_json(" {} \r\n"));
}

TEST(ParseJson, Limits) {
  EXPECT_TRUE(parse_json(std::string(60, '[') + std::string(60, ']')));
  const auto deep = parse_json(std::string(100'000, '['));
  ASSERT_FALSE(deep);
  EXPECT_NE(deep.error().message.find("64 levels"), std::string::npos);
  std::string wide = "[0";
  for (int i = 0; i < 1'200'000; ++i) wide += ",0";
  EXPECT_FALSE(parse_json(wide + "]"));
  EXPECT_TRUE(parse_json("\"" + std::string(2'000'000, ',') + "\""));
}

// Whatever the body, decoding answers or refuses; it neither throws nor crashes.
TEST(Decode, AnyJsonIsAnsweredOrRefused) {
  rc::check([](const std::vector<std::string>& pieces) {
    std::string body = "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]";
    for (const std::string& piece : pieces) body += ",\"" + piece + "\":" + piece;
    const auto parsed = parse_json(body + "}");
    if (!parsed) return;
    (void)decode_chat(*parsed, model()).ok();
    (void)decode_completions(*parsed, model()).ok();
  });
}

}  // namespace
}  // namespace drafthorse
