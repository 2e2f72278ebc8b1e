#include "server/service.h"

#include <algorithm>
#include <random>

#include <fmt/format.h>
#include <openssl/rand.h>
#include <spdlog/spdlog.h>
#include <boost/json.hpp>

#include "api/errors.h"
#include "api/json_text.h"
#include "api/openai_chat.h"
#include "api/openai_completions.h"
#include "core/version.h"
#include "server/access.h"

namespace drafthorse {

namespace json = boost::json;
using Clock = std::chrono::steady_clock;

struct Service::Call {
  HttpRequest request;
  std::shared_ptr<Responder> responder;
  std::string endpoint;
  std::vector<std::pair<std::string, std::string>> headers;  // of every response to this request
  Clock::time_point start = Clock::now();
};

struct Service::Route {
  std::string_view path;      // ends with a slash: what follows is a parameter
  std::string_view endpoint;  // in metrics
  bool post;                  // POST, else GET and HEAD
  void (Service::*run)(const CallPtr&);
};

struct Service::Format {
  Result<ApiRequest> (*decode)(const json::value&, const ServedModel&);
  std::unique_ptr<AnswerEncoder> (*encoder)(const AnswerInfo&, bool);
  std::string_view id_prefix;
};

namespace {

uint64_t random_bits() {
  uint64_t bits = 0;
  if (RAND_bytes(reinterpret_cast<unsigned char*>(&bits), sizeof bits) != 1) bits = std::random_device{}();
  return bits;
}

std::string new_id(std::string_view prefix) {
  return fmt::format("{}{:016x}{:08x}", prefix, random_bits(), random_bits() >> 32);
}

// Printable ASCII of what a client sent, cut short: log lines stay lines.
std::string loggable(std::string_view text) {
  std::string out(text.substr(0, 100));
  for (char& c : out)
    if (c < 0x21 || c > 0x7E) c = '?';
  return out;
}

std::string percent_decoded(std::string_view text) {
  const auto digit = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
  };
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && digit(text[i + 1]) >= 0 && digit(text[i + 2]) >= 0) {
      out += static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2]));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

HttpResponse json_response(const json::value& value, int status = 200) {
  HttpResponse response;
  response.status = status;
  response.body = json::serialize(value);
  return response;
}

// The response to a request that breaks HTTP's or the server's own rules.
HttpResponse refusal(int status, const std::string& message, std::string_view code = {}) {
  const ErrorKind kind = status == 503   ? ErrorKind::cancelled
                         : status >= 500 ? ErrorKind::internal
                                         : ErrorKind::invalid_argument;
  HttpResponse response = error_response({kind, message, ""}, status == 503 ? "server_busy" : code);
  response.status = status;
  return response;
}

json::object model_json(const ServedModel& model) {
  json::array aliases(model.aliases.begin(), model.aliases.end());
  return {{"id", model.id},
          {"object", "model"},
          {"created", model.created},
          {"owned_by", "drafthorse"},
          {"aliases", std::move(aliases)},
          {"context_length", model.context}};
}

}  // namespace

Service::Service(const ServerOptions& options)
    : options_(options), last_change_(Clock::now()), workers_(options.worker_threads) {}

Service::~Service() {
  stopping_ = true;
  cancel_running();
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return running_.empty(); });
}

HttpHandlers Service::handlers() {
  HttpHandlers out;
  out.check = [this](const HttpRequest& head) {
    auto refused = check(head);
    if (refused) log_refusal(head, *refused);
    return refused;
  };
  out.handle = [this](HttpRequest request, std::shared_ptr<Responder> responder) {
    handle(std::move(request), std::move(responder));
  };
  out.refuse = [this](int status, const std::string& message) {
    HttpResponse response = refusal(status, message);
    log_refusal({}, response);
    return response;
  };
  return out;
}

const Service::Route* Service::find_route(std::string_view path) {
  static constexpr Route kRoutes[] = {
      {"/v1/chat/completions", "chat_completions", true, &Service::chat},
      {"/v1/completions", "completions", true, &Service::completions},
      {"/v1/models", "models", false, &Service::models},
      {"/v1/models/", "models", false, &Service::one_model},
      {"/health", "health", false, &Service::health},
      {"/metrics", "metrics", false, &Service::metrics},
      {"/", "root", false, &Service::root},
  };
  for (const Route& route : kRoutes) {
    const bool prefix = route.path.size() > 1 && route.path.back() == '/';
    if (prefix ? path.size() > route.path.size() && path.starts_with(route.path) : path == route.path) return &route;
  }
  return nullptr;
}

// Who may ask at all; runs before the body is read.
std::optional<HttpResponse> Service::check(const HttpRequest& head) const {
  const int hosts = head.header_count("host");
  if (hosts > 1 || (hosts == 0 && head.version >= 11))
    return refusal(400, "The request needs exactly one Host header.");
  if (hosts == 1 && !host_allowed(head.header("host"), options_))
    return refusal(403, "The Host header names another host than this server; allow it with --allow-host NAME.",
                   "host_not_allowed");
  const std::string_view origin = head.header("origin");
  const auto cors = cors_origin(origin, options_);
  const auto with_cors = [&](HttpResponse response) {
    if (cors && !origin.empty()) response.headers.emplace_back("Access-Control-Allow-Origin", *cors);
    return response;
  };
  // A page of another site may send simple requests without asking first; it may not make the model work.
  const size_t scheme = origin.find("://");
  if (!origin.empty() && !cors &&
      (scheme == std::string_view::npos || !host_allowed(origin.substr(scheme + 3), options_)))
    return refusal(403, "Requests from this web origin are not allowed; allow it with --cors ORIGIN.",
                   "origin_not_allowed");
  if (head.method != "OPTIONS" && head.path != "/health" && !key_accepted(head, options_))
    return with_cors(error_response(
        {ErrorKind::unauthorized, "The API key is missing or wrong: send 'Authorization: Bearer KEY'.", ""}));
  if (const auto encoding = head.header("content-encoding"); !encoding.empty() && encoding != "identity")
    return with_cors(refusal(415, "Compressed request bodies are not supported."));
  return std::nullopt;
}

void Service::handle(HttpRequest request, std::shared_ptr<Responder> responder) {
  auto call = std::make_shared<Call>();
  call->request = std::move(request);
  call->responder = std::move(responder);
  const HttpRequest& r = call->request;
  if (!options_.cors_origins.empty()) {
    call->headers.emplace_back("Vary", "Origin");
    if (const auto cors = cors_origin(r.header("origin"), options_); cors && !r.header("origin").empty())
      call->headers.emplace_back("Access-Control-Allow-Origin", *cors);
  }
  const Route* route = find_route(r.path);
  call->endpoint = route ? route->endpoint : "other";
  if (!route)
    return reply(*call,
                 {ErrorKind::not_found,
                  fmt::format("There is no {} here; docs/api.md lists the endpoints.", loggable(r.path)), ""},
                 "unknown_url");
  const std::string allow = route->post ? "POST, OPTIONS" : "GET, HEAD, OPTIONS";
  if (r.method == "OPTIONS") {
    HttpResponse response{204, "", "", {{"Allow", allow}}};
    if (!options_.cors_origins.empty()) {
      response.headers.emplace_back("Access-Control-Allow-Methods", allow);
      response.headers.emplace_back("Access-Control-Allow-Headers", "Authorization, Content-Type, X-Api-Key");
      response.headers.emplace_back("Access-Control-Max-Age", "86400");
    }
    return reply(*call, std::move(response));
  }
  if (route->post ? r.method != "POST" : r.method != "GET" && r.method != "HEAD") {
    HttpResponse response =
        refusal(405, fmt::format("{} is not allowed for {}; use {}.", loggable(r.method), route->path, allow),
                "method_not_allowed");
    response.headers.emplace_back("Allow", allow);
    return reply(*call, std::move(response));
  }
  (this->*route->run)(call);
}

void Service::reply(Call& call, HttpResponse response, const std::string& error) {
  AnswerRecord record;
  record.status = response.status;
  record.error = error;
  log(call, record);  // before the send: who has the answer finds it counted
  response.headers.insert(response.headers.end(), call.headers.begin(), call.headers.end());
  call.responder->send(std::move(response));
}

void Service::log(const Call& call, const AnswerRecord& record) {
  const double seconds = std::chrono::duration<double>(Clock::now() - call.start).count();
  metrics_.count_request(call.endpoint, record.status, seconds);
  std::string line = fmt::format("{} {} {} {:.3f} s", loggable(call.request.method), loggable(call.request.path),
                                 record.status, seconds);
  const RequestStats& s = record.stats;
  if (s.prompt_tokens > 0)
    line += fmt::format(", prompt {} ({} cached), completion {}, {:.1f} tok/s, draft {}/{} accepted in {} steps",
                        s.prompt_tokens, s.cached_tokens, s.completion_tokens, decode_rate(s), s.speculation.accepted,
                        s.speculation.proposed, s.speculation.steps);
  if (!record.error.empty()) line += ": " + valid_utf8(std::string_view(record.error).substr(0, 300));
  std::replace(line.begin(), line.end(), '\n', ' ');
  const bool poll = (call.endpoint == "health" || call.endpoint == "metrics") && record.status == 200;
  spdlog::log(poll ? spdlog::level::debug : spdlog::level::info, "{}", line);
}

// For what never became a call: refused by its head, or by HTTP itself (then the head is empty).
void Service::log_refusal(const HttpRequest& head, const HttpResponse& response) {
  Call call;
  call.request.method = head.method.empty() ? "-" : head.method;
  call.request.path = head.path.empty() ? "-" : head.path;
  const Route* route = find_route(head.path);
  call.endpoint = route ? route->endpoint : "other";
  AnswerRecord record;
  record.status = response.status;
  log(call, record);
}

void Service::set_progress(uint64_t done_bytes, uint64_t total_bytes) {
  std::lock_guard lock(mutex_);
  progress_ = total_bytes > 0 ? static_cast<double>(done_bytes) / static_cast<double>(total_bytes) : 0;
}

void Service::set_ready(std::shared_ptr<ServedModel> model) {
  std::lock_guard lock(mutex_);
  model_ = std::move(model);
}

void Service::set_failed(Error error) {
  std::lock_guard lock(mutex_);
  failure_ = std::move(error);
}

void Service::cancel_running() {
  std::vector<std::shared_ptr<Answer>> answers;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [raw, weak] : running_)
      if (auto answer = weak.lock()) answers.push_back(std::move(answer));
  }
  for (const auto& answer : answers) answer->cancel({ErrorKind::cancelled, "The server is stopping.", ""});
}

std::shared_ptr<ServedModel> Service::ready_model() {
  std::lock_guard lock(mutex_);
  return stopping_ || failure_ ? nullptr : model_;
}

Error Service::not_ready() {
  std::lock_guard lock(mutex_);
  if (stopping_) return {ErrorKind::cancelled, "The server is stopping.", ""};
  if (failure_) return {ErrorKind::internal, "The model could not be loaded: " + failure_->message, ""};
  return {ErrorKind::cancelled,
          fmt::format("The model is still loading ({:.0f} %); try again shortly.", progress_ * 100), ""};
}

double Service::stalled_seconds(const EngineStats& stats) {
  std::lock_guard lock(mutex_);
  const uint64_t work = stats.steps + stats.rows + stats.finished + stats.cancelled + stats.failed;
  const auto now = Clock::now();
  // Work that began since health was asked last has not stood still all that time.
  if (stats.running == 0 || work != last_work_ || !was_running_) {
    last_work_ = work;
    last_change_ = now;
  }
  was_running_ = stats.running > 0;
  return std::chrono::duration<double>(now - last_change_).count();
}

void Service::root(const CallPtr& call) {
  const auto model = ready_model();
  HttpResponse response;
  response.content_type = "text/plain; charset=utf-8";
  response.body = fmt::format(
      "Drafthorse {}: a local LLM server with an OpenAI-compatible API under /v1 ({}). See also /health and "
      "/metrics.\n",
      kVersion, model ? "model " + valid_utf8(model->id) : "no model is ready");
  reply(*call, std::move(response));
}

void Service::health(const CallPtr& call) {
  const auto model = ready_model();
  if (!model) {
    const Error error = not_ready();
    const bool failed = error.kind == ErrorKind::internal;
    json::object body{{"status", failed ? "failed" : stopping_ ? "stopping" : "loading"}, {"error", error.message}};
    if (!failed && !stopping_) {
      std::lock_guard lock(mutex_);
      body.erase("error");
      body["progress"] = progress_;
    }
    HttpResponse response = json_response(body, failed ? 500 : 503);
    if (!failed) response.headers.emplace_back("Retry-After", "1");
    return reply(*call, std::move(response));
  }
  json::object body{{"status", "ok"}, {"model", valid_utf8(model->id)}, {"backend", model->description}};
  int status = 200;
  if (model->engine_stats) {
    const EngineStats stats = model->engine_stats();
    body["running"] = stats.running;
    body["queued"] = stats.queued;
    if (const double seconds = stalled_seconds(stats);
        seconds > std::chrono::duration<double>(options_.stall).count()) {
      status = 500;
      body["status"] = "failed";
      body["error"] = fmt::format("No step of the model has finished for {:.0f} s.", seconds);
    }
  }
  reply(*call, json_response(body, status));
}

void Service::metrics(const CallPtr& call) {
  HttpResponse response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = metrics_.text(ready_model().get(), connections_ ? connections_() : 0);
  reply(*call, std::move(response));
}

void Service::models(const CallPtr& call) {
  json::array data;
  if (const auto model = ready_model()) data.push_back(model_json(*model));
  else return reply(*call, not_ready(), "model_not_ready");
  reply(*call, json_response(json::object{{"object", "list"}, {"data", std::move(data)}}));
}

void Service::one_model(const CallPtr& call) {
  const auto model = ready_model();
  if (!model) return reply(*call, not_ready(), "model_not_ready");
  const std::string name =
      percent_decoded(std::string_view(call->request.path).substr(std::string_view("/v1/models/").size()));
  if (!answers_to(*model, name)) return reply(*call, unknown_model(*model, name));
  reply(*call, json_response(model_json(*model)));
}

void Service::chat(const CallPtr& call) { answer(call, {decode_chat, chat_encoder, "chatcmpl-"}); }
void Service::completions(const CallPtr& call) { answer(call, {decode_completions, completions_encoder, "cmpl-"}); }

void Service::answer(const CallPtr& call, const Format& format) {
  workers_.post([this, call, format] {
    try {
      answer_now(call, format);
    } catch (const std::exception& e) {
      spdlog::error("{} failed: {}", call->endpoint, e.what());
      reply(*call, {ErrorKind::internal, "The server failed to handle the request; its log says more.", ""});
    }
  });
}

void Service::answer_now(const CallPtr& call, const Format& format) {
  if (call->responder->gone() != Gone::no) return log(*call, {499, "the client left", {}, 0});
  const auto model = ready_model();
  if (!model) return reply(*call, not_ready(), "model_not_ready");
  auto body = parse_json(call->request.body);
  call->request.body = std::string();
  if (!body) return reply(*call, body.error(), "invalid_json");
  auto decoded = format.decode(*body, *model);
  *body = nullptr;
  if (!decoded) return reply(*call, decoded.error());

  Answer::Parts parts;
  parts.model = model;
  parts.request = *std::move(decoded);
  const int64_t now =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  // Seeds that the server picks survive JSON readers that keep numbers as doubles.
  const uint64_t seed = random_bits() >> 11;
  for (CompletionRequest& prompt : parts.request.prompts) {
    if (!prompt.sampling.seed) prompt.sampling.seed = seed;
    if (auto* chat = std::get_if<ChatTemplateInput>(&prompt.prompt)) chat->now = now;
  }
  parts.info = {new_id(format.id_prefix),
                valid_utf8(model->id),
                now,
                parts.request.choices(),
                parts.request.n,
                parts.request.include_usage,
                parts.request.timings,
                parts.request.prompts.front().sampling.logprobs};
  parts.encoder = format.encoder(parts.info, parts.request.stream);
  parts.responder = call->responder;
  parts.headers = call->headers;
  parts.later = [this](std::function<void()> task) { workers_.post(std::move(task)); };
  auto key = std::make_shared<const Answer*>(nullptr);
  parts.report = [this, call](const AnswerRecord& record) {
    log(*call, record);
    if (record.status == 200)
      metrics_.count_answer(record.first_token_seconds, record.stats.queue_seconds, record.stats.cached_tokens);
  };
  parts.done = [this, key] {
    std::lock_guard lock(mutex_);
    running_.erase(*key);
    if (running_.empty()) idle_.notify_all();
  };
  auto answer = std::make_shared<Answer>(std::move(parts));
  *key = answer.get();
  {
    std::lock_guard lock(mutex_);
    running_[answer.get()] = answer;
  }
  answer->start();
}

}  // namespace drafthorse
