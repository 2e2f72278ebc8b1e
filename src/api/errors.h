#pragma once
// Errors as the OpenAI API words them.

#include <string>
#include <string_view>

#include "core/result.h"

namespace drafthorse {

// HTTP status of a kind: 400, 401, 404, 429, 503 or 500.
int http_status(ErrorKind kind);

// {"error":{"message":…,"type":…,"param":…,"code":…}}. `code` overrides the kind's own
// (context_length_exceeded, invalid_api_key, server_busy, unsupported_value, …; null when there is none).
std::string error_body(const Error& error, std::string_view code = {});

}  // namespace drafthorse
