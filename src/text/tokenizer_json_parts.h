#pragma once
// The normalizer, pre_tokenizer, decoder and post_processor entries of a tokenizer.json. A type or an option that is
// not understood is an error (unsupported) that names it: text must never be tokenised by guess.

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "text/tokenizer_spec.h"

namespace drafthorse {

struct PreTokenizerSpec {
  std::vector<PreTokenizerStep> steps;
  bool byte_level = false;  // it ends with ByteLevel: the subword model sees bytes
};

// `entry` may be null or absent (nullptr) in all of these.
Result<std::vector<NormalizerStep>> json_normalizer(const boost::json::value* entry);
Result<PreTokenizerSpec> json_pre_tokenizer(const boost::json::value* entry);
Result<DecoderSpec> json_decoder(const boost::json::value* entry);
// The token that the post-processor puts in front of a text; empty: none. Tokens that it puts behind are left out, as
// the text that we tokenise is always the beginning of something.
Result<std::string> json_prefix_token(const boost::json::value* entry);

// A string member, if there is one; a boolean member or `otherwise`; a number written in decimal digits.
std::optional<std::string> json_text(const boost::json::object& entry, std::string_view key);
bool json_flag(const boost::json::object& entry, std::string_view key, bool otherwise);
std::optional<int64_t> json_whole_number(std::string_view digits);

}  // namespace drafthorse
