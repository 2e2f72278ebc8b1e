#pragma once
// The whole server: binds, listens while the model loads, answers until a signal stops it.

#include <functional>
#include <string>

#include "completion/completion.h"
#include "core/result.h"
#include "server/options.h"

namespace drafthorse {

// What a program may want to say while the server runs. Called once each, from any thread.
struct ServeEvents {
  std::function<void(const std::string& url)> listening;  // "http://127.0.0.1:8642"; /health answers from now on
  std::function<void(const LoadedModel& model)> ready;    // completions are answered from now on
  std::function<void(uint64_t done_bytes, uint64_t total_bytes)> progress;  // of loading
};

// Reads the checkpoint's headers, binds, then loads the model in the background while it listens. Returns after
// SIGTERM, SIGINT (both are caught from here on) or a failed load: ok after a graceful stop. A first signal stops
// accepting and gives running requests options.grace to finish, a second one cancels them at once.
// Errors: invalid_argument (an address beyond loopback without a key), io (port in use, address not ours), and
// whatever load() says.
Status serve(const ServerOptions& options, const LoadOptions& load_options, const ServeEvents& events = {});

}  // namespace drafthorse
