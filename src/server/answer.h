#pragma once
// One request from its decoded form to its last byte: starts its completions, encodes their events, cancels them
// when the client leaves.

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "api/encoder.h"
#include "api/request.h"
#include "api/served_model.h"
#include "api/usage.h"
#include "server/http.h"

namespace drafthorse {

// What the log line and the metrics say about a request.
struct AnswerRecord {
  int status = 200;    // 499: the client left first
  std::string error;   // its message; empty when all went well
  RequestStats stats;  // summed over choices
  double first_token_seconds = 0;
};

class Answer : public std::enable_shared_from_this<Answer> {
 public:
  struct Parts {
    std::shared_ptr<ServedModel> model;
    ApiRequest request;
    AnswerInfo info;
    std::unique_ptr<AnswerEncoder> encoder;
    std::shared_ptr<Responder> responder;
    std::vector<std::pair<std::string, std::string>> headers;
    std::function<void(std::function<void()>)> later;  // runs a task on another thread
    std::function<void(const AnswerRecord&)> report;   // called once, before the answer's last byte
    std::function<void()> done;                        // called once; the answer calls nobody after it
  };
  explicit Answer(Parts parts) : parts_(std::move(parts)), totals_(parts_.info.n) {}

  // Submits every choice; may take as long as rendering and tokenising do.
  void start();
  // Cancels what runs; a client that still reads gets `why` as its error.
  void cancel(Error why);

 private:
  // Shared, so that cancel runs without the lock: an engine may hold its own while it hands out events.
  using Completions = std::vector<std::shared_ptr<Completion>>;

  void client_gone();
  void cancel_all(std::unique_lock<std::mutex>& lock);  // unlocks it
  bool prepare(const ServedModel& model, CompletionRequest& prompt);
  bool start_choice(const ServedModel& model, const CompletionRequest& request, int choice);
  void open_stream();
  void on_event(int choice, Event event);
  void handle(int choice, const Event& event);  // the rest: under mutex_
  void handle_finish(int choice, const Finish& finish);
  void complete();
  void fail(const Error& error);
  void leave();
  void report(int status, std::string error);
  void finished();

  Parts parts_;
  std::mutex mutex_;
  UsageTotals totals_;
  Completions completions_;
  std::vector<std::pair<int, Event>> early_;  // events that came before the stream was open
  bool open_ = false, over_ = false, gone_ = false, reported_ = false;
  std::optional<Error> cancelled_;
  int finished_choices_ = 0;
  double first_token_seconds_ = 0;
};

// The status and body for an error before any byte of the answer.
HttpResponse error_response(const Error& error, std::string_view code = {});

}  // namespace drafthorse
