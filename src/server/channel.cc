#include "server/channel.h"

#include <fmt/format.h>

namespace drafthorse {
namespace {

std::string as_chunk(std::string_view bytes) { return fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes); }

class ChannelResponder final : public Responder {
 public:
  explicit ChannelResponder(std::shared_ptr<Channel> channel) : channel_(std::move(channel)) {}

  ~ChannelResponder() override {
    std::unique_lock lock(channel_->mutex);
    if (channel_->ended || channel_->gone != Gone::no) return;
    auto outlet = channel_->outlet;
    lock.unlock();
    if (outlet) outlet->abort_soon(Gone::stopping);
  }

  void send(HttpResponse response) override {
    std::unique_lock lock(channel_->mutex);
    if (channel_->begun || channel_->ended) return;
    channel_->ended = true;
    std::string bytes = response_head(response.status, response.content_type, response.headers, response.body.size(),
                                      false, channel_->keep_alive);
    if (!channel_->head_only) bytes += response.body;
    channel_->append(lock, bytes, false);
  }

  void begin(StreamHead head) override {
    std::unique_lock lock(channel_->mutex);
    if (channel_->begun || channel_->ended) return;
    channel_->begun = true;
    channel_->ping = std::move(head.ping);
    if (!channel_->chunked) channel_->keep_alive = false;  // the connection's end is the body's end
    channel_->append(
        lock,
        response_head(200, head.content_type, head.headers, std::nullopt, channel_->chunked, channel_->keep_alive),
        false);
  }

  bool write(std::string_view bytes) override {
    std::unique_lock lock(channel_->mutex);
    if (!channel_->begun || channel_->ended) return false;
    if (bytes.empty() || channel_->head_only) return channel_->gone == Gone::no;
    if (!channel_->chunked) return channel_->append(lock, bytes, true);
    return channel_->append(lock, as_chunk(bytes), true);
  }

  void end() override {
    std::unique_lock lock(channel_->mutex);
    if (!channel_->begun || channel_->ended) return;
    channel_->ended = true;
    channel_->append(lock, channel_->chunked && !channel_->head_only ? "0\r\n\r\n" : "", false);
  }

  Gone gone() const override {
    std::lock_guard lock(channel_->mutex);
    return channel_->gone;
  }

  void on_gone(std::function<void()> callback) override {
    std::unique_lock lock(channel_->mutex);
    if (channel_->gone == Gone::no) {
      if (channel_->outlet) channel_->on_gone = std::move(callback);
      return;
    }
    lock.unlock();
    callback();
  }

 private:
  std::shared_ptr<Channel> channel_;
};

}  // namespace

bool Channel::append(std::unique_lock<std::mutex>& lock, std::string_view bytes, bool bounded) {
  if (gone != Gone::no) return false;
  const bool fits = !bounded || pending.size() + in_flight + bytes.size() <= limit;
  if (fits) pending.append(bytes);
  else gone = Gone::slow;
  const bool wake = !fits || !flush_posted;
  if (fits) flush_posted = true;
  const std::shared_ptr<Outlet> to = outlet;
  lock.unlock();
  if (to && !fits) to->abort_soon(Gone::slow);
  else if (to && wake) to->flush_soon();
  return fits;
}

void Channel::send_ping() {
  std::unique_lock lock(mutex);
  if (ended || !pending.empty()) return;
  append(lock, chunked ? as_chunk(ping) : ping, true);
}

std::shared_ptr<Responder> channel_responder(std::shared_ptr<Channel> channel) {
  return std::make_shared<ChannelResponder>(std::move(channel));
}

}  // namespace drafthorse
