#pragma once
// A server on a free port with a scripted model.

#include <memory>

#include <gtest/gtest.h>

#include "server/server.h"
#include "server/support/client.h"
#include "server/support/scripted_model.h"

namespace drafthorse::testing {

inline const char* const kHello = R"({"model":"scripted","messages":[{"role":"user","content":"hi"}]})";
inline const char* const kHelloStream =
    R"({"model":"scripted","messages":[{"role":"user","content":"hi"}],"stream":true})";

struct Running {
  explicit Running(Script script, ServerOptions options = {}) : model(std::move(script)) {
    options.port = 0;
    ServerSetup setup;
    setup.loader = [this](const Progress&) -> Result<std::shared_ptr<ServedModel>> { return model.served(); };
    auto started = Server::start(options, std::move(setup));
    if (!started) {
      ADD_FAILURE() << started.error().message;
      return;
    }
    server = *std::move(started);
    for (int i = 0; i < 1000 && ask(server->port(), get("/health")).status != 200; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  uint16_t port() const { return server->port(); }

  ScriptedModel model;
  std::unique_ptr<Server> server;  // ends before its model
};

}  // namespace drafthorse::testing
