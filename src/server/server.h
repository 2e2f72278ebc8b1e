#pragma once
// The service on its sockets, with a model that loads in the background. serve() is this with a real model.

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "api/served_model.h"
#include "server/http.h"
#include "server/options.h"
#include "server/service.h"

namespace drafthorse {

using ModelLoader = std::function<Result<std::shared_ptr<ServedModel>>(const Progress&)>;

struct ServerSetup {
  ModelLoader loader;
  std::function<void(const std::string& url)> listening;  // before the loader starts
  std::function<void()> ready;                            // on the loader's thread, once completions are answered
  bool catch_signals = false;
  // Called when a stop finds the loader still at work, which cannot be interrupted; may end the process.
  std::function<void()> abandon_loading;
};

class Server {
 public:
  // Listens, then runs the loader on a thread of its own. Errors: see HttpServer::listen.
  static Result<std::unique_ptr<Server>> start(const ServerOptions& options, ServerSetup setup);
  ~Server();

  std::string url() const { return http_->url(); }
  uint16_t port() const { return http_->port(); }
  // Any thread. The first call stops gracefully, the second cancels what still runs.
  void request_stop();
  // Returns when the server has stopped: ok, or the loader's error (a failed load stops the server when
  // stop_on_failed_load; otherwise /health goes on to tell of it).
  Status wait(bool stop_on_failed_load = true);

 private:
  Server(const ServerOptions& options, ServerSetup setup)
      : options_(options), setup_(std::move(setup)), service_(options) {}
  void run_loader();
  void shut_down();

  ServerOptions options_;
  ServerSetup setup_;
  Service service_;
  std::unique_ptr<HttpServer> http_;
  std::mutex mutex_;  // guards the rest
  std::condition_variable changed_;
  int stops_ = 0;
  std::optional<Error> failure_;
  bool shut_down_ = false, loaded_ = false;
  std::thread loader_;
};

}  // namespace drafthorse
