#pragma once
// From a completion's events to the bytes of an answer. One interface for every wire format, streamed or whole.

#include <memory>
#include <string>

#include "api/request.h"
#include "completion/completion.h"

namespace drafthorse {

// Calls come one at a time: begin, events of choices 0 .. info.choices - 1 in any interleaving, then finish
// when every choice had its Finish; or error at any point after begin, and nothing after it.
// A stream's functions return the bytes to send now; a whole answer's return nothing but finish's body.
class AnswerEncoder {
 public:
  virtual ~AnswerEncoder() = default;
  virtual std::string begin() = 0;
  virtual std::string event(int choice, const Event& event) = 0;
  virtual std::string finish() = 0;
  // In a stream an error event, after which the stream ends; in a whole answer the error body.
  virtual std::string error(const Error& error) = 0;
};

}  // namespace drafthorse
