#include "cli/commands.h"

#include <array>
#include <exception>
#include <utility>

#include <fmt/format.h>

namespace drafthorse {
namespace {

constexpr std::array<std::pair<std::string_view, Status (*)(const Options&)>, 8> kCommands = {{
    {"serve", serve_command},
    {"run", run_command},
    {"generate", generate_command},
    {"pull", pull_command},
    {"list", list_command},
    {"inspect", inspect_command},
    {"bench", bench_command},
    {"selftest", selftest_command},
}};

int exit_code(const Error& error) {
  if (error.kind == ErrorKind::invalid_argument) return 2;
  return error.kind == ErrorKind::cancelled ? 130 : 1;
}

int report(const Error& error) {
  fmt::print(stderr, "drafthorse: {}\n", error.message);
  return exit_code(error);
}

}  // namespace

int run_command_line(int argc, const char* const* argv) {
  try {
    auto parsed = parse_options(argc, argv, read_environment());
    if (!parsed) return report(parsed.error());
    if (auto* help = std::get_if<HelpText>(&*parsed)) {
      fmt::print("{}", help->text);
      return 0;
    }
    const Options& options = std::get<Options>(*parsed);
    for (const auto& [name, command] : kCommands) {
      if (name != options.command) continue;
      Status status = command(options);
      return status ? 0 : report(status.error());
    }
    return report({ErrorKind::internal, "no such command: " + options.command, ""});
  } catch (const std::exception& error) {
    return report({ErrorKind::internal, fmt::format("internal error: {}; please report it", error.what()), ""});
  }
}

}  // namespace drafthorse
