#pragma once
// Errors as values: what a user can cause is returned, with enough context to say what to do next.
// Exceptions are left for bugs.

#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace drafthorse {

// What kind of thing went wrong; the API layer maps kinds to HTTP statuses and exit codes.
enum class ErrorKind {
  invalid_argument,  // the request or option is wrong (HTTP 400)
  not_found,         // a file, model or name does not exist (404)
  unsupported,       // understood but not offered (400)
  corrupt,           // a file's contents contradict its format
  io,                // the system refused (disk full, permission, network)
  out_of_memory,     // the memory budget would be exceeded (503)
  busy,              // a bounded queue is full (429)
  context_length,    // prompt longer than the context (400, code context_length_exceeded)
  cancelled,         // the caller went away
  unauthorized,      // a key is missing or wrong (401/403)
  internal,          // a bug of ours (500)
};

struct Error {
  ErrorKind kind = ErrorKind::internal;
  std::string message;  // one sentence that names the thing and the next step
  std::string param;    // request field or option at fault, when there is one

  // The same error with "context: " put in front of the message.
  Error with_context(const std::string& context) const { return {kind, context + ": " + message, param}; }
};

// Either a T or an Error. Test it before value(); value() on an error is a bug and throws.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  explicit operator bool() const { return state_.index() == 0; }
  bool ok() const { return state_.index() == 0; }
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::get<0>(std::move(state_)); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  const Error& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, Error> state_;
};

// Success or an Error, for functions that return nothing else.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Error error) : error_(std::move(error)) {}
  explicit operator bool() const { return !error_; }
  bool ok() const { return !error_; }
  const Error& error() const { return *error_; }

 private:
  std::optional<Error> error_;
};

}  // namespace drafthorse
