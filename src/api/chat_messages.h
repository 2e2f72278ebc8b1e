#pragma once
// The `messages` of a chat request, checked and brought into the form that chat templates expect.

#include <boost/json/array.hpp>

#include "core/result.h"

namespace drafthorse {

// Roles system, developer (becomes system), user, assistant, tool. Content is a string or an array of text parts,
// which are joined with line ends; it may be absent only beside tool_calls. tool_calls' arguments become objects
// where they are one. Errors name the message and the field: "messages[2].content[0].type".
Result<boost::json::array> decode_messages(const boost::json::array& messages);

}  // namespace drafthorse
