#pragma once
// What each URL does. No sockets here: requests come in, responders go out.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "api/served_model.h"
#include "server/answer.h"
#include "server/http.h"
#include "server/metrics.h"
#include "server/options.h"
#include "server/work_queue.h"

namespace drafthorse {

class Service {
 public:
  explicit Service(const ServerOptions& options);
  // Cancels the answers that still run and waits for their end.
  ~Service();

  // The service must outlive whoever calls them.
  HttpHandlers handlers();
  // For /metrics; set before requests come.
  void count_connections(std::function<int()> count) { connections_ = std::move(count); }

  // Loading is the first state; requests get 503 until the model is ready.
  void set_progress(uint64_t done_bytes, uint64_t total_bytes);
  void set_ready(std::shared_ptr<ServedModel> model);
  void set_failed(Error error);
  // Graceful stop: completions that come now get 503; those that run go on until cancel_running.
  void set_stopping() { stopping_ = true; }
  void cancel_running();

 private:
  struct Call;  // one request with its responder and start time
  struct Route;
  using CallPtr = std::shared_ptr<Call>;

  static const Route* find_route(std::string_view path);
  std::optional<HttpResponse> check(const HttpRequest& head) const;
  void log_refusal(const HttpRequest& head, const HttpResponse& response);
  void handle(HttpRequest request, std::shared_ptr<Responder> responder);
  void reply(Call& call, HttpResponse response, const std::string& error = {});
  void reply(Call& call, const Error& error, std::string_view code = {}) {
    reply(call, error_response(error, code), error.message);
  }
  void log(const Call& call, const AnswerRecord& record);

  void root(const CallPtr& call);
  void health(const CallPtr& call);
  void metrics(const CallPtr& call);
  void models(const CallPtr& call);
  void one_model(const CallPtr& call);
  void chat(const CallPtr& call);
  void completions(const CallPtr& call);
  struct Format;
  void answer(const CallPtr& call, const Format& format);
  void answer_now(const CallPtr& call, const Format& format);

  std::shared_ptr<ServedModel> ready_model();  // null while loading, failed or stopping
  Error not_ready();
  // Seconds for which a running engine has finished no step; 0 when all is well.
  double stalled_seconds(const EngineStats& stats);

  ServerOptions options_;
  Metrics metrics_;
  std::function<int()> connections_;
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;  // guards the rest
  std::shared_ptr<ServedModel> model_;
  std::optional<Error> failure_;
  double progress_ = 0;
  std::map<const Answer*, std::weak_ptr<Answer>> running_;
  std::condition_variable idle_;  // running_ became empty
  uint64_t last_work_ = 0;
  bool was_running_ = false;  // when health was asked last
  std::chrono::steady_clock::time_point last_change_;
  WorkQueue workers_;  // last: its tasks use everything above
};

}  // namespace drafthorse
