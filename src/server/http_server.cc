// The only file that includes Beast and Asio: connections, parsing, timeouts, writing.
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>

#include "server/access.h"
#include "server/channel.h"
#include "server/http.h"
#include "server/options.h"

namespace drafthorse {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using Parser = http::request_parser<http::string_body>;

namespace {

constexpr size_t kReadAhead = 64 << 10;  // bytes a client may send beyond the request that is being answered
constexpr auto kLinger = std::chrono::seconds(2);
constexpr int kMaxRefusals = 64;  // connections over the limit that still get a 503

class Session;

// What all connections share.
struct Core {
  Core(const ServerOptions& o, HttpHandlers h) : options(o), handlers(std::move(h)), io(options.io_threads) {}
  ServerOptions options;
  HttpHandlers handlers;
  asio::io_context io;
  std::atomic<bool> stopping{false};
  std::atomic<uint64_t> body_bytes{0};
  std::mutex mutex;  // guards the rest
  std::condition_variable changed;
  std::map<Session*, std::weak_ptr<Session>> sessions;
  int answering = 0;
};

HttpRequest to_request(const http::request_header<>& head) {
  HttpRequest out;
  out.method.assign(head.method_string().data(), head.method_string().size());
  const std::string_view target(head.target().data(), head.target().size());
  const size_t question = target.find('?');
  out.path = target.substr(0, question);
  if (question != std::string_view::npos) out.query = target.substr(question + 1);
  out.version = static_cast<int>(head.version());
  for (const auto& field : head) {
    std::string name(field.name_string().data(), field.name_string().size());
    for (char& c : name)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    out.headers.emplace_back(std::move(name), std::string(field.value().data(), field.value().size()));
  }
  return out;
}

void set_limits(Parser& parser, const ServerOptions& options) {
  parser.header_limit(options.max_header);
  parser.body_limit(options.max_body);
}

// One connection. Everything runs on its strand except the constructor.
class Session final : public Outlet, public std::enable_shared_from_this<Session> {
 public:
  Session(std::shared_ptr<Core> core, tcp::socket socket)
      : core_(std::move(core)),
        socket_(std::move(socket)),
        deadline_(socket_.get_executor()),
        write_deadline_(socket_.get_executor()),
        pinger_(socket_.get_executor()) {}

  ~Session() override {
    core_->body_bytes -= reserved_;
    std::lock_guard lock(core_->mutex);
    core_->sessions.erase(this);
    core_->changed.notify_all();
  }

  void start() {
    error_code ignored;
    socket_.set_option(tcp::no_delay(true), ignored);
    asio::post(socket_.get_executor(), [self = shared_from_this()] { self->read_request(true); });
  }

  void start_refusal(const std::string& message) {
    asio::post(socket_.get_executor(), [self = shared_from_this(), message] { self->refuse(503, message); });
  }

  auto executor() { return socket_.get_executor(); }

  void flush_soon() override {
    asio::post(socket_.get_executor(), [self = shared_from_this()] { self->flush(); });
  }
  void abort_soon(Gone why) override {
    asio::post(socket_.get_executor(), [self = shared_from_this(), why] { self->abort(why); });
  }

  // Moves the channel's bytes to the socket; finishes the answer after the last.
  void flush() {
    if (!channel_ || !writing_.empty()) return;
    bool ended;
    {
      std::lock_guard lock(channel_->mutex);
      channel_->flush_posted = false;
      writing_.swap(channel_->pending);
      channel_->in_flight = writing_.size();
      ended = channel_->ended;
    }
    if (!writing_.empty()) {
      written_ = 0;
      write_some();
    } else if (ended) {
      finish_answer();
    } else {
      arm_ping();
    }
  }

  void abort(Gone why) {
    closed_ = true;
    error_code ignored;
    socket_.close(ignored);
    deadline_.cancel();
    release_channel(why);
  }

  // Graceful stop: an idle or half-read connection ends now, an answer ends first.
  void retire() {
    if (!channel_) abort(Gone::stopping);
  }

 private:
  void set_deadline(std::chrono::milliseconds time, int status) {
    deadline_.expires_after(time);
    deadline_.async_wait([self = shared_from_this(), status](error_code ec) {
      if (ec || self->closed_ || self->deadline_.expiry() > std::chrono::steady_clock::now()) return;
      if (status == 0) return self->abort(Gone::left);
      error_code ignored;
      self->socket_.cancel(ignored);  // the pending read ends with operation_aborted
      self->timed_out_ = true;
    });
  }

  void read_request(bool first) {
    if (closed_) return;
    if (core_->stopping) return abort(Gone::stopping);
    parser_.emplace();
    set_limits(*parser_, core_->options);
    timed_out_ = false;
    if (first || buffer_.size() > 0) return read_header();
    set_deadline(core_->options.idle_timeout, 0);
    socket_.async_wait(tcp::socket::wait_read, [self = shared_from_this()](error_code ec) {
      if (ec || self->closed_) return self->abort(Gone::left);
      self->read_header();
    });
  }

  void read_header() {
    set_deadline(core_->options.header_timeout, 408);
    http::async_read_header(socket_, buffer_, *parser_,
                            [self = shared_from_this()](error_code ec, size_t) { self->on_header(ec); });
  }

  void on_header(error_code ec) {
    if (closed_) return;
    if (ec) return on_read_error(ec);
    head_ = to_request(parser_->get().base());
    if (auto refusal = core_->handlers.check(head_)) return refuse(std::move(*refusal));
    if (!reserve_body()) return;
    set_deadline(core_->options.body_timeout, 408);
    if (parser_->is_done() || head_.header("expect") != "100-continue") return read_body();
    writing_ = "HTTP/1.1 100 Continue\r\n\r\n";
    asio::async_write(socket_, asio::buffer(writing_), [self = shared_from_this()](error_code ec, size_t) {
      self->writing_.clear();
      if (ec || self->closed_) return self->abort(Gone::left);
      self->read_body();
    });
  }

  // Takes the body's bytes out of the shared budget: its length when it is known, the limit when it is not.
  bool reserve_body() {
    uint64_t want = 0;
    if (parser_->content_length()) want = *parser_->content_length();
    else if (parser_->chunked()) want = core_->options.max_body;
    const uint64_t now = core_->body_bytes += want;
    reserved_ += want;
    if (want == 0 || now <= core_->options.max_body_total) return true;
    refuse(503, "The server is reading as many request bytes as it may; try again shortly.");
    return false;
  }

  void read_body() {
    http::async_read(socket_, buffer_, *parser_,
                     [self = shared_from_this()](error_code ec, size_t) { self->on_body(ec); });
  }

  void on_body(error_code ec) {
    if (closed_) return;
    if (ec) return on_read_error(ec);
    deadline_.cancel();
    HttpRequest request = std::move(head_);
    const bool keep_alive = parser_->get().keep_alive();
    request.body = std::move(parser_->get().body());
    core_->body_bytes -= reserved_ - request.body.size();
    reserved_ = request.body.size();
    open_channel(request.method == "HEAD", request.version >= 11, keep_alive);
    auto responder = channel_responder(channel_);
    watch();
    try {
      core_->handlers.handle(std::move(request), responder);
    } catch (const std::exception& e) {
      spdlog::error("a request handler threw: {}", e.what());
      responder->send(core_->handlers.refuse(500, "The server failed to handle the request; its log says more."));
    }
  }

  void on_read_error(error_code ec) {
    if (timed_out_) {
      if (buffer_.size() == 0 && !parser_->got_some()) return abort(Gone::left);
      return refuse(408, "The request did not arrive in time.");
    }
    if (ec == http::error::end_of_stream || ec == asio::error::operation_aborted) return abort(Gone::left);
    if (ec == http::error::header_limit)
      return refuse(431, fmt::format("The request's header is larger than {} bytes.", core_->options.max_header));
    if (ec == http::error::body_limit)
      return refuse(413, fmt::format("The request's body is larger than {} bytes.", core_->options.max_body));
    if (ec.category() == http::make_error_code(http::error::bad_method).category() &&
        ec != http::error::partial_message)
      return refuse(400, "The request is not valid HTTP: " + ec.message() + ".");
    abort(Gone::left);
  }

  void open_channel(bool head_only, bool chunked, bool keep_alive) {
    channel_ = std::make_shared<Channel>();
    channel_->outlet = shared_from_this();
    channel_->limit = core_->options.max_stream_buffer;
    channel_->head_only = head_only;
    channel_->chunked = chunked;
    channel_->keep_alive = keep_alive && !core_->stopping;
    std::lock_guard lock(core_->mutex);
    ++core_->answering;
  }

  // Answers without a request and closes; the rest of what the client sends is thrown away.
  void refuse(HttpResponse response) {
    deadline_.cancel();
    open_channel(false, false, false);
    channel_->refused = true;
    channel_responder(channel_)->send(std::move(response));
  }
  void refuse(int status, const std::string& message) { refuse(core_->handlers.refuse(status, message)); }

  // Reads while the answer is made: the next request's bytes, or the news that the client left.
  void watch() {
    if (watching_) return;
    watching_ = true;
    socket_.async_read_some(buffer_.prepare(4096), [self = shared_from_this()](error_code ec, size_t n) {
      self->watching_ = false;
      if (self->closed_) return;
      self->buffer_.commit(n);
      if (std::exchange(self->next_, false)) return self->read_request(false);
      if (ec) return self->abort(Gone::left);
      if (self->buffer_.size() > kReadAhead) return self->abort(Gone::slow);
      self->watch();
    });
  }

  void write_some() {
    write_deadline_.expires_after(core_->options.write_timeout);
    write_deadline_.async_wait([self = shared_from_this()](error_code ec) {
      if (!ec && !self->closed_ && self->write_deadline_.expiry() <= std::chrono::steady_clock::now())
        self->abort(Gone::slow);
    });
    const auto rest = asio::buffer(writing_.data() + written_, writing_.size() - written_);
    socket_.async_write_some(rest, [self = shared_from_this()](error_code ec, size_t n) {
      self->write_deadline_.cancel();
      if (self->closed_) return;
      if (ec) return self->abort(Gone::left);
      self->written_ += n;
      if (self->written_ < self->writing_.size()) return self->write_some();
      self->writing_.clear();
      self->flush();
    });
  }

  void arm_ping() {
    if (channel_->ping.empty()) return;
    pinger_.expires_after(core_->options.ping_interval);
    pinger_.async_wait([self = shared_from_this(), channel = channel_](error_code ec) {
      if (!ec && !self->closed_ && self->channel_ == channel) channel->send_ping();
    });
  }

  void finish_answer() {
    bool keep_alive, refused;
    {
      std::lock_guard lock(channel_->mutex);
      refused = channel_->refused;
      keep_alive = channel_->keep_alive;
    }
    release_channel(Gone::no);
    if (!keep_alive) return linger(refused);
    if (!watching_) return read_request(false);
    next_ = true;
    error_code ignored;
    socket_.cancel(ignored);
  }

  // Ends our side, then reads what still comes, so that the client sees the answer and not a reset.
  void linger(bool discard) {
    error_code ignored;
    socket_.shutdown(tcp::socket::shutdown_send, ignored);
    set_deadline(kLinger, 0);
    if (!watching_) discard_input(discard);
  }
  void discard_input(bool discard) {
    socket_.async_read_some(buffer_.prepare(discard ? 65536 : 512),
                            [self = shared_from_this(), discard](error_code ec, size_t) {
                              if (self->closed_) return;
                              if (ec) return self->abort(Gone::left);
                              self->discard_input(discard);
                            });
  }

  // Detaches the answer; its owner is told when it was not complete.
  void release_channel(Gone why) {
    pinger_.cancel();
    write_deadline_.cancel();
    if (!channel_) return;
    std::function<void()> callback;
    std::shared_ptr<Outlet> self;  // until the lock is gone
    {
      std::lock_guard lock(channel_->mutex);
      if (channel_->gone == Gone::no) channel_->gone = why;
      if (why != Gone::no) callback = std::move(channel_->on_gone);
      channel_->on_gone = nullptr;
      self = std::move(channel_->outlet);
    }
    channel_.reset();
    core_->body_bytes -= reserved_;
    reserved_ = 0;
    {
      std::lock_guard lock(core_->mutex);
      --core_->answering;
      core_->changed.notify_all();
    }
    if (callback) callback();
  }

  std::shared_ptr<Core> core_;
  tcp::socket socket_;
  asio::steady_timer deadline_, write_deadline_, pinger_;
  boost::beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  HttpRequest head_;
  std::shared_ptr<Channel> channel_;
  std::string writing_;
  size_t written_ = 0;
  uint64_t reserved_ = 0;
  bool closed_ = false, timed_out_ = false, watching_ = false;
  bool next_ = false;  // the answer is done; the watch, once cancelled, reads the next request
};

}  // namespace

struct HttpServer::Impl {
  explicit Impl(std::shared_ptr<Core> c)
      : core(std::move(c)),
        work(core->io.get_executor()),
        strand(asio::make_strand(core->io)),
        acceptor(strand),
        retry(strand),
        signals(strand) {}

  void accept() {
    acceptor.async_accept(asio::make_strand(core->io), [this](error_code ec, tcp::socket socket) {
      if (!acceptor.is_open()) return;
      if (ec) return accept_later(ec);
      welcome(std::move(socket));
      accept();
    });
  }

  // Out of descriptors or the like: new connections wait in the system's queue.
  void accept_later(error_code ec) {
    spdlog::warn("cannot accept a connection: {}", ec.message());
    retry.expires_after(std::chrono::milliseconds(100));
    retry.async_wait([this](error_code cancelled) {
      if (!cancelled && acceptor.is_open()) accept();
    });
  }

  void welcome(tcp::socket socket) {
    auto session = std::make_shared<Session>(core, std::move(socket));
    size_t count;
    {
      std::lock_guard lock(core->mutex);
      core->sessions[session.get()] = session;
      count = core->sessions.size();
    }
    const size_t limit = static_cast<size_t>(core->options.max_connections);
    if (count <= limit) session->start();
    else if (count <= limit + kMaxRefusals)
      session->start_refusal(fmt::format("The server has {} connections open and takes no more.", limit));
  }

  template <class F>
  void each_session(F&& action) {
    std::vector<std::shared_ptr<Session>> live;
    {
      std::lock_guard lock(core->mutex);
      for (const auto& [raw, weak] : core->sessions)
        if (auto session = weak.lock()) live.push_back(std::move(session));
    }
    for (auto& session : live) asio::post(session->executor(), [session, action] { action(*session); });
  }

  void wait_signal(std::function<void()> callback) {
    signals.async_wait([this, callback](error_code ec, int) {
      if (ec) return;
      callback();
      wait_signal(callback);
    });
  }

  std::shared_ptr<Core> core;
  asio::executor_work_guard<asio::io_context::executor_type> work;
  asio::strand<asio::io_context::executor_type> strand;
  tcp::acceptor acceptor;
  asio::steady_timer retry;
  asio::signal_set signals;
  std::vector<std::thread> threads;
  tcp::endpoint bound;
};

namespace {

Result<tcp::endpoint> resolve(const ServerOptions& options, asio::io_context& io) {
  std::string host = options.host;
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  if (host == "localhost") host = "127.0.0.1";
  error_code ec;
  const auto address = asio::ip::make_address(host, ec);
  if (!ec) return tcp::endpoint(address, options.port);
  tcp::resolver resolver(io);
  const auto found = resolver.resolve(host, std::to_string(options.port), ec);
  if (ec || found.empty())
    return Error{ErrorKind::io,
                 fmt::format("The address '{}' cannot be resolved ({}); give an address of this machine with --host.",
                             options.host, ec.message()),
                 "host"};
  return found.begin()->endpoint();
}

Error bind_error(const tcp::endpoint& endpoint, error_code ec) {
  const std::string address = endpoint.address().to_string();
  if (ec == asio::error::address_in_use)
    return {ErrorKind::io,
            fmt::format("Port {} on {} is in use: stop the program that uses it or choose another with --port.",
                        endpoint.port(), address),
            "port"};
  if (ec == asio::error::access_denied)
    return {ErrorKind::io,
            fmt::format("Port {} on {} needs privileges: choose one above 1023 with --port.", endpoint.port(), address),
            "port"};
  return {ErrorKind::io,
          fmt::format("Cannot listen on {} port {} ({}); give an address of this machine with --host.", address,
                      endpoint.port(), ec.message()),
          "host"};
}

}  // namespace

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() {
  try {
    close();
  } catch (...) {
    std::terminate();  // its threads still use what would be gone
  }
}

Result<std::unique_ptr<HttpServer>> HttpServer::listen(const ServerOptions& options, HttpHandlers handlers) {
  auto impl = std::make_unique<Impl>(std::make_shared<Core>(options, std::move(handlers)));
  auto endpoint = resolve(options, impl->core->io);
  if (!endpoint) return endpoint.error();
  if (Status status = check_bind(options, endpoint->address().is_loopback()); !status) return status.error();
  error_code ec;
  impl->acceptor.open(endpoint->protocol(), ec);
  if (!ec) impl->acceptor.set_option(tcp::acceptor::reuse_address(true), ec);
  if (!ec) impl->acceptor.bind(*endpoint, ec);
  if (!ec) impl->acceptor.listen(asio::socket_base::max_listen_connections, ec);
  if (ec) return bind_error(*endpoint, ec);
  impl->bound = impl->acceptor.local_endpoint();
  asio::post(impl->strand, [raw = impl.get()] { raw->accept(); });
  for (int i = 0; i < std::max(1, options.io_threads); ++i)
    impl->threads.emplace_back([core = impl->core] { core->io.run(); });
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

std::string HttpServer::url() const {
  const auto address = impl_->bound.address();
  return address.is_v6() ? fmt::format("http://[{}]:{}", address.to_string(), port())
                         : fmt::format("http://{}:{}", address.to_string(), port());
}

uint16_t HttpServer::port() const { return impl_->bound.port(); }

int HttpServer::connections() const {
  std::lock_guard lock(impl_->core->mutex);
  return static_cast<int>(impl_->core->sessions.size());
}

void HttpServer::catch_signals(std::function<void()> callback) {
  asio::post(impl_->strand, [impl = impl_.get(), callback = std::move(callback)] {
    error_code ec;
    impl->signals.add(SIGINT, ec);
    impl->signals.add(SIGTERM, ec);
    impl->wait_signal(callback);
  });
}

void HttpServer::stop_accepting() {
  impl_->core->stopping = true;
  asio::post(impl_->strand, [impl = impl_.get()] {
    error_code ignored;
    impl->acceptor.close(ignored);
    impl->retry.cancel();
  });
  impl_->each_session([](Session& session) { session.retire(); });
}

bool HttpServer::drain(std::chrono::milliseconds timeout) {
  std::unique_lock lock(impl_->core->mutex);
  return impl_->core->changed.wait_for(lock, timeout, [&] { return impl_->core->answering == 0; });
}

void HttpServer::close() {
  if (impl_->threads.empty()) return;
  stop_accepting();
  asio::post(impl_->strand, [impl = impl_.get()] { impl->signals.cancel(); });
  impl_->each_session([](Session& session) { session.abort(Gone::stopping); });
  {
    std::unique_lock lock(impl_->core->mutex);
    impl_->core->changed.wait_for(lock, std::chrono::seconds(5), [&] { return impl_->core->sessions.empty(); });
  }
  impl_->work.reset();
  for (std::thread& thread : impl_->threads) thread.join();
  impl_->threads.clear();
}

Result<HttpRequest> parse_http_request(std::string_view bytes, const ServerOptions& options) {
  Parser parser;
  set_limits(parser, options);
  parser.eager(true);
  error_code ec;
  size_t used = 0;
  while (!ec && !parser.is_done() && used < bytes.size()) {
    const size_t n = parser.put(asio::buffer(bytes.data() + used, bytes.size() - used), ec);
    if (n == 0) break;
    used += n;
  }
  // The end of nothing at all would count as a whole request.
  if (!ec && !parser.is_done() && parser.got_some()) parser.put_eof(ec);
  if (ec || !parser.is_done())
    return Error{ErrorKind::invalid_argument,
                 "The request is not valid HTTP: " + (ec ? ec.message() : "it is cut short") + ".", ""};
  HttpRequest request = to_request(parser.get().base());
  request.body = std::move(parser.get().body());
  return request;
}

}  // namespace drafthorse
