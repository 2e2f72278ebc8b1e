#include "server/server.h"

#include <spdlog/spdlog.h>

#include <exception>

namespace drafthorse {

Result<std::unique_ptr<Server>> Server::start(const ServerOptions& options, ServerSetup setup) {
  std::unique_ptr<Server> server(new Server(options, std::move(setup)));
  auto http = HttpServer::listen(options, server->service_.handlers());
  if (!http) return http.error();
  server->http_ = *std::move(http);
  server->service_.count_connections([raw = server->http_.get()] { return raw->connections(); });
  if (server->setup_.catch_signals) server->http_->catch_signals([raw = server.get()] { raw->request_stop(); });
  if (server->setup_.listening) server->setup_.listening(server->url());
  server->loader_ = std::thread([raw = server.get()] { raw->run_loader(); });
  return server;
}

Server::~Server() {
  if (!http_) return;
  try {
    request_stop();
    request_stop();
    shut_down();
  } catch (...) {
    std::terminate();  // threads that could not be stopped still use what would be gone
  }
}

void Server::run_loader() {
  auto model = [&]() -> Result<std::shared_ptr<ServedModel>> {
    try {
      return setup_.loader([this](uint64_t done, uint64_t total) { service_.set_progress(done, total); });
    } catch (const std::exception& e) {
      return Error{ErrorKind::internal, std::string("Loading the model failed: ") + e.what(), ""};
    }
  }();
  if (model) service_.set_ready(*model);
  else service_.set_failed(model.error());
  if (model && setup_.ready) setup_.ready();
  std::lock_guard lock(mutex_);
  loaded_ = true;
  if (!model) failure_ = model.error();
  changed_.notify_all();
}

void Server::request_stop() {
  std::lock_guard lock(mutex_);
  ++stops_;
  changed_.notify_all();
}

Status Server::wait(bool stop_on_failed_load) {
  std::optional<Error> failure;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stops_ > 0 || (stop_on_failed_load && failure_); });
    failure = failure_;
  }
  shut_down();
  if (failure) return *failure;
  return {};
}

void Server::shut_down() {
  if (shut_down_) return;
  shut_down_ = true;
  service_.set_stopping();
  http_->stop_accepting();
  const auto end = std::chrono::steady_clock::now() + options_.grace;
  const auto hurried = [&] {
    std::lock_guard lock(mutex_);
    return stops_ > 1;
  };
  bool drained = http_->drain(std::chrono::milliseconds(0));
  while (!drained && !hurried() && std::chrono::steady_clock::now() < end)
    drained = http_->drain(std::chrono::milliseconds(50));
  if (!drained) {
    spdlog::info("cancelling the requests that still run");
    service_.cancel_running();
    http_->drain(std::chrono::seconds(2));
  }
  http_->close();
  {
    std::unique_lock lock(mutex_);
    const bool loading = !loaded_;
    lock.unlock();
    if (loading && setup_.abandon_loading) setup_.abandon_loading();
  }
  if (loader_.joinable()) loader_.join();
}

}  // namespace drafthorse
