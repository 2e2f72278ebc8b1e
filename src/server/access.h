#pragma once
// Who may ask: bind rules, Host and Origin checks, API keys.

#include <optional>
#include <string>
#include <string_view>

#include "core/result.h"
#include "server/http.h"
#include "server/options.h"

namespace drafthorse {

// Beyond loopback a key is needed, or an explicit no_auth. Error: invalid_argument that says so.
Status check_bind(const ServerOptions& options, bool loopback);

// 127.0.0.0/8, ::1 and "localhost" (also as the end of a name: x.localhost).
bool is_loopback_host(std::string_view host);

// True when the Host header's name (port and brackets aside) is a loopback one, the bound host or an allowed one.
// Bound beyond loopback, IP literals pass too: DNS rebinding needs a name.
bool host_allowed(std::string_view host_header, const ServerOptions& options);

// The value for Access-Control-Allow-Origin, or nothing when the origin may not read answers.
std::optional<std::string> cors_origin(std::string_view origin, const ServerOptions& options);

// True when no key is configured or the request carries one (Authorization: Bearer, x-api-key); constant time.
bool key_accepted(const HttpRequest& request, const ServerOptions& options);

}  // namespace drafthorse
