// HTTP itself over real sockets: routes, limits, timeouts, access, stopping.
#include <gtest/gtest.h>
#include <boost/json.hpp>

#include "server/support/fixture.h"

namespace drafthorse::testing {
namespace {

namespace json = boost::json;
using std::chrono::milliseconds;

std::string code_of(const Response& response) {
  const json::value body = json::parse(response.body);
  const json::value& code = body.at_pointer("/error/code");
  return code.is_string() ? code.as_string().c_str() : "";
}

TEST(Routes, UnknownPathAndWrongMethod) {
  Running running(text_script({"x"}));
  const Response missing = ask(running.port(), get("/v1/nothing"));
  EXPECT_EQ(missing.status, 404);
  EXPECT_EQ(code_of(missing), "unknown_url");
  const Response wrong = ask(running.port(), get("/v1/chat/completions"));
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.headers.at("allow"), "POST, OPTIONS");
  const Response put = ask(running.port(), get("/v1/models", "", "DELETE"));
  EXPECT_EQ(put.status, 405);
  EXPECT_EQ(put.headers.at("allow"), "GET, HEAD, OPTIONS");
}

// The parser that the fuzz targets use.
TEST(ParseHttpRequest, NoPrefixOfARequestIsOne) {
  const std::string whole = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}";
  for (size_t size = 0; size < whole.size(); ++size) {
    const auto request = parse_http_request(std::string_view(whole).substr(0, size), {});
    EXPECT_FALSE(request) << "the first " << size << " bytes";
  }
  const auto request = parse_http_request(whole, {});
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->body, "{}");
}

TEST(Routes, HeadAndOptions) {
  Running running(text_script({"x"}));
  Client client(running.port());
  client.send(get("/health", "", "HEAD"));
  const Response head = client.response(true);
  EXPECT_EQ(head.status, 200);
  EXPECT_GT(std::stoi(head.headers.at("content-length")), 0);
  client.send(get("/v1/models", "", "OPTIONS"));  // the connection is still in step
  const Response options = client.response();
  EXPECT_EQ(options.status, 204);
  EXPECT_EQ(options.headers.at("allow"), "GET, HEAD, OPTIONS");
  EXPECT_EQ(options.headers.count("access-control-allow-origin"), 0u);
}

TEST(Routes, Models) {
  Running running(text_script({"x"}));
  const json::value list = json::parse(ask(running.port(), get("/v1/models")).body);
  EXPECT_EQ(list.at_pointer("/object").as_string(), "list");
  EXPECT_EQ(list.at_pointer("/data/0/id").as_string(), "scripted");
  EXPECT_EQ(list.at_pointer("/data/0/context_length").as_int64(), 2048);
  for (const char* name : {"scripted", "other-name", "default", "other%2Dname"})
    EXPECT_EQ(ask(running.port(), get(std::string("/v1/models/") + name)).status, 200) << name;
  const Response missing = ask(running.port(), get("/v1/models/nope"));
  EXPECT_EQ(missing.status, 404);
  EXPECT_EQ(code_of(missing), "model_not_found");
  EXPECT_NE(missing.body.find("other-name"), std::string::npos);
}

TEST(Routes, RootSaysWhatThisIs) {
  Running running(text_script({"x"}));
  const Response r = ask(running.port(), get("/"));
  EXPECT_EQ(r.status, 200);
  EXPECT_NE(r.body.find("Drafthorse"), std::string::npos);
}

TEST(Routes, HealthTellsOfLoadingAndFailure) {
  std::atomic<bool> go{false};
  ServerOptions options;
  options.port = 0;
  ServerSetup setup;
  setup.loader = [&](const Progress& progress) -> Result<std::shared_ptr<ServedModel>> {
    progress(1, 4);
    while (!go) std::this_thread::sleep_for(milliseconds(1));
    return Error{ErrorKind::corrupt, "tensor x is cut short", ""};
  };
  auto server = Server::start(options, std::move(setup));
  ASSERT_TRUE(server) << server.error().message;
  const uint16_t port = (*server)->port();
  Response health = ask(port, get("/health"));
  EXPECT_EQ(health.status, 503);
  EXPECT_EQ(health.headers.count("retry-after"), 1u);
  EXPECT_EQ(json::parse(health.body).at_pointer("/status").as_string(), "loading");
  for (int i = 0; i < 1000 && json::parse(health.body).at_pointer("/progress").as_double() == 0; ++i)
    health = ask(port, get("/health"));
  EXPECT_DOUBLE_EQ(json::parse(health.body).at_pointer("/progress").as_double(), 0.25);
  const Response early = ask(port, post("/v1/chat/completions", kHello));
  EXPECT_EQ(early.status, 503);
  EXPECT_EQ(early.headers.count("retry-after"), 1u);
  EXPECT_EQ(code_of(early), "model_not_ready");
  go = true;
  for (int i = 0; i < 1000 && health.status != 500; ++i) {
    std::this_thread::sleep_for(milliseconds(2));
    health = ask(port, get("/health"));
  }
  EXPECT_EQ(health.status, 500);
  EXPECT_EQ(json::parse(health.body).at_pointer("/status").as_string(), "failed");
  EXPECT_NE(health.body.find("tensor x"), std::string::npos);
  const Status status = (*server)->wait();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "tensor x is cut short");
}

TEST(Routes, HealthTellsAStalledModelFromAnIdleOne) {
  ServerOptions options;
  options.port = 0;
  options.stall = milliseconds(40);
  std::atomic<int> running{0};
  std::atomic<uint64_t> steps{5};
  ServerSetup setup;
  setup.loader = [&](const Progress&) -> Result<std::shared_ptr<ServedModel>> {
    auto model = std::make_shared<ServedModel>();
    model->id = "m";
    model->engine_stats = [&] {
      EngineStats stats;
      stats.running = running;
      stats.steps = steps;
      return stats;
    };
    return model;
  };
  auto server = Server::start(options, std::move(setup));
  ASSERT_TRUE(server) << server.error().message;
  const auto status = [&] { return ask((*server)->port(), get("/health")).status; };
  for (int i = 0; i < 1000 && status() != 200; ++i) std::this_thread::sleep_for(milliseconds(2));
  std::this_thread::sleep_for(milliseconds(80));
  running = 1;  // nobody asked for a while; the work that begins now has not stood still
  EXPECT_EQ(status(), 200);
  std::this_thread::sleep_for(milliseconds(80));
  EXPECT_EQ(status(), 500);
  ++steps;
  EXPECT_EQ(status(), 200);
}

TEST(Routes, MetricsCount) {
  Running running(text_script({"x"}));
  ask(running.port(), post("/v1/chat/completions", kHello));
  ask(running.port(), post("/v1/chat/completions", "{"));
  const Response r = ask(running.port(), get("/metrics"));
  EXPECT_EQ(r.status, 200);
  for (const char* line :
       {"drafthorse_http_requests_total{endpoint=\"chat_completions\",status=\"200\"} 1\n",
        "drafthorse_http_requests_total{endpoint=\"chat_completions\",status=\"400\"} 1\n",
        "drafthorse_draft_tokens_accepted_total{drafter=\"lookup\"} 3\n",
        "drafthorse_memory_bytes{part=\"weights\"} 1000\n", "drafthorse_first_token_seconds_count 1\n"})
    EXPECT_NE(r.body.find(line), std::string::npos) << line << r.body;
}

TEST(Requests, PipelinedAndKeptAlive) {
  Running running(text_script({"x"}));
  Client client(running.port());
  client.send(get("/v1/models") + post("/v1/chat/completions", kHello) + post("/v1/chat/completions", kHelloStream) +
              get("/health"));
  EXPECT_NE(client.response().body.find("\"list\""), std::string::npos);
  EXPECT_NE(client.response().body.find("chat.completion"), std::string::npos);
  EXPECT_EQ(events(client.response().body).back(), "[DONE]");
  EXPECT_NE(client.response().body.find("\"ok\""), std::string::npos);
  client.send(get("/health", "Connection: close\r\n"));
  const Response last = client.response();
  EXPECT_EQ(last.headers.at("connection"), "close");
  EXPECT_TRUE(client.closed());
}

TEST(Requests, ByteByByte) {
  Running running(text_script({"x"}));
  Client client(running.port());
  for (const char c : post("/v1/chat/completions", kHello)) ASSERT_TRUE(client.send(std::string(1, c)));
  EXPECT_EQ(client.response().status, 200);
}

TEST(Requests, OldHttpClientsGetPlainBodies) {
  Running running(text_script({"x"}));
  Client client(running.port());
  const std::string body = kHelloStream;
  client.send("POST /v1/chat/completions HTTP/1.0\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
              body);
  const Response r = client.response();
  EXPECT_EQ(r.headers.count("transfer-encoding"), 0u);
  EXPECT_EQ(events(r.body).back(), "[DONE]");
}

TEST(Requests, ContinueIsSaidWhenAsked) {
  Running running(text_script({"x"}));
  Client client(running.port());
  const std::string body = kHello;
  client.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: " +
              std::to_string(body.size()) + "\r\n\r\n");
  ASSERT_TRUE(client.receive_until("HTTP/1.1 100 Continue\r\n\r\n"));
  client.send(body);
  ASSERT_TRUE(client.receive_until("HTTP/1.1 200 OK"));
}

TEST(Requests, ChunkedBodies) {
  Running running(text_script({"x"}));
  const std::string body = kHello;
  const Response r = ask(
      running.port(),
      "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n" +
          body.substr(0, 5) + "\r\n" +
          [&] {
            char hex[9];
            snprintf(hex, sizeof hex, "%zx", body.size() - 5);
            return std::string(hex);
          }() +
          "\r\n" + body.substr(5) + "\r\n0\r\n\r\n");
  EXPECT_EQ(r.status, 200) << r.body;
}

TEST(Requests, NotHttp) {
  Running running(text_script({"x"}));
  const Response r = ask(running.port(), "hello there\r\n\r\n");
  EXPECT_EQ(r.status, 400);
  EXPECT_NE(r.body.find("\"error\""), std::string::npos);
}

TEST(Requests, MalformedJsonTellsWhere) {
  Running running(text_script({"x"}));
  const Response r = ask(running.port(), post("/v1/chat/completions", R"({"model": nope})"));
  EXPECT_EQ(r.status, 400);
  EXPECT_EQ(code_of(r), "invalid_json");
  EXPECT_NE(r.body.find("at byte 10"), std::string::npos) << r.body;
}

TEST(Limits, LargeBodyAndHeader) {
  ServerOptions options;
  options.max_body = 1000;
  options.max_header = 2000;
  Running running(text_script({"x"}), options);
  const Response body = ask(running.port(), post("/v1/chat/completions", std::string(5'000'000, ' ')));
  EXPECT_EQ(body.status, 413);
  const Response chunked =
      ask(running.port(),
          "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n800\r\n" +
              std::string(0x800, ' ') + "\r\n0\r\n\r\n");
  EXPECT_EQ(chunked.status, 413);
  const Response header = ask(running.port(), get("/health", "X-Long: " + std::string(5000, 'x') + "\r\n"));
  EXPECT_EQ(header.status, 431);
}

TEST(Limits, BodiesShareABudget) {
  ServerOptions options;
  options.max_body_total = 2000;
  Running running(text_script({"x"}), options);
  Client first(running.port());
  first.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1500\r\n\r\n{");
  std::this_thread::sleep_for(milliseconds(100));
  const std::string large = post("/v1/chat/completions", std::string(1500, ' '));
  EXPECT_EQ(ask(running.port(), large).status, 503);
  first.close();
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_EQ(ask(running.port(), large).status, 400);
}

TEST(Limits, Connections) {
  ServerOptions options;
  options.max_connections = 2;
  Running running(text_script({"x"}), options);
  const auto settled = [&] {  // the fixture's own connections end a moment later
    std::this_thread::sleep_for(milliseconds(100));
  };
  settled();
  Client one(running.port()), two(running.port());
  one.send(get("/health"));
  EXPECT_EQ(one.response().status, 200);
  two.send(get("/health"));
  EXPECT_EQ(two.response().status, 200);
  const Response third = ask(running.port(), get("/health"));
  EXPECT_EQ(third.status, 503);
  one.close();
  settled();
  EXPECT_EQ(ask(running.port(), get("/health")).status, 200);
}

TEST(Limits, SlowHeadersBodiesAndIdleConnectionsEnd) {
  ServerOptions options;
  options.header_timeout = milliseconds(200);
  options.body_timeout = milliseconds(200);
  options.idle_timeout = milliseconds(200);
  Running running(text_script({"x"}), options);
  Client silent(running.port()), header(running.port()), body(running.port()), idle(running.port());
  header.send("GET /health HTTP/1.1\r\nHo");
  body.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{");
  idle.send(get("/health"));
  EXPECT_EQ(idle.response().status, 200);
  EXPECT_EQ(header.response().status, 408);
  EXPECT_EQ(body.response().status, 408);
  EXPECT_TRUE(silent.closed(milliseconds(2000)));
  EXPECT_TRUE(idle.closed(milliseconds(2000)));
}

// A header that trickles in gets no more time than one that stops.
TEST(Limits, ATricklingHeaderEnds) {
  ServerOptions options;
  options.header_timeout = milliseconds(300);
  Running running(text_script({"x"}), options);
  Client client(running.port());
  client.send("GET /health HTTP/1.1\r\n");
  const auto before = std::chrono::steady_clock::now();
  while (client.receive(milliseconds(20)).empty() &&
         std::chrono::steady_clock::now() - before < std::chrono::seconds(5))
    client.send("X");
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(3));
}

TEST(Access, HostHeader) {
  ServerOptions options;
  options.allow_hosts = {"Box.Example"};
  Running running(text_script({"x"}), options);
  const auto status = [&](const std::string& host) {
    return ask(running.port(), "GET /health HTTP/1.1\r\nHost: " + host + "\r\n\r\n").status;
  };
  for (const char* host : {"localhost", "LOCALHOST:8642", "127.0.0.1:80", "127.1.2.3", "[::1]:8642", "app.localhost",
                           "box.example:1", "localhost."})
    EXPECT_EQ(status(host), 200) << host;
  for (const char* host : {"evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "192.168.1.4", "[::2]",
                           "xlocalhost", "[::1"})
    EXPECT_EQ(status(host), 403) << host;
  EXPECT_EQ(ask(running.port(), "GET /health HTTP/1.1\r\n\r\n").status, 400);
  EXPECT_EQ(ask(running.port(), "GET /health HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n").status, 400);
}

TEST(Access, Origins) {
  ServerOptions options;
  {
    Running running(text_script({"x"}), options);
    EXPECT_EQ(ask(running.port(), post("/v1/chat/completions", kHello, "Origin: https://evil.example\r\n")).status,
              403);
    EXPECT_EQ(ask(running.port(), post("/v1/chat/completions", kHello, "Origin: null\r\n")).status, 403);
    const Response own = ask(running.port(), post("/v1/chat/completions", kHello, "Origin: http://localhost:3000\r\n"));
    EXPECT_EQ(own.status, 200);
    EXPECT_EQ(own.headers.count("access-control-allow-origin"), 0u);
  }
  options.cors_origins = {"https://app.example"};
  Running running(text_script({"x"}), options);
  const std::string origin = "Origin: https://app.example\r\n";
  for (const char* body : {kHello, kHelloStream})
    EXPECT_EQ(ask(running.port(), post("/v1/chat/completions", body, origin)).headers.at("access-control-allow-origin"),
              "https://app.example");
  EXPECT_EQ(ask(running.port(), post("/v1/chat/completions", "{", origin)).headers.at("access-control-allow-origin"),
            "https://app.example");
  const Response preflight =
      ask(running.port(), get("/v1/chat/completions", origin + "Access-Control-Request-Method: POST\r\n", "OPTIONS"));
  EXPECT_EQ(preflight.status, 204);
  EXPECT_EQ(preflight.headers.at("access-control-allow-methods"), "POST, OPTIONS");
  EXPECT_EQ(ask(running.port(), post("/v1/chat/completions", kHello, "Origin: https://evil.example\r\n")).status, 403);
}

TEST(Access, Keys) {
  ServerOptions options;
  options.api_keys = {"first", "second"};
  Running running(text_script({"x"}), options);
  const auto status = [&](const std::string& header) { return ask(running.port(), get("/v1/models", header)).status; };
  EXPECT_EQ(status("Authorization: Bearer first\r\n"), 200);
  EXPECT_EQ(status("authorization: bearer second\r\n"), 200);
  EXPECT_EQ(status("X-Api-Key: first\r\n"), 200);
  for (const char* header : {"", "Authorization: Bearer firs\r\n", "Authorization: Bearer first2\r\n",
                             "Authorization: first\r\n", "X-Api-Key: \r\n", "Authorization: Bearer \r\n"})
    EXPECT_EQ(status(header), 401) << header;
  const Response refused = ask(running.port(), post("/v1/chat/completions", kHello));
  EXPECT_EQ(refused.status, 401);
  EXPECT_EQ(code_of(refused), "invalid_api_key");
  EXPECT_EQ(refused.headers.at("www-authenticate"), "Bearer");
  EXPECT_EQ(ask(running.port(), get("/health")).status, 200);
  EXPECT_EQ(ask(running.port(), get("/metrics")).status, 401);
}

TEST(Access, Binding) {
  const auto start = [](ServerOptions options) {
    options.port = 0;
    ServerSetup setup;
    setup.loader = [](const Progress&) -> Result<std::shared_ptr<ServedModel>> {
      return Error{ErrorKind::internal, "none", ""};
    };
    return Server::start(options, std::move(setup));
  };
  ServerOptions options;
  options.host = "0.0.0.0";
  const auto refused = start(options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::invalid_argument);
  EXPECT_NE(refused.error().message.find("--api-key"), std::string::npos);
  options.no_auth = true;
  EXPECT_TRUE(start(options));
  options.no_auth = false;
  options.api_keys = {"k"};
  EXPECT_TRUE(start(options));
  options.api_keys = {""};
  EXPECT_FALSE(start(options));
  options = {};
  options.host = "203.0.113.7";  // nobody's here
  options.no_auth = true;
  const auto foreign = start(options);
  ASSERT_FALSE(foreign);
  EXPECT_EQ(foreign.error().kind, ErrorKind::io);
}

TEST(Access, PortInUse) {
  Running running(text_script({"x"}));
  ServerOptions options;
  options.port = running.port();
  auto second = HttpServer::listen(options, {});
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().message.find("is in use"), std::string::npos);
  EXPECT_NE(second.error().message.find("--port"), std::string::npos);
}

TEST(Access, Ipv6Loopback) {
  ServerOptions options;
  options.host = "[::1]";
  options.port = 0;
  ScriptedModel model(text_script({"x"}));
  ServerSetup setup;
  setup.loader = [&](const Progress&) -> Result<std::shared_ptr<ServedModel>> { return model.served(); };
  auto server = Server::start(options, std::move(setup));
  if (!server) GTEST_SKIP() << "no IPv6 here: " << server.error().message;
  EXPECT_TRUE((*server)->url().starts_with("http://[::1]:"));
  Client client((*server)->port(), "::1");
  client.send("GET / HTTP/1.1\r\nHost: [::1]:1\r\n\r\n");
  EXPECT_EQ(client.response().status, 200);
}

TEST(Stopping, RunningAnswersFinishFirst) {
  Script script = text_script({"slow"});
  script.delay = milliseconds(300);
  Running running(script);
  Client streamed(running.port()), idle(running.port());
  streamed.send(post("/v1/chat/completions", kHelloStream));
  idle.send(get("/health"));
  EXPECT_EQ(idle.response().status, 200);
  ASSERT_TRUE(running.model.wait_started(1));
  std::thread stop([&] {
    running.server->request_stop();
    EXPECT_TRUE(running.server->wait());
  });
  EXPECT_TRUE(idle.closed());
  const Response r = streamed.response();
  EXPECT_TRUE(r.complete);
  EXPECT_EQ(events(r.body).back(), "[DONE]");
  stop.join();
  EXPECT_FALSE(Client(running.port()).send(get("/health")));
}

TEST(Stopping, AfterTheGraceTheRestIsCancelled) {
  Script script = text_script({"word "});
  script.endless = true;
  script.delay = milliseconds(5);
  ServerOptions options;
  options.grace = milliseconds(200);
  Running running(script, options);
  Client streamed(running.port()), whole(running.port());
  streamed.send(post("/v1/chat/completions", kHelloStream));
  whole.send(post("/v1/chat/completions", kHello));
  ASSERT_TRUE(running.model.wait_started(2));
  const auto before = std::chrono::steady_clock::now();
  std::thread stop([&] {
    running.server->request_stop();
    EXPECT_TRUE(running.server->wait());
  });
  const Response r = streamed.response();
  EXPECT_TRUE(r.complete);
  EXPECT_NE(events(r.body).back().find("The server is stopping."), std::string::npos) << events(r.body).back();
  EXPECT_EQ(whole.response().status, 503);
  stop.join();
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(3));
  EXPECT_EQ(running.model.cancelled, 2);
}

TEST(Stopping, ASecondRequestHurries) {
  Script script = text_script({"word "});
  script.endless = true;
  script.delay = milliseconds(5);
  ServerOptions options;
  options.grace = std::chrono::seconds(60);
  Running running(script, options);
  Client client(running.port());
  client.send(post("/v1/chat/completions", kHello));
  ASSERT_TRUE(running.model.wait_started(1));
  const auto before = std::chrono::steady_clock::now();
  running.server->request_stop();
  running.server->request_stop();
  EXPECT_TRUE(running.server->wait());
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(5));
  EXPECT_TRUE(running.model.wait_cancelled(1));
}

TEST(Load, ManyClientsComeAndGo) {
  Script script = text_script({"a", "b", "c", "d"});
  script.delay = milliseconds(1);
  ServerOptions options;
  options.io_threads = 2;
  Running running(script, options);
  std::vector<std::thread> clients;
  std::atomic<int> good{0};
  for (int i = 0; i < 8; ++i)
    clients.emplace_back([&, i] {
      for (int k = 0; k < 25; ++k) {
        Client client(running.port());
        client.send(post("/v1/chat/completions", (i + k) % 2 ? kHello : kHelloStream));
        if ((i + k) % 5 == 0) continue;  // leaves at once
        const Response r = client.response();
        good += r.complete && r.status == 200 && r.body.find("stop") != std::string::npos;
      }
    });
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(good, 160);
}

}  // namespace
}  // namespace drafthorse::testing
