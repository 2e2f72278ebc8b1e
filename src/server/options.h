#pragma once
// What `drafthorse serve` can be told about HTTP; the model's part is LoadOptions.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace drafthorse {

struct ServerOptions {
  std::string host = "127.0.0.1";         // address or name to bind; "::1" and "[::1]" are the same
  uint16_t port = 8642;                   // 0: any free port
  std::vector<std::string> api_keys;      // non-empty: every endpoint but /health wants one of them
  bool no_auth = false;                   // allows binding beyond loopback without a key
  std::vector<std::string> allow_hosts;   // names that the Host header may carry beside loopback and `host`
  std::vector<std::string> cors_origins;  // origins that browsers may call from; "*" for any; empty: none
  int io_threads = 1;
  int worker_threads = 2;                            // parse requests, render templates, tokenise
  int max_connections = 256;                         // more are answered 503 and closed
  uint32_t max_header = 16 << 10;                    // bytes
  uint64_t max_body = 32 << 20;                      // bytes of one request
  uint64_t max_body_total = 256 << 20;               // bytes of all requests that are being read or decoded
  uint64_t max_stream_buffer = 4 << 20;              // bytes a reader may lag behind before its completion is cancelled
  std::chrono::milliseconds header_timeout{15'000};  // from the first byte (or accept) to the header's end
  std::chrono::milliseconds body_timeout{60'000};    // from the header's end to the body's end
  std::chrono::milliseconds idle_timeout{75'000};    // between two requests of one connection
  std::chrono::milliseconds write_timeout{60'000};   // a reader that takes nothing for so long is gone
  std::chrono::milliseconds ping_interval{15'000};   // silence in a stream before a comment line
  std::chrono::milliseconds stall{120'000};          // a model that runs and ends no step for so long has failed
  std::chrono::milliseconds grace{10'000};           // from the stop signal to the end of what still runs
};

}  // namespace drafthorse
