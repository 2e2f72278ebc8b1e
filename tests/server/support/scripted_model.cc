#include "server/support/scripted_model.h"

namespace drafthorse::testing {
namespace {

struct Flag {
  std::atomic<bool> cancelled{false};
};

class ScriptedCompletion final : public Completion {
 public:
  explicit ScriptedCompletion(std::shared_ptr<Flag> flag) : flag_(std::move(flag)) {}
  ~ScriptedCompletion() override { cancel(); }
  void cancel() override { flag_->cancelled = true; }
  int prompt_tokens() const override { return 7; }

 private:
  std::shared_ptr<Flag> flag_;
};

bool wait_for(const std::function<bool()>& condition) {
  for (int i = 0; i < 1000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return condition();
}

}  // namespace

Script text_script(const std::vector<std::string>& pieces, const std::string& reason) {
  Script script;
  for (const std::string& piece : pieces) script.events.push_back(TextDelta{piece, {}, {}});
  Usage usage;
  usage.stats.prompt_tokens = 7;
  usage.stats.cached_tokens = 2;
  usage.stats.completion_tokens = static_cast<int>(pieces.size());
  usage.stats.speculation = {5, 3, static_cast<int64_t>(pieces.size()), 0, {}, {}};
  usage.stats.by_drafter["lookup"] = {5, 3, 2, 1, {}, {}};
  usage.stats.prefill_seconds = 0.5;
  usage.stats.decode_seconds = 1.0;
  usage.first_token_seconds = 0.6;
  usage.total_seconds = 1.6;
  usage.seed = 42;
  script.events.push_back(Finish{reason, usage, std::nullopt});
  return script;
}

Event failure(const std::string& message) {
  Finish finish;
  finish.reason = "error";
  finish.error = Error{ErrorKind::internal, message, ""};
  return finish;
}

ScriptedModel::ScriptedModel(Script script) : script_(std::move(script)) {}

ScriptedModel::~ScriptedModel() {
  for (std::thread& thread : threads_) thread.join();
}

std::shared_ptr<ServedModel> ScriptedModel::served() {
  auto model = std::make_shared<ServedModel>();
  model->id = "scripted";
  model->aliases = {"other-name"};
  model->created = 1700000000;
  model->context = 2048;
  model->vocab = 1000;
  model->description = "scripted";
  model->start = [this](const CompletionRequest& request, EventHandler handler) -> Result<std::unique_ptr<Completion>> {
    {
      std::lock_guard lock(mutex_);
      requests_.push_back(request);
    }
    const Script script = choose ? choose(request) : script_;
    if (script.refusal) return *script.refusal;
    return start(script, std::move(handler));
  };
  model->engine_stats = [this] {
    EngineStats stats;
    stats.requests = static_cast<uint64_t>(started);
    stats.finished = static_cast<uint64_t>(finished);
    stats.cancelled = static_cast<uint64_t>(cancelled);
    stats.by_drafter["lookup"] = {5, 3, 2, 1, {}, {}};
    return stats;
  };
  model->memory = [] { return std::vector<MemoryPart>{{"weights", 1000}, {"kv", 200}}; };
  return model;
}

std::vector<CompletionRequest> ScriptedModel::requests() {
  std::lock_guard lock(mutex_);
  return requests_;
}

bool ScriptedModel::wait_cancelled(int count) {
  return wait_for([&] { return cancelled >= count; });
}
bool ScriptedModel::wait_started(int count) {
  return wait_for([&] { return started >= count; });
}

std::unique_ptr<Completion> ScriptedModel::start(const Script& script, EventHandler handler) {
  auto flag = std::make_shared<Flag>();
  std::lock_guard lock(mutex_);
  ++started;
  threads_.emplace_back([this, script, flag, handler = std::move(handler)]() mutable {
    const auto pause = [&] {
      for (auto left = script.delay; left.count() > 0 && !flag->cancelled; left -= std::chrono::milliseconds(1))
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    };
    size_t next = 0;
    bool done = false;
    while (!done && next < script.events.size()) {
      pause();
      if (flag->cancelled) break;
      done = std::holds_alternative<Finish>(script.events[next]);
      if (done) ++finished;
      handler(script.events[next]);
      if (!script.endless) ++next;
    }
    if (!done) {
      ++cancelled;
      handler(Finish{"cancelled", {}, std::nullopt});
    }
    handler = nullptr;
  });
  return std::make_unique<ScriptedCompletion>(flag);
}

}  // namespace drafthorse::testing
