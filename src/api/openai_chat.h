#pragma once
// POST /v1/chat/completions: the request's decoder and the answer's encoders.

#include <memory>

#include <boost/json/value.hpp>

#include "api/encoder.h"
#include "api/request.h"
#include "api/served_model.h"

namespace drafthorse {

// Errors carry the field's path as param: invalid_argument, unsupported, not_found (model).
Result<ApiRequest> decode_chat(const boost::json::value& body, const ServedModel& model);

// Server-sent events of chat.completion.chunk objects, or one chat.completion object.
std::unique_ptr<AnswerEncoder> chat_encoder(const AnswerInfo& info, bool stream);

}  // namespace drafthorse
