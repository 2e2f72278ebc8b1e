#include "cli/whole_answer.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>

#include "cli/interrupt.h"

namespace drafthorse {
namespace {

// Events from the engine's thread to the one that waits.
class EventQueue {
 public:
  void push(Event event) {
    std::lock_guard lock(mutex_);
    events_.push_back(std::move(event));
    ready_.notify_one();
  }

  // Nothing when none came within the time.
  std::optional<Event> pop(std::chrono::milliseconds wait) {
    std::unique_lock lock(mutex_);
    if (!ready_.wait_for(lock, wait, [&] { return !events_.empty(); })) return std::nullopt;
    Event event = std::move(events_.front());
    events_.pop_front();
    return event;
  }

 private:
  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<Event> events_;
};

}  // namespace

Result<WholeAnswer> wait_for_answer(std::shared_ptr<LoadedModel> model, const CompletionRequest& request,
                                    const std::function<void(const std::string&, bool)>& on_text) {
  auto queue = std::make_shared<EventQueue>();
  auto completion =
      start_completion(std::move(model), request, [queue](Event event) { queue->push(std::move(event)); });
  if (!completion) return completion.error();
  WholeAnswer result;
  result.prompt_tokens = (*completion)->prompt_tokens();
  for (bool cancelled = false;;) {
    if (interrupted() && !cancelled) {
      (*completion)->cancel();
      cancelled = true;
    }
    std::optional<Event> event = queue->pop(std::chrono::milliseconds(50));
    if (!event) continue;
    if (auto* reasoning = std::get_if<ReasoningDelta>(&*event)) {
      result.reasoning += reasoning->text;
      if (on_text) on_text(reasoning->text, true);
    } else if (auto* delta = std::get_if<TextDelta>(&*event)) {
      result.text += delta->text;
      result.tokens.insert(result.tokens.end(), delta->tokens.begin(), delta->tokens.end());
      if (on_text) on_text(delta->text, false);
    } else if (auto* finish = std::get_if<Finish>(&*event)) {
      if (finish->error) return *finish->error;
      result.finish_reason = finish->reason;
      result.usage = finish->usage;
      return result;
    }
  }
}

boost::json::array chat_messages(const std::string& system, const std::string& user) {
  boost::json::array messages;
  if (!system.empty()) messages.push_back({{"role", "system"}, {"content", system}});
  messages.push_back({{"role", "user"}, {"content", user}});
  return messages;
}

}  // namespace drafthorse
