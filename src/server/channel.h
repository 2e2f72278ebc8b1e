#pragma once
// One answer between the threads that make it and the connection that writes it.

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "server/http.h"

namespace drafthorse {

// The connection's side. Both return at once and act on the connection's own thread.
class Outlet {
 public:
  virtual ~Outlet() = default;
  virtual void flush_soon() = 0;          // the channel has bytes, or has ended
  virtual void abort_soon(Gone why) = 0;  // close the connection
};

// Filled by any thread, emptied by its connection.
struct Channel {
  std::mutex mutex;                // guards everything below
  std::shared_ptr<Outlet> outlet;  // until the answer is complete or nobody reads it
  std::string pending;             // bytes for the socket
  size_t in_flight = 0;            // bytes that the connection writes now
  size_t limit = 0;                // most bytes of a stream that may wait
  bool chunked = true, head_only = false, keep_alive = true;
  bool begun = false, ended = false, flush_posted = false, refused = false;
  Gone gone = Gone::no;
  std::string ping;
  std::function<void()> on_gone;

  // Appends bytes and wakes the connection; unlocks `lock`, which holds `mutex`. False when nobody reads any more.
  // A bounded append that passes the limit closes the connection.
  bool append(std::unique_lock<std::mutex>& lock, std::string_view bytes, bool bounded);
  // The ping of a stream that has nothing else to send.
  void send_ping();
};

std::shared_ptr<Responder> channel_responder(std::shared_ptr<Channel> channel);

}  // namespace drafthorse
