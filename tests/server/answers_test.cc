// Answers over real sockets: framing of streams, whole answers, errors, disconnects.
#include <gtest/gtest.h>
#include <boost/json.hpp>

#include "server/support/fixture.h"

namespace drafthorse::testing {
namespace {

namespace json = boost::json;

std::string text_of(const json::value& value, const char* pointer) {
  return value.at_pointer(pointer).as_string().c_str();
}

TEST(Answers, WholeChat) {
  Running running(text_script({"Hel", "lo"}));
  const Response r = ask(running.port(), post("/v1/chat/completions", kHello));
  ASSERT_EQ(r.status, 200) << r.body;
  EXPECT_EQ(r.headers.at("content-type"), "application/json");
  const json::value body = json::parse(r.body);
  EXPECT_EQ(text_of(body, "/object"), "chat.completion");
  EXPECT_EQ(text_of(body, "/model"), "scripted");
  EXPECT_EQ(text_of(body, "/choices/0/message/content"), "Hello");
  EXPECT_EQ(text_of(body, "/choices/0/finish_reason"), "stop");
  EXPECT_EQ(body.at_pointer("/usage/total_tokens").as_int64(), 9);
  EXPECT_EQ(body.at_pointer("/usage/prompt_tokens_details/cached_tokens").as_int64(), 2);
  EXPECT_EQ(body.at_pointer("/timings/draft_accepted").as_int64(), 3);
  EXPECT_EQ(body.at_pointer("/timings/drafters/lookup/steps").as_int64(), 2);
}

TEST(Answers, StreamedChat) {
  Running running(text_script({"Hel", "lo"}));
  const Response r = ask(running.port(), post("/v1/chat/completions", R"({"messages":[{"role":"user","content":"hi"}],
      "stream":true,"stream_options":{"include_usage":true}})"));
  ASSERT_EQ(r.status, 200) << r.body;
  EXPECT_TRUE(r.complete);
  EXPECT_EQ(r.headers.at("content-type"), "text/event-stream; charset=utf-8");
  EXPECT_EQ(r.headers.at("cache-control"), "no-cache");
  const auto data = events(r.body);
  ASSERT_EQ(data.size(), 6u) << r.body;  // role, two deltas, finish, usage, [DONE]
  EXPECT_EQ(text_of(json::parse(data[0]), "/choices/0/delta/role"), "assistant");
  EXPECT_EQ(text_of(json::parse(data[1]), "/choices/0/delta/content"), "Hel");
  EXPECT_TRUE(json::parse(data[1]).at_pointer("/usage").is_null());
  EXPECT_EQ(text_of(json::parse(data[2]), "/choices/0/delta/content"), "lo");
  EXPECT_EQ(text_of(json::parse(data[3]), "/choices/0/finish_reason"), "stop");
  EXPECT_TRUE(json::parse(data[4]).at_pointer("/choices").as_array().empty());
  EXPECT_EQ(json::parse(data[4]).at_pointer("/usage/completion_tokens").as_int64(), 2);
  EXPECT_EQ(data[5], "[DONE]");
  const std::string id = text_of(json::parse(data[0]), "/id");
  for (size_t i = 1; i < 5; ++i) EXPECT_EQ(text_of(json::parse(data[i]), "/id"), id);
}

TEST(Answers, DeltasArriveAsTheyAreMade) {
  Script script = text_script({"first", "second"});
  script.delay = std::chrono::milliseconds(300);
  Running running(script);
  Client client(running.port());
  client.send(post("/v1/chat/completions", kHelloStream));
  ASSERT_TRUE(client.receive_until("assistant"));
  const auto before = std::chrono::steady_clock::now();
  ASSERT_TRUE(client.receive_until("first"));
  EXPECT_EQ(running.model.finished, 0);
  ASSERT_TRUE(client.receive_until("[DONE]"));
  EXPECT_GT(std::chrono::steady_clock::now() - before, std::chrono::milliseconds(400));
}

TEST(Answers, StreamedAndWholeCompletions) {
  Running running(text_script({"a", "b"}, "length"));
  const json::value whole = json::parse(ask(running.port(), post("/v1/completions", R"({"prompt":"x"})")).body);
  EXPECT_EQ(text_of(whole, "/object"), "text_completion");
  EXPECT_EQ(text_of(whole, "/choices/0/text"), "ab");
  EXPECT_EQ(text_of(whole, "/choices/0/finish_reason"), "length");
  const auto data = events(ask(running.port(), post("/v1/completions", R"({"prompt":"x","stream":true})")).body);
  ASSERT_EQ(data.size(), 4u);
  EXPECT_EQ(text_of(json::parse(data[1]), "/choices/0/text"), "b");
  EXPECT_EQ(text_of(json::parse(data[2]), "/choices/0/finish_reason"), "length");
  EXPECT_TRUE(json::parse(data[2]).at_pointer("/timings").is_object());
}

TEST(Answers, SeveralChoicesHaveTheirOwnSeeds) {
  Running running(text_script({"a", "b"}));
  const Response r = ask(
      running.port(), post("/v1/chat/completions", R"({"messages":[{"role":"user","content":"hi"}],"n":3,"seed":10})"));
  const json::value body = json::parse(r.body);
  ASSERT_EQ(body.at_pointer("/choices").as_array().size(), 3u) << r.body;
  EXPECT_EQ(body.at_pointer("/usage/completion_tokens").as_int64(), 6);
  EXPECT_EQ(body.at_pointer("/usage/prompt_tokens").as_int64(), 7);
  std::vector<uint64_t> seeds;
  for (const auto& request : running.model.requests()) seeds.push_back(*request.sampling.seed);
  EXPECT_EQ(seeds, (std::vector<uint64_t>{10, 11, 12}));
}

TEST(Answers, ChoicesShareOnePreparedPrompt) {
  std::atomic<int> prepared{0};
  ScriptedModel model(text_script({"a"}));
  ServerSetup setup;
  setup.loader = [&](const Progress&) -> Result<std::shared_ptr<ServedModel>> {
    auto served = model.served();
    served->prepare = [&](CompletionRequest request) -> Result<CompletionRequest> {
      ++prepared;
      if (request.max_tokens == 13) return Error{ErrorKind::invalid_argument, "the template refuses", "messages"};
      request.prompt = std::vector<int32_t>{1, 2, 3};
      return request;
    };
    return served;
  };
  ServerOptions options;
  options.port = 0;
  auto server = Server::start(options, std::move(setup));
  ASSERT_TRUE(server) << server.error().message;
  const auto chat = [&](const std::string& fields) {
    const std::string body = R"({"messages":[{"role":"user","content":"hi"}],)" + fields + "}";
    Response r = ask((*server)->port(), post("/v1/chat/completions", body));
    for (int i = 0; i < 1000 && r.status == 503; ++i) r = ask((*server)->port(), post("/v1/chat/completions", body));
    return r;
  };
  EXPECT_EQ(chat(R"("n":3)").status, 200);
  EXPECT_EQ(prepared, 1);
  ASSERT_EQ(model.requests().size(), 3u);
  for (const auto& request : model.requests())
    EXPECT_EQ(std::get<std::vector<int32_t>>(request.prompt), (std::vector<int32_t>{1, 2, 3}));
  const Response refused = chat(R"("n":2,"max_tokens":13)");
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(refused.body.find("the template refuses"), std::string::npos);
  EXPECT_EQ(model.requests().size(), 3u);
}

TEST(Answers, ErrorsOfStarting) {
  struct Case {
    ErrorKind kind;
    int status;
    const char* code;
  };
  for (const Case& c : {Case{ErrorKind::busy, 429, "server_busy"},
                        {ErrorKind::context_length, 400, "context_length_exceeded"},
                        {ErrorKind::invalid_argument, 400, nullptr},
                        {ErrorKind::internal, 500, nullptr},
                        {ErrorKind::out_of_memory, 503, "out_of_memory"}}) {
    Script script;
    script.refusal = Error{c.kind, "said so", "messages"};
    Running running(script);
    for (const char* body : {kHello, kHelloStream}) {
      const Response r = ask(running.port(), post("/v1/chat/completions", body));
      EXPECT_EQ(r.status, c.status);
      const json::value error = json::parse(r.body);
      EXPECT_EQ(text_of(error, "/error/message"), "said so");
      EXPECT_EQ(text_of(error, "/error/param"), "messages");
      if (c.code) EXPECT_EQ(text_of(error, "/error/code"), c.code);
      else EXPECT_TRUE(error.at_pointer("/error/code").is_null());
      EXPECT_EQ(r.headers.count("retry-after"), c.status == 429 || c.status == 503 ? 1u : 0u);
    }
  }
}

TEST(Answers, ErrorInMidStreamEndsTheStream) {
  Script script = text_script({"some"});
  script.events.back() = failure("the engine broke");
  Running running(script);
  const Response streamed = ask(running.port(), post("/v1/chat/completions", kHelloStream));
  EXPECT_EQ(streamed.status, 200);
  EXPECT_TRUE(streamed.complete);
  const auto data = events(streamed.body);
  EXPECT_EQ(text_of(json::parse(data.back()), "/error/message"), "the engine broke");
  const Response whole = ask(running.port(), post("/v1/chat/completions", kHello));
  EXPECT_EQ(whole.status, 500);
}

TEST(Answers, OneFailingChoiceCancelsItsSiblings) {
  Running running(text_script({"x"}));
  std::atomic<int> count{0};
  running.model.choose = [&](const CompletionRequest&) {
    Script script = text_script({"x"});
    if (count++ == 0) script.endless = true, script.delay = std::chrono::milliseconds(5);
    else script.events = {failure("broke")};
    return script;
  };
  const Response r =
      ask(running.port(), post("/v1/chat/completions", R"({"messages":[{"role":"user","content":"hi"}],"n":2})"));
  EXPECT_EQ(r.status, 500);
  EXPECT_TRUE(running.model.wait_cancelled(1));
}

TEST(Answers, ALeavingClientCancels) {
  Script script = text_script({"word "});
  script.endless = true;
  script.delay = std::chrono::milliseconds(2);
  for (const char* body : {kHello, kHelloStream}) {
    Running running(script);
    Client client(running.port());
    client.send(post("/v1/chat/completions", body));
    ASSERT_TRUE(running.model.wait_started(1));
    EXPECT_EQ(running.model.cancelled, 0);
    client.close();
    EXPECT_TRUE(running.model.wait_cancelled(1)) << body;
  }
}

TEST(Answers, LeavingALaterRequestOfAConnectionCancelsToo) {
  Running running(text_script({"word "}));
  running.model.choose = [](const CompletionRequest& request) {
    Script script = text_script({"word "});
    script.endless = request.ignore_eos;
    script.delay = std::chrono::milliseconds(2);
    return script;
  };
  const std::string endless = R"({"messages":[{"role":"user","content":"hi"}],"ignore_eos":true})";
  Client client(running.port());
  for (int i = 0; i < 3; ++i) {
    client.send(post("/v1/chat/completions", kHello));
    EXPECT_EQ(client.response().status, 200);
  }
  client.send(post("/v1/chat/completions", endless));
  ASSERT_TRUE(running.model.wait_started(4));
  client.close();
  EXPECT_TRUE(running.model.wait_cancelled(1));
}

// In the queue and in prefill no event comes for a long time; the client's leaving must not wait for one.
TEST(Answers, ALeavingClientCancelsBeforeTheFirstEvent) {
  Script script = text_script({"late"});
  script.delay = std::chrono::seconds(60);
  for (const char* body : {kHello, kHelloStream}) {
    Running running(script);
    const auto before = std::chrono::steady_clock::now();
    Client client(running.port());
    client.send(post("/v1/chat/completions", body));
    ASSERT_TRUE(running.model.wait_started(1));
    client.close();
    EXPECT_TRUE(running.model.wait_cancelled(1)) << body;
    EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(3));
  }
}

TEST(Answers, ASlowReaderIsBoundedAndCancelled) {
  Script script = text_script({std::string(20000, 'x')});
  script.endless = true;
  script.delay = std::chrono::milliseconds(1);
  ServerOptions options;
  options.max_stream_buffer = 200'000;
  Running running(script, options);
  Client client(running.port(), "127.0.0.1", 4096);
  client.send(post("/v1/chat/completions", kHelloStream));
  EXPECT_TRUE(running.model.wait_cancelled(1));  // reads nothing
  EXPECT_TRUE(client.closed());
  EXPECT_EQ(ask(running.port(), get("/health")).status, 200);
}

TEST(Answers, AReaderThatTakesNothingTimesOut) {
  Script script = text_script({std::string(100'000, 'x')});
  script.events.insert(script.events.end() - 1, 100, script.events.front());
  script.delay = std::chrono::milliseconds(1);
  ServerOptions options;
  options.max_stream_buffer = 100 << 20;
  options.write_timeout = std::chrono::milliseconds(300);
  Running running(script, options);
  Client client(running.port(), "127.0.0.1", 4096);
  client.send(post("/v1/chat/completions", kHelloStream));
  ASSERT_TRUE(running.model.wait_started(1));
  const auto alone = [&] {
    return ask(running.port(), get("/metrics")).body.find("drafthorse_connections 1\n") != std::string::npos;
  };
  EXPECT_FALSE(alone());
  bool closed = false;
  for (int i = 0; i < 100 && !closed; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    closed = alone();
  }
  EXPECT_TRUE(closed);
}

TEST(Answers, PingsInSilence) {
  Script script = text_script({"late"});
  script.delay = std::chrono::milliseconds(250);
  ServerOptions options;
  options.ping_interval = std::chrono::milliseconds(50);
  Running running(script, options);
  const auto before = std::chrono::steady_clock::now();
  const Response r = ask(running.port(), post("/v1/chat/completions", kHelloStream));
  const auto took = std::chrono::steady_clock::now() - before;
  EXPECT_TRUE(r.complete);
  size_t pings = 0;
  for (const std::string& chunk : r.chunks) pings += chunk == ": ping\n\n";
  EXPECT_GE(pings, 2u);
  EXPECT_LE(pings, static_cast<size_t>(took / options.ping_interval) + 1);  // one an interval, no more
  EXPECT_EQ(events(r.body).back(), "[DONE]");
}

TEST(Answers, InvalidUtf8BecomesReplacementCharacters) {
  Running running(text_script({"a\xFFz", "\xE2\x82"}));
  const Response r = ask(running.port(), post("/v1/chat/completions", kHello));
  EXPECT_EQ(text_of(json::parse(r.body), "/choices/0/message/content"), "a\xEF\xBF\xBDz\xEF\xBF\xBD");
}

}  // namespace
}  // namespace drafthorse::testing
