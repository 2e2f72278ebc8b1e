#pragma once
// POST /v1/completions: the request's decoder and the answer's encoders.

#include <memory>

#include <boost/json/value.hpp>

#include "api/encoder.h"
#include "api/request.h"
#include "api/served_model.h"

namespace drafthorse {

// `prompt`: a string, an array of strings, an array of token ids, or an array of such arrays.
// Errors carry the field as param: invalid_argument, unsupported, not_found (model).
Result<ApiRequest> decode_completions(const boost::json::value& body, const ServedModel& model);

// Server-sent events of text_completion objects, or one text_completion object.
std::unique_ptr<AnswerEncoder> completions_encoder(const AnswerInfo& info, bool stream);

}  // namespace drafthorse
