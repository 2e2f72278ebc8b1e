#pragma once
// A model without weights: each completion plays a list of events on a thread of its own.

#include <atomic>
#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "api/served_model.h"

namespace drafthorse::testing {

struct Script {
  std::vector<Event> events;           // the last is normally a Finish
  std::chrono::milliseconds delay{0};  // before each event
  bool endless = false;                // repeats the first event until cancelled
  std::optional<Error> refusal;        // start fails with it
};

// Text deltas, then finish(reason) with plausible counts.
Script text_script(const std::vector<std::string>& pieces, const std::string& reason = "stop");

// Finish with an internal error.
Event failure(const std::string& message);

class ScriptedModel {
 public:
  explicit ScriptedModel(Script script);
  ~ScriptedModel();  // waits for every completion to end

  std::shared_ptr<ServedModel> served();
  std::vector<CompletionRequest> requests();  // as they came
  // Waits up to 5 s.
  bool wait_cancelled(int count);
  bool wait_started(int count);

  std::function<Script(const CompletionRequest&)> choose;  // overrides the script
  std::atomic<int> started{0}, cancelled{0}, finished{0};

 private:
  std::unique_ptr<Completion> start(const Script& script, EventHandler handler);

  Script script_;
  std::mutex mutex_;
  std::vector<CompletionRequest> requests_;
  std::list<std::thread> threads_;
};

}  // namespace drafthorse::testing
