#include "server/answer.h"

#include <algorithm>

#include "api/errors.h"

namespace drafthorse {

HttpResponse error_response(const Error& error, std::string_view code) {
  HttpResponse response;
  response.status = http_status(error.kind);
  response.body = error_body(error, code);
  if (response.status == 429 || response.status == 503) response.headers.emplace_back("Retry-After", "1");
  if (response.status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

void Answer::start() {
  // The answer is kept alive by its completions' handlers; the connection does not own it.
  parts_.responder->on_gone([weak = weak_from_this()] {
    if (auto self = weak.lock()) self->client_gone();
  });
  // Held no longer than this: the engine's thread may drop the answer last and must not end its own engine.
  const std::shared_ptr<ServedModel> model = std::move(parts_.model);
  int choice = 0;
  for (CompletionRequest& prompt : parts_.request.prompts) {
    if (parts_.request.n > 1 && model->prepare && !prepare(*model, prompt)) return;
    for (int i = 0; i < parts_.request.n; ++i, ++choice) {
      CompletionRequest request = prompt;
      request.sampling.seed = *prompt.sampling.seed + static_cast<uint64_t>(i);
      if (!start_choice(*model, request, choice)) return;
    }
  }
  open_stream();
}

// Renders and tokenises once what all choices of a prompt share. False when the answer is over with that.
bool Answer::prepare(const ServedModel& model, CompletionRequest& prompt) {
  auto prepared = model.prepare(std::move(prompt));
  if (prepared) {
    prompt = *std::move(prepared);
    return true;
  }
  std::lock_guard lock(mutex_);
  if (!over_) fail(cancelled_.value_or(prepared.error()));
  return false;
}

// False when the answer is over already: the choice was refused, or the client left meanwhile.
bool Answer::start_choice(const ServedModel& model, const CompletionRequest& request, int choice) {
  auto completion = model.start(request, [self = shared_from_this(), choice](Event event) {
    try {
      self->on_event(choice, std::move(event));
    } catch (const std::exception& e) {  // out of memory: this request fails, the engine's thread goes on
      std::lock_guard lock(self->mutex_);
      if (!self->over_)
        self->fail({ErrorKind::internal, std::string("The answer could not be written: ") + e.what(), ""});
    }
  });
  std::unique_lock lock(mutex_);
  if (!completion) {
    if (!over_) fail(cancelled_.value_or(completion.error()));
    return false;
  }
  std::shared_ptr<Completion> started = *std::move(completion);
  const bool over = over_, unwanted = gone_ || cancelled_;
  if (!over) completions_.push_back(started);
  lock.unlock();
  if (unwanted) started->cancel();
  return !over;
}

void Answer::open_stream() {
  std::lock_guard lock(mutex_);
  if (over_) return;
  if (parts_.request.stream) {
    StreamHead head;
    head.headers = parts_.headers;
    head.headers.emplace_back("Cache-Control", "no-cache");
    head.headers.emplace_back("X-Accel-Buffering", "no");
    head.ping = ": ping\n\n";
    parts_.responder->begin(std::move(head));
    parts_.responder->write(parts_.encoder->begin());
  }
  open_ = true;
  for (auto& [choice, event] : std::exchange(early_, {}))
    if (!over_) handle(choice, event);
}

void Answer::cancel(Error why) {
  std::unique_lock lock(mutex_);
  if (over_ || cancelled_) return;
  cancelled_ = std::move(why);
  cancel_all(lock);
}

void Answer::client_gone() {
  std::unique_lock lock(mutex_);
  if (over_ || gone_) return;
  gone_ = true;
  cancel_all(lock);
}

void Answer::cancel_all(std::unique_lock<std::mutex>& lock) {
  const Completions running = completions_;
  lock.unlock();
  for (const auto& completion : running) completion->cancel();
}

void Answer::on_event(int choice, Event event) {
  std::lock_guard lock(mutex_);
  if (over_) return;
  if (open_) return handle(choice, event);
  early_.emplace_back(choice, std::move(event));
}

void Answer::handle(int choice, const Event& event) {
  if (const auto* finish = std::get_if<Finish>(&event)) return handle_finish(choice, *finish);
  if (gone_) return;
  const std::string bytes = parts_.encoder->event(choice, event);
  // A refused write means that the connection is closing: client_gone follows on its thread.
  if (!bytes.empty()) parts_.responder->write(bytes);
}

void Answer::handle_finish(int choice, const Finish& finish) {
  totals_.add(choice, finish.usage);
  first_token_seconds_ = std::max(first_token_seconds_, finish.usage.first_token_seconds);
  ++finished_choices_;
  const bool last = finished_choices_ == parts_.info.choices;
  if (gone_) {
    if (last) leave();
    return;
  }
  if (finish.error) return fail(*finish.error);
  if (finish.reason == "cancelled" || finish.reason == "error") {
    // Without a cause of ours the responder knows it first: its news is on the way.
    if (parts_.responder->gone() != Gone::no) {
      gone_ = true;
      if (last) leave();
      return;
    }
    return fail(cancelled_.value_or(Error{ErrorKind::internal, "The completion ended without an answer.", ""}));
  }
  const std::string bytes = parts_.encoder->event(choice, finish);
  if (!bytes.empty()) parts_.responder->write(bytes);
  if (last) complete();
}

void Answer::leave() {
  report(499, "the client left");
  finished();
}

// Reports come before the last byte, so that a client who has its answer finds it counted.
void Answer::complete() {
  report(200, "");
  if (parts_.request.stream) {
    parts_.responder->write(parts_.encoder->finish());
    parts_.responder->end();
  } else {
    HttpResponse response;
    response.body = parts_.encoder->finish();
    response.headers = parts_.headers;
    parts_.responder->send(std::move(response));
  }
  finished();
}

void Answer::fail(const Error& error) {
  report(gone_ ? 499 : http_status(error.kind), error.message);
  if (open_ && parts_.request.stream) {
    parts_.responder->write(parts_.encoder->error(error));
    parts_.responder->end();
  } else {
    HttpResponse response = error_response(error);
    response.headers.insert(response.headers.end(), parts_.headers.begin(), parts_.headers.end());
    parts_.responder->send(std::move(response));
  }
  finished();
}

void Answer::report(int status, std::string error) {
  if (std::exchange(reported_, true)) return;
  parts_.report({status, std::move(error), totals_.total(), first_token_seconds_});
}

void Answer::finished() {
  over_ = true;
  // Destroying a completion ends its siblings that still run; never on the engine's thread.
  parts_.later([completions = std::make_shared<Completions>(std::move(completions_))] { completions->clear(); });
  parts_.done();
}

}  // namespace drafthorse
