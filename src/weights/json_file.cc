#include "weights/json_file.h"

#include <fmt/format.h>
#include <boost/json/parse.hpp>

#include "core/mapped_file.h"

namespace drafthorse {

Result<boost::json::object> read_json_object(const std::filesystem::path& path) {
  constexpr size_t kMaxBytes = 64u << 20;
  const auto fail = [&](const std::string& text) {
    return Error{ErrorKind::corrupt, fmt::format("{}: {}", path.string(), text), {}};
  };
  const Result<MappedFile> file = MappedFile::open(path);
  if (!file) return file.error();
  if (file->bytes().size() > kMaxBytes) return fail(fmt::format("expected at most {} bytes of JSON", kMaxBytes));
  boost::system::error_code error;
  boost::json::value value = boost::json::parse(
      std::string_view(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()), error);
  if (error) return fail(fmt::format("it is not JSON: {}", error.message()));
  if (!value.is_object()) return fail("expected a JSON object");
  return std::move(value.get_object());
}

}  // namespace drafthorse
